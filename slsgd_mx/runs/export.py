"""Many runs as one table, or as event files of TensorBoard; no MXNet."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import Any, List, Sequence, Tuple

import numpy as np

from slsgd_mx.errors import RunError
from slsgd_mx.runs.records import Run
from slsgd_mx.runs.selection import show, symbol_names
from slsgd_mx.system.files import disk_errors

Table = Tuple[List[str], List[List[Any]]]  # columns and rows


def tidy(runs: Sequence[Run]) -> Table:
    """One row for each run, evaluation and metric: its symbols, then epoch, metric and value."""
    names = _symbols(runs)
    rows = [
        [*_cells(run, names), int(epoch), metric, repr(run[metric][number].item())]
        for run in runs
        for number, epoch in enumerate(run.columns.get("epoch", ()))
        for metric in run.metrics
    ]
    return ["run", "status", *names, "epoch", "metric", "value"], rows


def wide(runs: Sequence[Run]) -> Table:
    """One row for each run and evaluation: its symbols, then every column of metrics.csv."""
    names = _symbols(runs)
    measured = list(dict.fromkeys(name for run in runs for name in run.columns))
    rows = []
    for run in runs:
        for number in range(len(run.columns.get("epoch", ()))):
            values = [run.columns[n][number].item() if n in run.columns else "" for n in measured]
            rows.append([*_cells(run, names), *values])
    # the schedule's alpha_t and the symbol alpha are different things
    shown = [{"alpha": "alpha_t"}.get(name, name) for name in measured]
    return ["run", "status", *names, *shown], rows


def _symbols(runs: Sequence[Run]) -> List[str]:
    return [name for name in symbol_names(runs) if any(name in run.symbols for run in runs)]


def _cells(run: Run, names: Sequence[str]) -> List[str]:
    return [str(run.path), run.status, *(_exact(run.symbols.get(name)) for name in names)]


def _exact(value: Any) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else show(value)


def write_events(runs: Sequence[Run], home: Path, folder: Path) -> List[Path]:
    """Write TensorBoard's event files into ``folder``, a subfolder for each run; return those.

    The same folder can be written again: earlier event files of a run are replaced.
    """
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise RunError(
            "event files for TensorBoard need the package tensorboardX, which is not installed: "
            'pip install "slsgd-mx[tensorboard]", or pip install tensorboardX'
        ) from error
    written = []
    for run in runs:
        place = folder / (run.path.name if run.path == home else run.path.relative_to(home))
        with disk_errors(place):
            place.mkdir(parents=True, exist_ok=True)
            for old in place.glob("events.out.tfevents.*"):
                old.unlink()
            with SummaryWriter(os.fspath(place)) as writer:
                text = json.dumps(run.config, indent=1)
                writer.add_text("config", textwrap.indent(text, "    "))  # code, in Markdown
                for name, column in run.columns.items():
                    if name != "epoch" and column.dtype.kind in "if":
                        for epoch, value in zip(run["epoch"], column):
                            if np.isfinite(value):  # TensorBoard would not draw the rest
                                writer.add_scalar(name, float(value), int(epoch))
        written.append(place)
    return written
