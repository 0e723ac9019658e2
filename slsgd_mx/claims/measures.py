"""The numbers that rules compare, each computed from one run or from several."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Dict, List, Optional, Set, Tuple

import numpy as np

from slsgd_mx.claims.evidence import Run, Undecided
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import SlsgdError
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.metrics import column, epochs_to, mean_change

GUESSING = math.log(10)  # the cross entropy of guessing among ten classes
LEARNED = 0.05  # the least an ideal has to learn, in accuracy or nats


def final(run: Run, metric: str) -> float:
    return column(run.rows, metric)[column(run.rows, "epoch") > 0.75 * run.config.epochs].mean()


def final_loss(run: Run) -> float:
    """On the training set; that of guessing if the run diverged."""
    return GUESSING if run.diverged else final(run, "train_loss")


def ideal_of(config: RunConfig) -> RunConfig:
    """FedAvg without attack."""
    return replace(config, alpha=1.0, b=0, q=0)


def progress(run: Run, ideal: Run) -> float:
    """The share of what the ideal learned, on the test set."""
    nats = "test_accuracy" not in run.config.sizes.metrics
    metric, sign = ("test_loss", -1) if nats else ("test_accuracy", 1)
    learned = 0.0
    if not ideal.diverged:
        nothing = float(ideal.rows[0][metric]) if nats else 0.1
        learned = sign * (final(ideal, metric) - nothing)
    if learned < LEARNED:
        raise Undecided(f"FedAvg without attack learned next to nothing ({learned:.4f} {metric})")
    return 0.0 if run.diverged else max(0.0, sign * (final(run, metric) - nothing) / learned)


def slow_down(run: Run, other: Run) -> Optional[float]:
    """Mean training loss over all evaluations, of one CNN less the other's."""
    if run.diverged and other.diverged:
        return None
    ours, theirs = (
        GUESSING if each.diverged else column(each.rows, "train_loss").mean()
        for each in (run, other)
    )
    return ours - theirs


def slow_down_by_attack(run: Run, ideal: Run) -> Optional[float]:
    progress(run, ideal)  # undecided where the ideal learned nothing
    return slow_down(run, ideal)


def roughness(run: Run) -> float:
    """Mean change of test accuracy between neighbouring evaluations after the decay; 0 if none."""
    return mean_change(run.rows, "test_accuracy", run.config.alpha_decay_epoch)


def smoothing(run: Run, other: Run) -> Optional[float]:
    """log(roughness / the other's); None where either run diverged or does not change at all."""
    if run.diverged or other.diverged or not roughness(run) * roughness(other):
        return None
    return math.log(roughness(run) / roughness(other))


def epochs_saved(loss: float, *runs: Run) -> Optional[float]:
    """Epochs that the second half of the runs takes less than the first, on average.

    None if neither run reaches the loss in more than half of the pairs.
    """
    half, saved = len(runs) // 2, []
    for slow, fast in zip(runs[:half], runs[half:]):
        reached = [math.inf if r.diverged else epochs_to(r.rows, loss) for r in (slow, fast)]
        if min(reached) < math.inf:
            never = slow.config.epochs + slow.config.eval_every
            before, after = (min(epoch, never) for epoch in reached)
            saved.append(before - after)
    return float(np.mean(saved)) if 2 * len(saved) >= max(half, 1) else None


def before_decay(run: Run) -> List[List[Optional[str]]]:
    """Epochs and metrics up to the decay, as text."""
    rows = [row for row in run.rows if float(row["epoch"]) <= run.config.alpha_decay_epoch]
    return [[row.get(name) for name in ("epoch", *run.config.sizes.metrics)] for row in rows]


def difference(run: Run, other: Run) -> Optional[float]:
    """1 if two runs differ before alpha decays, 0 if not; None if there is nothing to compare.

    Bits depend on threads and CPU: runs of other conditions, or of which one run's are unknown (it
    is known from a table), say nothing.
    """
    ours, theirs = before_decay(run), before_decay(other)
    if not (ours or theirs) or conditions(run) != conditions(other):
        return None
    return float(ours != theirs)


def sessions_of(run: Run) -> List[Dict[str, Any]]:
    """What a run's sessions computed with; [] if unknown."""
    try:
        return RunFolder(run.folder, run.config).sessions()
    except (SlsgdError, OSError):
        return []


def conditions(run: Run) -> Set[Tuple[str, ...]]:
    """What the bits of a run's sessions depend on; empty if unknown.

    Earlier versions did not record the instructions: such a run is compared with its like only.
    """
    names = ("threads", "cpu", "instructions")
    return {tuple(str(session.get(name)) for name in names) for session in sessions_of(run)}


def origin(run: Run) -> Optional[Tuple[str, Optional[str]]]:
    """The prefix a run was continued from, "" if none, and when that began; None if unknown."""
    first = (sessions_of(run) or [{"prefix": None}])[0]
    prefix = first.get("prefix", None if first.get("after_epoch") else "")
    return (prefix, first.get("started")) if isinstance(prefix, str) else None


def computed_separately(run: Run, other: Run) -> bool:
    """Whether two runs are known not to share a prefix.

    A prefix that was lost and computed again has the same name but began at another time.
    """
    ours, theirs = origin(run), origin(other)
    if ours is None or theirs is None:
        return False
    if ours[0] != theirs[0] or ours[0] == "":
        return True
    return all((ours[1], theirs[1])) and ours[1] != theirs[1]
