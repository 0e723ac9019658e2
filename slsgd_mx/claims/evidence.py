"""The stored runs and tables that claims are judged on, and checks of values taken from them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from slsgd_mx.claims.checks import HOLDS, Check, Limit, compare
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import SlsgdError
from slsgd_mx.figures.declarations import FIGURES, file_name
from slsgd_mx.figures.tables import read_table, read_tables
from slsgd_mx.figures.variants import Line, Variant, groups
from slsgd_mx.runs.index import RunIndex
from slsgd_mx.runs.metrics import Row, column
from slsgd_mx.runs.status import read_outcome
from slsgd_mx.theory.cases import Case
from slsgd_mx.theory.tables import Rows, Table, read_rows
from slsgd_mx.validation import LARGEST


class Run(NamedTuple):
    """A stored run; one with a metric that is not finite counts as diverged."""

    config: RunConfig
    folder: Path
    state: str  # as in ``runs.status.Outcome``
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
    """Read one run; its state is "damaged" if that fails."""
    try:
        outcome = read_outcome(folder, config)
        state, rows = outcome.state, outcome.rows
        column(rows, "epoch")
        if state == "done" and not is_finite(config, rows):
            state = "diverged"
    except (SlsgdError, OSError, ValueError, KeyError, TypeError):
        return Run(config, folder, "damaged")
    return Run(config, folder, state, rows)


def run_from_table(folder: Path, config: RunConfig, rows: Sequence[Row]) -> Run:
    """A run whose rows are known from a figure's table; "damaged" if rows are missing there."""
    due = config.evaluations(config.epochs, len(rows) + 1)
    try:
        epochs, finite = column(rows, "epoch").tolist(), is_finite(config, rows)
    except (ValueError, KeyError, TypeError):
        return Run(config, folder, "damaged")
    if epochs == due:
        return Run(config, folder, "done" if finite else "diverged", rows)
    stopped = not finite and epochs[:-1] == due[: len(epochs) - 1]  # when the model diverged
    return Run(config, folder, "diverged" if stopped else "damaged", rows if stopped else ())


def is_finite(config: RunConfig, rows: Sequence[Row]) -> bool:
    """Whether all metrics are finite; perplexity, e to the test loss, may overflow."""
    names = [name for name in config.sizes.metrics if name != "test_perplexity"]
    return all((abs(column(rows, name)) <= LARGEST).all() for name in names)


@dataclass(frozen=True)
class Evidence:
    """What claims are judged on: the runs of a folder at one size, and RUNS/theory; read once.

    A run whose folder is missing is read from the tables behind figures, if they are given.
    """

    home: Path
    variant: Variant
    figures: Optional[Path] = None  # the folder of these tables
    seeds: Optional[int] = None  # of the theory's cases, times ``case.times``; None: all stored
    runs: Dict[RunConfig, Run] = field(default_factory=dict)  # those read so far
    tables: Dict[Case, Rows] = field(default_factory=dict)

    @functools.cached_property
    def index(self) -> RunIndex:
        return RunIndex(self.home)

    @functools.cached_property
    def tabulated(self) -> Dict[str, List[Row]]:
        return {} if self.figures is None else read_tables(self.figures)

    def run(self, config: RunConfig) -> Run:
        if config not in self.runs:
            run = read_run(self.index.folder(config), config)
            if run.state == "missing" and config.identity in self.tabulated:
                run = run_from_table(run.folder, config, self.tabulated[config.identity])
            self.runs[config] = run
        return self.runs[config]

    def of_figure(self, name: str) -> Evidence:
        """The same, but if a figure lacks runs, all that its table shows are read from there.

        So runs of one processor are compared with each other, where a table of another figure or
        another folder has some of them, too.
        """
        path = None if self.figures is None else Path(self.figures) / f"{file_name(name)}.csv"
        configs = list(dict.fromkeys(run for line in self.lines(name) for run in line.runs))
        stored = [(config, self.index.folder(config)) for config in configs]
        if path is None or not any(read_run(folder, c).state == "missing" for c, folder in stored):
            return self
        known = read_table(path)
        runs = {
            config: run_from_table(folder, config, known[config.identity])
            for config, folder in stored
            if config.identity in known
        }
        return replace(self, runs=runs)

    def rows(self, case: Case) -> Rows:
        """The rows of a case of the theory by seed, {} if its table is missing or damaged."""
        if case not in self.tables:
            try:
                seeds = self.seeds and self.seeds * case.times
                self.tables[case] = read_rows(Path(self.home) / "theory", case, seeds)
            except (SlsgdError, OSError):
                self.tables[case] = {}
        return self.tables[case]

    def lines(self, *figures: str) -> List[Line]:
        found = [groups(FIGURES[name], self.variant) for name in figures]
        return [line for panels in found for lines in panels.values() for line in lines]


class Undecided(Exception):
    """Why a check cannot be decided, whatever the other seeds say."""


Sample = Tuple[RunConfig, ...]  # runs that are compared with one another
Value = Callable[..., Optional[float]]  # runs of a sample -> a number, None if they say nothing
Values = Callable[..., Sequence[float]]  # tables -> a number for each seed, or a single one


def compare_runs(
    evidence: Evidence, what: str, limit: Limit, samples: Sequence[Sample], value: Value
) -> Check:
    """Check the mean of a value over all samples whose runs are finished."""
    runs = [[evidence.run(config) for config in sample] for sample in samples]
    missing = list(dict.fromkeys(run.name for sample in runs for run in sample if not run.over))
    try:
        if any(len(set(sample)) < len(sample) for sample in samples):
            raise Undecided("compares a run with itself (does alpha decay within T?)")
        values = [value(*sample) for sample in runs if all(run.over for run in sample)]
    except Undecided as reason:
        return replace(compare(what, limit, [], missing), note=str(reason))
    return compare(what, limit, values, missing)


def compare_tables(
    evidence: Evidence,
    what: str,
    limit: Limit,
    cases: Sequence[Case],
    values: Values,
    sure: Callable[..., bool] = lambda *tables: False,
) -> Check:
    """Check values of the cases' tables, over the seeds that all of them have.

    ``sure(*tables)`` tells whether the check could not have failed.
    """
    rows = [evidence.rows(case) for case in cases]
    missing = [case.name for case, found in zip(cases, rows) if not found]
    seeds = sorted(set.intersection(*(set(found) for found in rows)))
    if not seeds:
        return compare(what, limit, [], missing)
    tables = [Table(case, {s: found[s] for s in seeds}) for case, found in zip(cases, rows)]
    check = compare(what, limit, values(*tables), repeats=len(seeds) if limit.exact else None)
    if check.verdict == HOLDS and sure(*tables):
        return replace(check, sure=True, note="could not fail: L/2 V_2 is below the bound")
    return check
