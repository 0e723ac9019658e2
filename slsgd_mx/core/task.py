"""The interface of a workload: everything in which one workload differs from another.

To add one, make a folder in ``slsgd_mx/tasks`` with a frozen dataclass of its sizes (listed in
``tasks/sizes.py``) and a subclass of ``Task`` (listed in ``tasks/build.py``).  The trainer, the
server, the attacks and the run folder use only the interface below.
"""

from __future__ import annotations

import abc
from typing import Callable, Dict, List, Optional, Sequence

import numpy as np

from slsgd_mx.system.mxnet import mx

Poison = Callable[[np.ndarray], np.ndarray]  # one device's labels -> the labels it trains on


class Task(abc.ABC):
    """One workload: one worker's copy of the model, the data of all devices, the metrics."""

    values: Dict[str, mx.nd.NDArray]  # the worker's parameters: pull and train write into them
    moving_average: Dict[str, bool]  # False: line 15 replaces the old value, whatever alpha is
    classes: int  # number of labels, for attacks on labels
    data_digest: str  # SHA-256 of the data in use
    units_per_step: int  # images or tokens in a minibatch
    target: Optional[Dict[str, mx.nd.NDArray]] = None  # what a colluding attack may be after

    @abc.abstractmethod
    def initialize(self, seed: int) -> None:
        """Set ``values`` to x_0 before any training (line 2)."""

    @abc.abstractmethod
    def start_fresh(self, seed: int) -> None:
        """Set ``values`` to the random model that a poisoned worker may start from instead."""

    @abc.abstractmethod
    def steps_per_pass(self, device: int) -> int:
        """Local iterations in one full pass over a device's data."""

    @abc.abstractmethod
    def train(
        self, device: int, steps: int, gamma: float, seed: int, poison: Optional[Poison] = None
    ) -> None:
        """Run local SGD from ``values`` (lines 8-11)."""

    @abc.abstractmethod
    def score_sizes(self, parts: int) -> List[int]:
        """The lengths of the arrays that ``score`` returns for each of ``parts`` parts."""

    @abc.abstractmethod
    def score(self, part: int, parts: int) -> np.ndarray:
        """Evaluate one of several parts of the data on the model in ``values``; a flat array."""

    @abc.abstractmethod
    def metrics(self, scores: Sequence[np.ndarray]) -> Dict[str, float]:
        """The configured metrics, from the scores of all parts, however many there are."""

    def evaluate(self) -> Dict[str, float]:
        """The configured metrics of the model in ``values``."""
        return self.metrics([self.score(0, 1)])
