"""All runs as rows of a table, and what they were computed with, as data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Dict, Sequence

from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.stored import StoredFigure
from slsgd_mx.report.charts import readable, rounded
from slsgd_mx.runs.records import Run
from slsgd_mx.runs.selection import brief, short_names, varying

VERSIONS = ("slsgd_mx", "mxnet", "numpy", "python", "revision")
MOST_POINTS = 200  # of a curve; of longer runs, evenly spaced evaluations are shown
EXACT = 2**53  # numbers in a browser are float64
CSV_SYMBOLS = ("alpha", "b", "q", "gamma", "rule", "attack", "seed")


def from_runs(runs: Sequence[Run], home: Path) -> Dict[str, Any]:
    """A row for each run folder; the columns are the symbols in which runs differ."""
    metrics = list(dict.fromkeys(name for run in runs for name in run.metrics))
    names = short_names((run.path for run in runs), home)
    rows = [{**_row(run), "name": names[run.path]} for run in runs]
    columns = [name for name in varying(runs) if name != "epochs"]  # shown next to the epoch
    return {"columns": columns, "metrics": metrics, "rows": rows}


def _row(run: Run) -> Dict[str, Any]:
    epochs = run.columns.get("epoch", ())
    step = max(1, -(-len(epochs) // MOST_POINTS))
    numeric = [name for name in run.metrics if run[name].dtype.kind in "if"]
    return {
        "folder": str(run.path),
        "status": run.status,
        "why": run.why,
        "epoch": run.epoch,
        "epochs": run.symbols.get("epochs"),
        "symbols": {name: _cell(value) for name, value in run.symbols.items()},
        "last": {name: rounded([value])[0] for name, value in run.last.items() if name in numeric},
        "x": rounded(epochs[::step]) if numeric else [],
        "curves": {name: rounded(run[name][::step]) for name in numeric},
        "sessions": [_session(session) for session in run.manifest["sessions"]],
    }


def _cell(value: Any) -> Any:
    """A symbol as the page shows and compares it: exact, as text where a browser could not be.

    >>> _cell(0.12345678), _cell(2**60 + 1), _cell(True), _cell(None), _cell(math.nan)
    (0.12345678, '1152921504606846977', 'yes', 'none', None)
    """
    if isinstance(value, float) and not math.isinf(value):
        return None if math.isnan(value) else value
    exact = type(value) is int and abs(value) <= EXACT
    return value if exact else brief(value)


def _session(session: Dict[str, Any]) -> Dict[str, str]:
    names = ("started", "after_epoch", "cpu", "instructions", "cores", "threads", *VERSIONS)
    return {name: str(session[name]) for name in names if name in session}


def from_csv(figures: Sequence[StoredFigure]) -> Dict[str, Any]:
    """A row for each run that the CSV files of figures tell of; zooms repeat other figures."""
    rows, metrics = [], {}
    for figure in figures:
        if getattr(FIGURES[figure.name], "zoom", False):
            continue
        names = [name for name in figure.runs and next(iter(figure.runs)).sizes.metrics]
        for run, lines in figure.runs.items():
            words = [figure.path.stem, run.group, run.curve, f"seed {run.seed}"]
            known = [name for name in names if name in lines[-1]]
            metrics.update(dict.fromkeys(known))
            numbers = {name: rounded(float(line[name]) for line in lines) for name in known}
            last = lines[-1].get("epoch") or lines[-1].get("epochs_computed")
            told = [name for name in CSV_SYMBOLS if name in lines[-1]]
            symbols = {name: _cell(getattr(run, name)) for name in told}
            rows.append(
                {
                    "name": readable(", ".join(filter(None, words))),
                    "folder": str(figure.path),
                    "status": "in CSV",
                    "why": "",
                    "epoch": int(last or 0),
                    "epochs": None,
                    "symbols": {"figure": figure.path.stem, **symbols},
                    "last": {name: values[-1] for name, values in numbers.items()},
                    "x": rounded(float(line["epoch"]) for line in lines) if known else [],
                    "curves": numbers,
                    "sessions": [],
                }
            )
    return {"columns": list(CSV_SYMBOLS), "metrics": list(metrics), "rows": rows}


def joined(tables: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """Several tables as one, with the columns of all."""
    found: Dict[str, Any] = {"columns": [], "metrics": [], "rows": []}
    for table in tables:
        for name in ("columns", "metrics"):
            found[name] += [each for each in table[name] if each not in found[name]]
        found["rows"] += table["rows"]
    return found
