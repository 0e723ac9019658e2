"""How far a sweep is, and how long it will take: from plan.json and the run folders alone."""

from __future__ import annotations

import calendar
import math
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from slsgd_mx.errors import RunError
from slsgd_mx.runs.records import Run
from slsgd_mx.sweeps.plan import FILE
from slsgd_mx.system.files import parse_json, read_text

ENDED = ("done", "diverged", "failed")
MOST_EPOCHS = 2**40  # a plan with more is damaged


class Progress(NamedTuple):
    """Epochs and runs of what is being computed, and the seconds left; None if not known."""

    epochs: int
    epochs_total: int
    ended: int
    runs: int
    running: List[str]
    seconds_left: Optional[float]

    @property
    def unfinished(self) -> bool:
        return self.ended < self.runs


class Share(NamedTuple):
    """One run of a sweep: where it started in this sweep, how far it is, where it ends."""

    name: str
    start: int
    epoch: int
    end: int
    status: str


def measure(home: Path, runs: Sequence[Run], now: Optional[float] = None) -> Progress:
    """The progress of the latest sweep and of unfinished runs that began later, or of all runs.

    The pace is that of the sweep since it started, or of the sessions that are running if no sweep
    has left a plan or it has ended.
    """
    now = time.time() if now is None else now
    plan = read_plan(home)
    steps = [] if plan is None else plan["runs"]
    known = {str(run.path): run for run in runs}
    planned = [_planned(home, step, known) for step in steps]
    others = [known[path] for path in known.keys() - {str(Path(home) / s["folder"]) for s in steps}]
    others = [run for run in others if plan is None or _concerns(run, plan["started"])]
    shares = [*planned, *(_share(run) for run in sorted(others, key=lambda run: run.path))]
    if plan is not None and any(share.status not in ENDED for share in planned):
        began, moving = [plan["started"]], planned
    else:
        began = [_began(run) for run in others if run.status == "running"]
        moving = [share for share in shares if share.status == "running"]
    done = [share.end if share.status in ENDED else share.epoch for share in shares]
    moved = sum(max(0, share.epoch - share.start) for share in moving)
    spent = now - min([at for at in began if at is not None], default=now)
    left = sum(share.end - at for share, at in zip(shares, done))
    return Progress(
        sum(at - min(share.start, at) for share, at in zip(shares, done)),
        sum(share.end - share.start for share in shares),
        sum(share.status in ENDED for share in shares),
        len(shares),
        [share.name for share in shares if share.status == "running"],
        left * spent / moved if moved and left and spent > 0 else None,
    )


def _concerns(run: Run, started: float) -> bool:
    """Whether a run beside a sweep belongs to what is computed now, and is no older leftover."""
    later = (_began(run) or started) >= started
    return run.status == "running" or (run.status == "interrupted" and later)


def read_plan(home: Path) -> Optional[Dict[str, Any]]:
    """What the latest sweep wrote; None if there is none, or it cannot be read."""
    path = Path(home) / FILE
    try:
        plan = parse_json(read_text(path))
        runs = [
            {"folder": str(r["folder"]), "start": int(r["start"]), "epochs": int(r["epochs"])}
            for r in plan["runs"]
        ]
        started = float(plan["started"])
        legal = all(0 <= run["start"] <= run["epochs"] < MOST_EPOCHS for run in runs)
        return {"started": started, "runs": runs} if legal and 0 <= started < math.inf else None
    except (OSError, RunError, ValueError, TypeError, KeyError, OverflowError):
        return None


def _planned(home: Path, step: Dict[str, Any], known: Dict[str, Run]) -> Share:
    run = known.get(str(Path(home) / step["folder"]))
    epoch = step["start"] if run is None else max(step["start"], run.epoch)
    status = "waiting" if run is None else run.status
    return Share(Path(step["folder"]).name, step["start"], epoch, step["epochs"], status)


def _share(run: Run) -> Share:
    return Share(run.path.name, _start(run), run.epoch, _end(run), run.status)


def _end(run: Run) -> int:
    epochs = run.symbols.get("epochs")
    return epochs if isinstance(epochs, int) else run.epoch


def _start(run: Run) -> int:
    """The epoch after which the newest session of a run that is running began; else 0."""
    after = _newest(run).get("after_epoch") if run.status == "running" else 0
    return after if isinstance(after, int) else 0


def _newest(run: Run) -> Dict[str, Any]:
    return (run.manifest["sessions"] or [{}])[-1]


def _began(run: Run) -> Optional[float]:
    try:
        return calendar.timegm(time.strptime(_newest(run)["started"], "%Y-%m-%dT%H:%M:%SZ"))
    except (KeyError, TypeError, ValueError):
        return None
