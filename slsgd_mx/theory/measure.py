"""One run of a case, epoch by epoch, through the project's own algorithm and server."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.attacks.worst_case import trimmed_with
from slsgd_mx.core.algorithm import initialize, run_epoch
from slsgd_mx.core.model_server import ModelServer
from slsgd_mx.core.server import Update, settings_of
from slsgd_mx.system import signals
from slsgd_mx.tasks.problems.objectives import Objective
from slsgd_mx.tasks.problems.task import ProblemTask
from slsgd_mx.theory.cases import Case
from slsgd_mx.theory.tables import Row


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
    server = WatchingServer(*settings_of(config))
    initialize(config, task, server)
    rows = [_row(seed, 0, task, server)]
    for t in range(1, config.epochs + 1):
        run_epoch(t, config, task, server, server.begin(t))
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

    After ``update``, ``variance`` is that of the honest pushes (sum over coordinates, divided by
    k-q) and ``deviation`` is ``|Trmean_b - honest mean|^2``.
    """

    variance = deviation = 0.0

    def update(self, alpha: float, poisoned: Sequence[int] = ()) -> Update:
        self._poisoned = poisoned
        return super().update(alpha, poisoned)

    def _apply(self, t: int, update: Update, matrix: Optional[np.ndarray], alpha: float) -> None:
        rows = {slot: self._shard.row(slot).astype(np.float64) for slot in sorted(update.arrived)}
        honest = np.array([x for slot, x in rows.items() if slot not in self._poisoned])
        bad = [x for slot, x in rows.items() if slot in self._poisoned and slot in update.accepted]
        self._record(honest, np.array(bad).reshape(-1, honest.shape[1]))
        super()._apply(t, update, matrix, alpha)

    def _record(self, honest: np.ndarray, bad: np.ndarray) -> None:
        mean = honest.mean(axis=0)
        with np.errstate(over="ignore"):
            together = trimmed_with(honest, self.settings.b, bad)
        self.variance = float(((honest - mean) ** 2).sum() / len(honest))
        self.deviation = float(((together - mean) ** 2).sum())
