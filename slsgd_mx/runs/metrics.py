"""The rows of metrics.csv, and numbers taken from them; no MXNet."""

from __future__ import annotations

import csv
import io
import math
import re
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import RunError
from slsgd_mx.system.files import read_text

Row = Dict[str, str]
BYTES_OF_A_CELL = 100  # at most, on average
WHERE_ROWS_ARE = re.compile(r"\bare in .*metrics\.csv")  # in DIVERGED and FAILED


def read_metrics(folder: Path, most: Optional[int] = None) -> List[Row]:
    """Rows of a run's metrics.csv; a last line truncated by a crash is omitted.

    A table of more than ``most`` cells is a RunError.
    """
    path = Path(folder) / "metrics.csv"
    if not path.exists():
        return []
    text = read_text(path, None if most is None else BYTES_OF_A_CELL * most)
    whole = text[: text.rfind("\n") + 1]
    if most is not None and whole.count(",") + whole.count("\n") > most:
        raise RunError(f"{path} is not read: it has more than {most:,} cells")
    try:
        return list(csv.DictReader(io.StringIO(whole)))
    except csv.Error as error:
        raise RunError(f"{path} is damaged: {error}") from error


def column(rows: Sequence[Row], name: str) -> np.ndarray:
    """One column of the metrics as numbers."""
    return np.array([float(row[name]) for row in rows])


def align(
    epochs: Sequence[np.ndarray], values: Sequence[np.ndarray]
) -> Tuple[np.ndarray, np.ndarray]:
    """The epochs of all repeats, (points,), and the values of each there, (repeats, points).

    NaN where a repeat has none.

    >>> align([np.array([1, 2]), np.array([2, 4])], [np.array([0.1, 0.2]), np.array([0.3, 0.4])])
    (array([1, 2, 4]), array([[0.1, 0.2, nan], [nan, 0.3, 0.4]]))
    """
    x = np.unique(np.concatenate(epochs))
    y = np.full((len(values), len(x)), math.nan)
    for row, places, found in zip(y, epochs, values):
        row[np.searchsorted(x, places)] = found
    return x, y


def average(config: RunConfig, runs: Sequence[Sequence[Row]]) -> List[Row]:
    """The metrics averaged over repeats, for the epochs that all of them have."""
    by_epoch = [{row["epoch"]: row for row in rows} for rows in runs]
    averaged = []
    for epoch in (row["epoch"] for row in runs[0]):
        if all(epoch in rows for rows in by_epoch):
            repeats = [rows[epoch] for rows in by_epoch]
            means = {m: np.mean([float(r[m]) for r in repeats]) for m in config.metrics}
            averaged.append({"epoch": epoch, **{m: repr(float(v)) for m, v in means.items()}})
    return averaged


def why_nothing_changed(config: RunConfig, rows: Sequence[Row]) -> str:
    """Why no epoch of a whole run changed the model; "" if at least one did."""
    skipped, refused, missing = (
        int(sum(float(row.get(name) or 0) for row in rows))
        for name in ("skipped", "refused", "missing")
    )
    if skipped < config.epochs:
        return ""
    lost = [f"{refused} were refused because they were not finite"] * (refused > 0)
    lost += [f"{missing} did not arrive"] * (missing > 0)
    poisoned = min(config.k, config.poisoned_devices or config.q)  # at most, in an epoch
    honest = refused > poisoned * config.epochs  # honest workers diverge
    number = "--poisoned-devices" if config.poisoned_devices else "--q"
    remedy = "lower --gamma" if honest else f"lower --b, {number} or --drop-rate"
    return (
        f"no update was applied in any of the {config.epochs} epochs, so the model is still x_0: "
        f"of {config.epochs * config.k} pushes {' and '.join(lost)}, and with b={config.b} an "
        f"epoch needs at least {config.least_pushes}; {remedy}"
    )


def read_reason(path: Path) -> str:
    """What DIVERGED or FAILED says; its folder may have been moved, copied or unpacked."""
    rows = path.with_name("metrics.csv")
    return WHERE_ROWS_ARE.sub(lambda _: f"are in {rows}", read_text(path))


def mean_change(rows: Sequence[Row], metric: str, after: int) -> float:
    """Mean |change| of a metric between neighbouring evaluations after an epoch; 0 if none.

    >>> mean_change([{"epoch": str(t), "error": str(t * t)} for t in (1, 2, 3, 4)], "error", 1)
    6.0
    """
    changes = np.abs(np.diff(column(rows, metric)[column(rows, "epoch") > after]))
    return float(changes.mean()) if len(changes) else 0.0


def epochs_to(rows: Sequence[Row], loss: float) -> float:
    """The first evaluated epoch with at most that training loss; infinite if there is none.

    >>> epochs_to([{"epoch": "2", "train_loss": "1.5"}, {"epoch": "4", "train_loss": "0.5"}], 0.5)
    4.0
    """
    reached = column(rows, "epoch")[column(rows, "train_loss") <= loss]
    return float(reached[0]) if len(reached) else math.inf
