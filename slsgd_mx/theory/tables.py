"""Where measured numbers are kept: a CSV for each case, a row for each seed and epoch; no MXNet."""

from __future__ import annotations

import csv
import io
from functools import lru_cache
from pathlib import Path
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence

import numpy as np

from slsgd_mx.errors import RunError
from slsgd_mx.system.files import disk_errors, read_text, write_atomically
from slsgd_mx.theory.cases import Case


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


class Table:
    """The rows of a case, by column: (seeds, T+1)."""

    def __init__(self, case: Case, rows: Dict[int, List[Row]]) -> None:
        self.case, self.seeds = case, sorted(rows)
        numbers = np.array([rows[seed] for seed in self.seeds], float)  # (seeds, T+1, columns)
        self._columns = {name: numbers[:, :, i] for i, name in enumerate(Row._fields)}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]

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


def read_rows(folder: Path, case: Case) -> Dict[int, List[Row]]:
    """Whole runs of a case by seed, {} if there is no table."""
    path = Path(folder) / case.file
    if not path.exists():
        return {}
    found: Dict[int, List[Row]] = {}
    try:
        lines = list(csv.reader(io.StringIO(read_text(path))))
        if lines[:1] != [list(Row._fields)]:
            raise ValueError("its columns are others")
        for seed, epoch, *numbers in lines[1:]:
            row = Row(int(seed), int(epoch), *(float(number) for number in numbers))
            found.setdefault(row.seed, []).append(row)
    except (ValueError, TypeError) as error:
        raise RunError(f"{path} is damaged ({error}): remove it and run slsgd-mx theory") from error
    whole = list(range(case.config.epochs + 1))
    return {seed: rows for seed, rows in found.items() if [r.epoch for r in rows] == whole}


def read_table(folder: Path, case: Case, seeds: Optional[int] = None) -> Table:
    """The table of a case that has been computed, up to that many seeds (all there are)."""
    rows = read_rows(folder, case)
    rows = {seed: rows[seed] for seed in sorted(rows) if seeds is None or seed < seeds}
    if not rows:
        raise RunError(f"{Path(folder) / case.file} is missing: run slsgd-mx theory")
    return Table(case, rows)


Find = Callable[[Case], Table]


def finder(folder: Path, seeds: Optional[int] = None, more: bool = False) -> Find:
    """What finds the table of a case, up to that many seeds, and reads each but once.

    ``more``: cases that are run with more seeds than others come with all of theirs.
    """

    def find(case: Case) -> Table:
        return read_table(folder, case, seeds and seeds * (case.times if more else 1))

    return lru_cache(maxsize=None)(find)


def write_rows(folder: Path, case: Case, rows: Dict[int, List[Row]]) -> None:
    """Write the runs of a case, by ascending seed, whole or not at all."""
    ordered = (row for seed in sorted(rows) for row in rows[seed])
    write_csv(Path(folder) / case.file, Row._fields, ordered)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table; numbers with nine digits, so that equal numbers are equal bytes."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row])
    with disk_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, out.getvalue().encode())
