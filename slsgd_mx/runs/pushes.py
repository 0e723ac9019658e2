"""pushes.csv: for every epoch, who pushed and how much of each push the rule used; no MXNet.

One row per epoch: the devices of S_t by slot, the poisoned slots, and for each slot the share of
its push that the rule used.  For rules that work coordinate by coordinate that is the share of its
coordinates (on a sample of 65,536; fewer for k > 123); for rules that mix pushes it is its weight
relative to the largest weight.  Runs of earlier versions have no such file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.errors import RunError
from slsgd_mx.runs.metrics import align
from slsgd_mx.system.files import read_text, to_csv

FILE = "pushes.csv"
COLUMNS = ("epoch", "devices", "poisoned", "used")


@dataclass(frozen=True)
class Pushes:
    """One row: what was pushed in an epoch."""

    epoch: int
    devices: Tuple[int, ...]
    poisoned: Tuple[int, ...]  # slots
    used: Optional[Tuple[float, ...]]  # by slot; None: nothing was applied, or not recorded

    @property
    def poisoned_used(self) -> float:
        """The mean share of a poisoned push that the rule used; NaN if there is none."""
        return self._mean(True)

    @property
    def honest_lost(self) -> float:
        """The mean share of an honest push that the rule did not use; NaN if there is none."""
        return 1.0 - self._mean(False)

    def _mean(self, poisoned: bool) -> float:
        slots = [s for s in range(len(self.devices)) if (s in self.poisoned) == poisoned]
        if self.used is None or not slots:
            return float("nan")
        return float(np.mean([self.used[slot] for slot in slots]))

    def cells(self) -> List[str]:
        """
        >>> Pushes(3, (7, 9), (1,), (1.0, 0.25)).cells()
        ['3', '7 9', '1', '1 0.25']
        """
        used = [] if self.used is None else [f"{share:.4g}" for share in self.used]
        return [
            str(self.epoch),
            *(" ".join(map(str, x)) for x in (self.devices, self.poisoned, used)),
        ]


def to_text(rows: Iterable[Pushes]) -> str:
    """The content of the file."""
    return to_csv(COLUMNS, [row.cells() for row in rows])


def text_until(folder: Path, epoch: int) -> str:
    """The file up to the row of an epoch, without reading its numbers; its header if it is missing.

    A checkpoint proves it, so that it must be quick for many epochs.
    """
    path = Path(folder) / FILE
    text = read_text(path) if path.exists() else to_text([])
    end = text.rfind("\n") + 1
    while end:
        start = text.rfind("\n", 0, end - 1) + 1
        number = text[start:end].partition(",")[0]
        if not number.isdigit() or int(number) <= epoch:
            break
        end = start
    return text[:end]


def read_pushes(folder: Path) -> List[Pushes]:
    """The rows of a run, oldest first; [] if they are not recorded.

    A last line truncated by a crash is omitted; a RunError if anything else is damaged.
    """
    path = Path(folder) / FILE
    if not path.exists():
        return []
    text = read_text(path)
    lines = text[: text.rfind("\n") + 1].splitlines()
    try:
        if lines and lines[0] != ",".join(COLUMNS):
            raise ValueError("its columns have other names")
        rows = [_row(line) for line in lines[1:]]
        if any(after.epoch != before.epoch + 1 for before, after in zip(rows, rows[1:])):
            raise ValueError("an epoch is missing")
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}; remove it to go on without it") from None
    return rows


def _row(line: str) -> Pushes:
    epoch, devices, poisoned, used = line.split(",")
    row = Pushes(
        int(epoch),
        tuple(map(int, devices.split())),
        tuple(map(int, poisoned.split())),
        tuple(map(float, used.split())) or None,
    )
    known = len(row.devices)
    if row.used is not None and len(row.used) != known or any(s >= known for s in row.poisoned):
        raise ValueError(f"epoch {epoch} has other numbers of slots")
    return row


def by_epoch(runs: Sequence[Sequence[Pushes]]) -> Dict[str, Tuple[np.ndarray, np.ndarray]]:
    """``poisoned_used`` and ``honest_lost`` of repeats: epochs (T,) and values (repeats, T)."""
    epochs = [np.array([row.epoch for row in rows], float) for rows in runs]
    return {
        name: align(epochs, [np.array([getattr(row, name) for row in rows]) for rows in runs])
        for name in ("poisoned_used", "honest_lost")
    }
