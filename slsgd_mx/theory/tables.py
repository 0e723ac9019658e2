"""Measured numbers: a CSV file for each case, a row for each seed and epoch; no MXNet."""

from __future__ import annotations

import csv
import io
from functools import lru_cache
from pathlib import Path
from typing import (
    Callable,
    Collection,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    TypeVar,
)

import numpy as np

from slsgd_mx.errors import RunError
from slsgd_mx.system import files
from slsgd_mx.system.files import read_text
from slsgd_mx.theory.cases import Case


class MissingTable(RunError):
    """A table that ``slsgd-mx theory`` has not computed yet."""


class Row(NamedTuple):
    """One epoch of one run."""

    seed: int
    epoch: int
    error: float  # F(x_t) - F(x_*)
    distance2: float  # |x_t - x_*|^2
    gradient2: float  # the largest |grad f|^2 up to here, of the minibatches drawn
    v2: float  # the largest |x_{t,h}^i - x_*|^2 up to here, h = 0..H-1
    v2_pushed: float  # the same for h = 0..H
    variance: float  # of the honest pushes of this epoch
    deviation: float  # |Trmean_b - honest mean|^2 of this epoch


Rows = Dict[int, List[Row]]  # whole runs by seed


class Table:
    """The rows of a case, by column: (seeds, T+1)."""

    def __init__(self, case: Case, rows: Rows) -> None:
        self.case, self.rows, self.seeds = case, rows, sorted(rows)
        numbers = np.array([rows[seed] for seed in self.seeds], float)  # (seeds, T+1, columns)
        self._columns = {name: numbers[:, :, i] for i, name in enumerate(Row._fields)}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]

    def of(self, seeds: Collection[int]) -> Table:
        """The table of these seeds alone."""
        return Table(self.case, {seed: self.rows[seed] for seed in seeds})

    @property
    def mean(self) -> np.ndarray:
        """The mean error over seeds, by epoch; (T+1,)."""
        return self["error"].mean(axis=0)

    @property
    def first(self) -> float:
        """F(x_0) - F(x_*), the same for all seeds."""
        return float(self["error"][0, 0])

    @property
    def floors(self) -> np.ndarray:
        """Each seed's mean error over the last half of its epochs; (seeds,)."""
        return self["error"][:, self.case.config.epochs // 2 + 1 :].mean(axis=1)


def read_rows(folder: Path, case: Case, seeds: Optional[int] = None) -> Rows:
    """The complete runs of a case by seed, those below ``seeds`` (default: all); {} if none."""
    path = Path(folder) / case.file
    if not path.exists():
        return {}
    found: Rows = {}
    try:
        lines = list(csv.reader(io.StringIO(read_text(path))))
        if lines[:1] != [list(Row._fields)]:
            raise ValueError(f"its columns are not {','.join(Row._fields)}")
        for seed, epoch, *numbers in lines[1:]:
            row = Row(int(seed), int(epoch), *(float(number) for number in numbers))
            found.setdefault(row.seed, []).append(row)
    except (ValueError, TypeError) as error:
        raise RunError(f"{path} is damaged ({error}): remove it and run slsgd-mx theory") from error
    epochs = list(range(case.config.epochs + 1))
    return {
        seed: rows
        for seed, rows in sorted(found.items())
        if [r.epoch for r in rows] == epochs and (seeds is None or seed < seeds)
    }


def read_table(folder: Path, case: Case, seeds: Optional[int] = None) -> Table:
    """The table of a case, with at most that many seeds (default: all)."""
    rows = read_rows(folder, case, seeds)
    if not rows:
        raise MissingTable(f"{Path(folder) / case.file} is missing: run slsgd-mx theory")
    return Table(case, rows)


Find = Callable[[Case], Table]


def finder(folder: Path, seeds: Optional[int] = None, more: bool = False) -> Find:
    """A function from a case to its table with at most that many seeds; it reads each file once.

    ``more``: cases that are run with more seeds than others have that many times more.
    """

    def find(case: Case) -> Table:
        return read_table(folder, case, seeds and seeds * (case.times if more else 1))

    return lru_cache(maxsize=None)(find)


Key = TypeVar("Key")


def find_all(find: Find, cases: Mapping[Key, Case]) -> Dict[Key, Table]:
    """The tables of several cases, with the seeds that all of them have."""
    tables = {key: find(case) for key, case in cases.items()}
    seeds = set.intersection(*(set(table.seeds) for table in tables.values()))
    if not seeds:
        names = ", ".join(case.file for case in cases.values())
        raise MissingTable(f"{names} have no seed in common: run slsgd-mx theory")
    return {
        key: table if len(table.seeds) == len(seeds) else table.of(seeds)
        for key, table in tables.items()
    }


def write_rows(folder: Path, case: Case, rows: Rows) -> None:
    """Write the runs of a case, by ascending seed."""
    ordered = (row for seed in sorted(rows) for row in rows[seed])
    write_table(Path(folder) / case.file, Row._fields, ordered)


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table atomically, with nine digits, so that equal numbers are equal bytes."""
    cells = ([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    files.write_csv(path, columns, cells)
