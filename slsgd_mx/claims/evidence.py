"""The stored runs that claims are judged on, and how a check is made of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from slsgd_mx.claims.estimates import (
    AT_LEAST,
    OPEN,
    Check,
    Estimate,
    Limit,
    at_least,
    at_most,
    estimate,
)
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import SlsgdError
from slsgd_mx.figures.declarations import FIGURES, Line, Size, groups
from slsgd_mx.runs.metrics import Row, column
from slsgd_mx.runs.status import read_outcome
from slsgd_mx.validation import LARGEST


class Run(NamedTuple):
    """A stored run: as ``outcomes`` has it, with an infinite metric taken for divergence."""

    config: RunConfig
    folder: Path
    state: str
    rows: Sequence[Row] = ()

    @property
    def diverged(self) -> bool:
        return self.state == "diverged"

    @property
    def over(self) -> bool:
        return self.state in ("done", "diverged")

    @property
    def name(self) -> str:
        return self.folder.name + ("" if self.state == "missing" else f" ({self.state})")


def read_run(folder: Path, config: RunConfig) -> Run:
    """One run of the folder; what cannot be read is damaged."""
    try:
        outcome = read_outcome(folder, config)
        state, rows = outcome.state, outcome.rows
        names = [name for name in config.sizes.metrics if name != "test_perplexity"]  # e^loss
        column(rows, "epoch")
        if state == "done" and not all((abs(column(rows, m)) <= LARGEST).all() for m in names):
            state = "diverged"
    except (SlsgdError, OSError, ValueError, KeyError, TypeError):
        return Run(config, folder, "damaged")
    return Run(config, folder, state, rows)


@dataclass(frozen=True)
class Evidence:
    """What claims are judged on: the runs of a folder at one size, each read once."""

    home: Path
    size: Size
    seen: Dict[RunConfig, Run] = field(default_factory=dict)

    def run(self, config: RunConfig) -> Run:
        if config not in self.seen:
            self.seen[config] = read_run(self.home / config.slug, config)
        return self.seen[config]

    def lines(self, *figures: str) -> List[Line]:
        found = [groups(FIGURES[name], self.size) for name in figures]
        return [line for panels in found for lines in panels.values() for line in lines]


class Undecided(Exception):
    """Why a check cannot be decided, whatever other seeds say."""


Sample = Tuple[RunConfig, ...]  # runs that are compared with one another
Value = Callable[..., Optional[float]]  # runs of a sample -> a number, None if they say nothing


def compare(
    evidence: Evidence, what: str, limit: Limit, samples: Sequence[Sample], value: Value
) -> Check:
    """Check the mean of a value over all samples whose runs are there."""
    runs = [[evidence.run(config) for config in sample] for sample in samples]
    missing = list(dict.fromkeys(run.name for sample in runs for run in sample if not run.over))
    values, notes = [], []
    try:
        if any(len(set(sample)) < len(sample) for sample in samples):
            raise Undecided("compares a run with itself (does alpha decay within T?)")
        found = [value(*sample) for sample in runs if all(run.over for run in sample)]
        values = [number for number in found if number is not None]
        if len(values) < len(found):
            notes = [f"{len(found) - len(values)} of {len(found)} say nothing and are left out"]
        if 0 < len(values) < limit.least:
            notes.append(f"{len(values)} values, and {limit.least} are needed")
        elif len(values) == 1 and not limit.exact:
            notes.append("one repeat: fixed margin")
    except Undecided as reason:
        notes = [str(reason)]
    check = Check(
        what,
        OPEN,
        limit.sense,
        limit.value,
        note="; ".join(notes),
        exact=limit.exact,
        missing=missing,
    )
    if len(values) < limit.least:
        return check
    mean, margin = estimate(values, limit.margin)
    margin = 0.0 if limit.exact else margin
    judge = at_least if limit.sense == AT_LEAST else at_most
    verdict = judge(Estimate(mean, margin), limit.value)
    return replace(check, verdict=verdict, estimate=mean, margin=margin, repeats=len(values))
