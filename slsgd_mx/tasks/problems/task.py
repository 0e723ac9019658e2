"""Problems whose constants are known, as a task: local SGD in NumPy and float64."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.config import RunConfig
from slsgd_mx.core.task import Poison, Task
from slsgd_mx.randomness import stream
from slsgd_mx.system.arrays import as_ndarray
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.problems.objectives import build_objective

BLOCK = 16  # minibatches drawn together


@dataclass
class Visited:
    """The largest squares in honest local training, which Assumption 3 and V_2 bound."""

    gradient: float = 0.0  # |grad f(x_{t,h-1}^i; z)|^2 of the minibatches drawn
    before: float = 0.0  # |x_{t,h}^i - x_*|^2 for h = 0..H-1, the paper's V_2
    pushed: float = 0.0  # the same for h = 0..H, including the pushes, which the proof uses


class ProblemTask(Task):
    """n devices with samples of an objective; minibatches are drawn with replacement.

    A minibatch as large as the device's data is that data, without noise.  x_0 is part of the
    problem, because the theorems start from a given x_0.
    """

    classes = 2

    def __init__(self, config: RunConfig, data_dir: Optional[Path] = None) -> None:
        self.objective, self.names = build_objective(config.sizes, config.n), config.sizes.metrics
        samples = self.objective.inputs.shape[1]
        self.batch_size = self.units_per_step = min(config.batch_size, samples)
        self.steps = max(1, samples // self.batch_size)
        self.data_digest = hashlib.sha256(
            self.objective.inputs.tobytes() + self.objective.labels.tobytes()
        ).hexdigest()
        self.x = np.zeros(config.sizes.dimension, np.float32)  # the memory of values["x"]
        self.values = {"x": as_ndarray(self.x)}
        self.moving_average = {"x": True}
        self.target = {"x": as_ndarray(self.objective.x_star.astype(np.float32))}
        self.visited = Visited()

    def initialize(self, seed: int) -> None:
        self._write(self.objective.x_0)

    def start_fresh(self, seed: int) -> None:
        self._write(stream(seed, "afresh").standard_normal(self.x.size))

    def steps_per_pass(self, device: int) -> int:
        return self.steps

    def batches(
        self, device: int, rng: np.random.Generator, poison: Optional[Poison]
    ) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
        """Yield minibatches of one device endlessly, drawn independently as in the proof."""
        inputs, labels = self.objective.inputs[device], self.objective.labels[device]
        if poison is not None:
            labels = poison(labels.astype(int)).astype(float)
        if self.batch_size == len(labels):
            while True:
                yield inputs, labels
        while True:
            for rows in rng.integers(len(labels), size=(BLOCK, self.batch_size)):
                yield inputs[rows], labels[rows]

    def train(
        self, device: int, steps: int, gamma: float, seed: int, poison: Optional[Poison] = None
    ) -> None:
        x = self._read()
        path, slopes = [x], []
        batches = self.batches(device, stream(seed, "shuffle"), poison)
        for _ in range(steps):
            slope = self.objective.gradient(x, device, *next(batches))
            x = x - gamma * slope  # line 10
            path.append(x)
            slopes.append(slope)
        if poison is None:  # V_1 and V_2 concern honest workers
            self._record(path, slopes)
        self._write(x)

    def score_sizes(self, parts: int) -> List[int]:
        return [len(self.names)] + [0] * (parts - 1)

    def score(self, part: int, parts: int) -> np.ndarray:
        """Return all metrics in the first part: an evaluation is too small to be divided."""
        if part > 0:
            return np.empty(0)
        x = self._read()
        with np.errstate(all="ignore"):  # the model may be non-finite
            distance = float(np.linalg.norm(x - self.objective.x_star))
            loss = self.objective.value(x)
        return np.array([loss, loss - self.objective.least, distance])

    def metrics(self, scores: Sequence[np.ndarray]) -> Dict[str, float]:
        return dict(zip(self.names, scores[0].tolist()))

    def _record(self, path: List[np.ndarray], slopes: List[np.ndarray]) -> None:
        away = ((np.array(path) - self.objective.x_star) ** 2).sum(axis=1)
        seen = self.visited
        if slopes:
            seen.gradient = max(seen.gradient, float((np.array(slopes) ** 2).sum(axis=1).max()))
            seen.before = max(seen.before, float(away[:-1].max()))
        seen.pushed = max(seen.pushed, float(away.max()))

    def _read(self) -> np.ndarray:
        self.values["x"].wait_to_read()  # pulls are written by MXNet's engine
        return self.x.astype(np.float64)

    def _write(self, x: np.ndarray) -> None:
        mx.nd.waitall()  # pushes are read by MXNet's engine
        self.x[...] = x
