"""The tables behind figures, read back: rows of runs by their identity; no MXNet."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Dict, List, Set

from slsgd_mx.errors import RunError
from slsgd_mx.runs.metrics import Row
from slsgd_mx.system.files import read_text, warn


def read_tables(folder: Path) -> Dict[str, List[Row]]:
    """The rows of every run in the CSV files of figures, by the run's identity.

    Figures that show the same run have the same rows.  Tables without rows of runs, such as those
    of Figures 5 and 6, and tables of 0.1.0, which do not name the runs, are passed over.
    """
    if not Path(folder).is_dir():
        raise RunError(f"{folder} is not a folder of figures: it holds the CSV files behind them")
    found: Dict[str, List[Row]] = {}
    for path in sorted(Path(folder).glob("*.csv")):
        found.update(read_table(path))
    return found


def read_table(path: Path) -> Dict[str, List[Row]]:
    """The rows of every run in one CSV file, likewise; none if there is no file."""
    found: Dict[tuple, List[Row]] = {}  # by run, and by where the figure shows it
    for row in _rows(path) if path.is_file() else []:
        if row.get("run") and row.get("epoch") and "train_loss" in row:
            place = (row["run"], row.get("group"), row.get("curve"))
            found.setdefault(place, []).append(row)
    return {run: rows for (run, *_), rows in found.items()}


def runs_in(path: Path) -> Set[str]:
    """The identities of the finished runs in the CSV file of a figure.

    None if there is no file; one that cannot be read is kept under another name.
    """
    try:
        return {row.get("run") or "" for row in _rows(path)} - {""} if path.is_file() else set()
    except RunError as error:
        kept = path.with_name(f"{path.name}.damaged")
        path.replace(kept)
        warn(f"{error}; it is kept as {kept}")
        return set()


def _rows(path: Path) -> List[Row]:
    try:
        return list(csv.DictReader(io.StringIO(read_text(path))))
    except csv.Error as error:
        raise RunError(f"{path} is damaged: {error}") from error
