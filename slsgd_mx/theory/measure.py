"""One run of a case, epoch by epoch, through the project's own algorithm and server."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np

from slsgd_mx.core.algorithm import initialize, run_epoch, select_poisoned
from slsgd_mx.system import signals
from slsgd_mx.tasks.problems.objectives import Objective
from slsgd_mx.tasks.problems.task import ProblemTask
from slsgd_mx.theory.adversary import WatchingServer
from slsgd_mx.theory.cases import Case
from slsgd_mx.theory.lemma import away_from
from slsgd_mx.theory.tables import Row


def measure(case: Case, seed: int) -> List[Row]:
    """Rows of epochs 0..T: the error, and the largest squares seen up to there.

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
