"""Plan many runs: which are finished, which epochs they share, what is left to compute; no MXNet.

Run folders are found by their configuration (``RunIndex``).  Runs that differ only after the epoch
where alpha decays start from one run of the epochs before it, their prefix
(``slsgd_mx.runs.prefix``), computed once.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import DataError, RunError
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.index import RunIndex
from slsgd_mx.runs.prefix import prefix_of
from slsgd_mx.runs.status import Outcome, check_data, read_outcome
from slsgd_mx.sweeps.pool import Job, Listener, Pool, Result
from slsgd_mx.system.files import write_atomically

FILE = (
    "plan.json"  # in the folder of the runs: what the latest sweep computes, for `report --watch`
)
BROKEN = ("failed", "damaged")  # states of runs that cannot be used, however often one tries


@dataclass(frozen=True)
class Step:
    """One run folder of a plan, and the epoch from which it is computed."""

    config: RunConfig
    folder: Path
    outcome: Outcome
    wanted: bool  # by a figure, not only as the prefix of other runs
    prefix: Optional[Step] = None  # the run it starts from; None: its own checkpoint or x_0

    @property
    def doomed(self) -> bool:
        """Whether its prefix diverged, and therefore so does this run."""
        return self.prefix is not None and self.prefix.outcome.state == "diverged"

    @property
    def can_go_on(self) -> bool:
        """Whether there is something to compute, and nothing broken that it starts from."""
        return self.open and (self.prefix is None or self.prefix.outcome.state not in BROKEN)

    @property
    def start(self) -> int:
        """The last epoch that need not be computed."""
        return self.outcome.epoch if self.prefix is None else self.prefix.config.epochs

    @property
    def left(self) -> int:
        """Epochs left to compute, unless the run diverges."""
        return self.config.epochs - self.start if self.open and not self.doomed else 0

    @property
    def has_model(self) -> bool:
        """Whether other runs can start from its end, once it is done."""
        return RunFolder(self.folder, self.config).has_model()

    @property
    def open(self) -> bool:
        """Whether the run has not ended and is not damaged."""
        return self.outcome.state in ("missing", "begun")


@dataclass(frozen=True)
class Plan:
    """Run folders, every prefix before the runs that start from it."""

    home: Path
    steps: Sequence[Step]
    epochs_unshared: int  # epochs left if every figure computed all its runs itself

    @property
    def to_do(self) -> List[Step]:
        return [step for step in self.steps if step.open]

    @property
    def epochs(self) -> int:
        """Epochs left to compute."""
        return sum(step.left for step in self.steps)


def make_plan(figures: Mapping[str, Sequence[RunConfig]], home: Path, share: bool = True) -> Plan:
    """Plan the runs of some figures; without ``share`` every run starts from its own x_0."""
    index, wanted = RunIndex(home), dict.fromkeys(run for runs in figures.values() for run in runs)

    def look(run: RunConfig) -> Step:
        folder = index.folder(run)
        return Step(run, folder, read_outcome(folder, run), run in wanted)

    steps = {run: look(run) for run in wanted}
    alone = {run: step.left for run, step in steps.items()}
    prefixes: Dict[RunConfig, Step] = {}
    for run in wanted:
        prefix = prefix_of(run) if share and steps[run].outcome.state == "missing" else None
        step = None if prefix is None else prefixes.get(prefix) or steps.get(prefix) or look(prefix)
        if step is not None and (step.outcome.state != "done" or step.has_model):
            prefixes[prefix] = step
            steps[run] = replace(steps[run], prefix=step)
    ordered: Dict[RunConfig, Step] = {}
    for run in wanted:  # a prefix just before its first run: if the sweep is stopped, runs are done
        step = prefixes.get(run, steps[run])
        if step.prefix is not None:
            ordered.setdefault(step.prefix.config, step.prefix)
        ordered.setdefault(run, step)
    unshared = sum(alone[run] for runs in figures.values() for run in runs)
    return Plan(home, list(ordered.values()), unshared)


def carry_out(
    plan: Plan,
    pool: Pool,
    data_dir: Optional[Path],
    listener: Optional[Listener] = None,
    engine: Optional[Dict[str, Any]] = None,
) -> Dict[str, Result]:
    """Compute what is left; return the results of runs that were unfinished or cannot be used.

    With ``engine``, the options of a parameter server, every run is computed on one of its own.
    """
    unusable = {s.config.slug: _why_unusable(s, data_dir) for s in plan.steps if not s.open}
    jobs = [_job(step, plan.home, data_dir, engine) for step in plan.to_do]
    if jobs:
        _announce(plan)
    return {
        **{slug: Result("failed", why) for slug, why in unusable.items() if why},
        **pool.run(jobs, listener),
    }


def _announce(plan: Plan) -> None:
    """Write the plan for those who watch; a sweep does not depend on it."""
    runs = [
        {
            "folder": str(s.folder.relative_to(plan.home)),
            "start": s.start,
            "epochs": s.config.epochs,
        }
        for s in plan.to_do
        if not s.doomed
    ]
    text = json.dumps({"started": time.time(), "runs": runs}, indent=1) + "\n"
    with contextlib.suppress(OSError):
        plan.home.mkdir(parents=True, exist_ok=True)
        write_atomically(plan.home / FILE, text.encode())


def _why_unusable(step: Step, data_dir: Optional[Path]) -> str:
    """Why a run that is not going to be computed cannot be used either; "" if it can."""
    if step.outcome.state in BROKEN:
        return step.outcome.why
    try:
        check_data(RunFolder(step.folder, step.config), data_dir)
    except (RunError, DataError) as error:
        return str(error)
    return ""


def _job(step: Step, home: Path, data_dir: Optional[Path], engine: Optional[Dict[str, Any]]) -> Job:
    slug, prefix = step.config.slug, step.prefix
    paths = {"folder": step.folder, "data_dir": data_dir, "log": home / "logs" / f"{slug}.log"}
    paths["prefix"] = None if prefix is None else prefix.folder
    message = {name: None if path is None else str(path) for name, path in paths.items()}
    message.update(do="slsgd_mx.sweeps.job:train", config=step.config.to_json(), engine=engine)
    needs = None if prefix is None else prefix.config.slug
    return Job(slug, message, needs, step.config.sizes.data, step.config.precision)
