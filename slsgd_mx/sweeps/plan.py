"""Many runs: what is there already, what they share, what is left, and who computes it; no MXNet.

A run folder is ``home / config.slug``.  Runs that differ only in what follows the epoch where alpha
decays begin from one run of the epochs before it (``slsgd_mx.runs.prefix``), computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from slsgd_mx.config import RunConfig
from slsgd_mx.runs.prefix import prefix_of
from slsgd_mx.runs.status import Outcome, read_outcome
from slsgd_mx.sweeps.pool import Job, Listener, Pool, Result


@dataclass(frozen=True)
class Step:
    """One run folder of a plan, and where computing it begins."""

    config: RunConfig
    outcome: Outcome
    wanted: bool  # by a figure, not only as the beginning of other runs
    prefix: Optional[RunConfig] = None  # the run it begins after; None: its own checkpoint or x_0
    doomed: bool = False  # the run it begins after diverged, and so does it

    @property
    def start(self) -> int:
        """The epoch after which there is something left to compute."""
        return self.outcome.epoch if self.prefix is None else self.prefix.epochs

    @property
    def left(self) -> int:
        """Epochs left to compute, if nothing diverges."""
        return self.config.epochs - self.start if self.open and not self.doomed else 0

    @property
    def open(self) -> bool:
        """Whether there is something left to do."""
        return self.outcome.state in ("missing", "begun")


@dataclass(frozen=True)
class Plan:
    """Run folders in an order in which they can be computed."""

    home: Path
    steps: Sequence[Step]
    epochs_unshared: int  # what would be left if every figure computed its runs on its own

    @property
    def to_do(self) -> List[Step]:
        return [step for step in self.steps if step.open]

    @property
    def epochs(self) -> int:
        """Epochs left to compute."""
        return sum(step.left for step in self.steps)


def make_plan(figures: Mapping[str, Sequence[RunConfig]], home: Path, share: bool = True) -> Plan:
    """What is left to do for the runs of some figures; prefixes come first."""
    wanted = list(dict.fromkeys(run for runs in figures.values() for run in runs))
    outcomes = {run: read_outcome(home / run.slug, run) for run in wanted}
    begins: Dict[RunConfig, RunConfig] = {}
    for run in wanted:
        prefix = prefix_of(run) if share and outcomes[run].state == "missing" else None
        if prefix is not None:
            begins[run] = prefix
            if prefix not in outcomes:
                outcomes[prefix] = read_outcome(home / prefix.slug, prefix)
    prefixes = list(dict.fromkeys(begins.values()))
    order = prefixes + [run for run in wanted if run not in set(prefixes)]
    steps = []
    for run in order:
        prefix = begins.get(run)
        doomed = prefix is not None and outcomes[prefix].state == "diverged"
        steps.append(Step(run, outcomes[run], run in set(wanted), prefix, doomed))
    alone = {run: Step(run, outcomes[run], True).left for run in wanted}
    unshared = sum(alone[run] for runs in figures.values() for run in runs)
    return Plan(home, steps, unshared)


def carry_out(
    plan: Plan,
    pool: Pool,
    data_dir: Optional[Path],
    listener: Optional[Listener] = None,
    engine: Optional[Dict[str, Any]] = None,
) -> Dict[str, Result]:
    """Compute what is left; return how every run of the plan that is not there yet ended.

    ``engine`` has the options of a parameter server, if there is to be one for every run.
    """
    jobs = [_job(step, plan.home, data_dir, engine) for step in plan.to_do]
    damaged = [step for step in plan.steps if step.outcome.state == "damaged"]
    return {
        **{step.config.slug: Result("failed", step.outcome.why) for step in damaged},
        **pool.run(jobs, listener),
    }


def _job(step: Step, home: Path, data_dir: Optional[Path], engine: Optional[Dict[str, Any]]) -> Job:
    slug, prefix = step.config.slug, step.prefix
    message = {
        "do": "train",
        "config": step.config.to_json(),
        "folder": str(home / slug),
        "prefix": None if prefix is None else str(home / prefix.slug),
        "data_dir": None if data_dir is None else str(data_dir),
        "engine": engine,
        "log": str(home / "logs" / f"{slug}.log"),
    }
    return Job(slug, message, None if prefix is None else prefix.slug, step.config.sizes.data)
