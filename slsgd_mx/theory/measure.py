"""One run of a case, epoch by epoch, through the project's own algorithm and server."""

from __future__ import annotations

from typing import Callable, Dict, List, Optional, Tuple

import numpy as np

from slsgd_mx.core.algorithm import initialize, run_epoch, select_poisoned
from slsgd_mx.core.server import ModelServer, Update
from slsgd_mx.system import signals
from slsgd_mx.system.arrays import as_numpy
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.problems.objectives import Objective
from slsgd_mx.tasks.problems.task import ProblemTask
from slsgd_mx.theory.adversary import away_from, trimmed_with
from slsgd_mx.theory.cases import Case
from slsgd_mx.theory.tables import Row

Adversary = Optional[Callable[[np.ndarray, int, int, np.ndarray], np.ndarray]]


def measure(case: Case, seed: int) -> List[Row]:
    """Rows of epochs 0..T: the error, and the largest squares seen up to each epoch.

    Examples
    --------
    >>> from slsgd_mx.theory.cases import Case, run
    >>> rows = measure(Case("tiny", "", run({"dimension": 2}, epochs=3)), seed=0)
    >>> [row.epoch for row in rows], rows[3].error < rows[0].error
    ([0, 1, 2, 3], True)
    """
    config = case.seeded(seed)
    task = ProblemTask(config)
    x_star = task.objective.x_star
    adversary = away_from if case.omniscient else None
    server = WatchingServer(config.k, config.b, config.nonfinite, x_star, adversary)
    initialize(config, task, server)
    rows = [_row(seed, 0, task, server)]
    for t in range(1, config.epochs + 1):
        server.poisoned = select_poisoned(config, t).tolist()
        run_epoch(t, config, task, server)
        rows.append(_row(seed, t, task, server))
        signals.check()
    return rows


def _row(seed: int, t: int, task: ProblemTask, server: WatchingServer) -> Row:
    x = server.values()["x"].astype(np.float64)
    error, away = evaluate(task.objective, x)
    seen = task.visited
    squares = (seen.gradient, seen.before, max(seen.pushed, away))
    return Row(seed, t, error, away, *squares, server.variance, server.deviation)


def evaluate(objective: Objective, x: np.ndarray) -> Tuple[float, float]:
    """F(x) - F(x_*) and |x - x_*|^2; infinite where x is not finite."""
    if not np.isfinite(x).all():
        return float("inf"), float("inf")
    return objective.error(x), float(((x - objective.x_star) ** 2).sum())


class WatchingServer(ModelServer):
    """A ``ModelServer`` of one parameter that records how far honest pushes and aggregate differ.

    Parameters
    ----------
    adversary : callable, optional
        ``adversary(honest, b, q, x_star)`` returns the pushes of the poisoned workers.  The threat
        model allows arbitrary pushes, so it sees every honest push first; in the algorithm these
        workers stay ``silent``.
    x_star : (d,)
        The optimum, from which the adversary wants to keep the model away.

    Set ``poisoned``, the poisoned slots, before every epoch.  After ``update``, ``variance`` is
    that of the honest pushes (sum over coordinates, divided by k-q) and ``deviation`` is
    ``|Trmean_b - honest mean|^2``.
    """

    def __init__(
        self, k: int, b: int, nonfinite: str, x_star: np.ndarray, adversary: Adversary = None
    ) -> None:
        super().__init__(k, b, nonfinite=nonfinite)
        self.trim, self.rejects = b, nonfinite == "reject"
        self.x_star, self.adversary = x_star, adversary
        self.poisoned: List[int] = []
        self.variance = self.deviation = 0.0
        self._recorded: Dict[int, np.ndarray] = {}

    def push(self, key: str, value: mx.nd.NDArray, slot: int) -> None:
        self._recorded[slot] = as_numpy(value).astype(np.float64)
        super().push(key, value, slot)

    def update(self, alpha: float) -> Update:
        honest = np.array([x for slot, x in self._recorded.items() if slot not in self.poisoned])
        if self.adversary is not None and self.poisoned:
            pushed = self.adversary(honest, self.trim, len(self.poisoned), self.x_star)
            for slot, x in zip(self.poisoned, pushed):
                self.push("x", mx.nd.array(x, dtype=np.float32), slot)
        self._record(honest)
        self._recorded.clear()
        return super().update(alpha)

    def _record(self, honest: np.ndarray) -> None:
        mean = honest.mean(axis=0)
        pushed = [x for slot, x in self._recorded.items() if slot in self.poisoned]
        if self.rejects:
            pushed = [x for x in pushed if np.isfinite(x).all()]
        bad = np.array(pushed).reshape(-1, honest.shape[1])
        with np.errstate(over="ignore"):
            together = trimmed_with(honest, self.trim, bad)
        self.variance = float(((honest - mean) ** 2).sum() / len(honest))
        self.deviation = float(((together - mean) ** 2).sum())
