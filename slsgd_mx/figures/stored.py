"""The panels of a figure from its CSV file alone, where the run folders are elsewhere; no MXNet."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.errors import ConfigError, RunError
from slsgd_mx.figures.adapted import figure_of, labels_of_whole
from slsgd_mx.figures.build import PROOF, UNFINISHED, metric_figure, reach_curve, reach_panel
from slsgd_mx.figures.captions import SYNTHETIC, plain
from slsgd_mx.figures.declarations import FIGURES, IID, ReachFigure, file_name, full_title
from slsgd_mx.figures.plot import Panel
from slsgd_mx.figures.variants import Line, Variant
from slsgd_mx.runs.metrics import Row
from slsgd_mx.runs.status import Outcome
from slsgd_mx.system.files import read_text
from slsgd_mx.tasks.sizes import SIZES
from slsgd_mx.workloads import WORKLOADS


class StoredSizes(NamedTuple):
    """What the panels read of the sizes of another task than the paper's."""

    task: str
    metrics: Tuple[str, ...]

    @property
    def panels(self) -> Tuple[str, ...]:
        known = WORKLOADS[self.task].sizes.panels if self.task in WORKLOADS else None
        fits = isinstance(known, tuple) and set(known) <= set(self.metrics)
        return known if fits else self.metrics[:2]


@dataclass(frozen=True)
class StoredRun:
    """What a figure's CSV tells of one run: as much of a RunConfig as the panels read."""

    group: str
    curve: str
    seed: int
    alpha: float
    b: int = 0
    q: int = 0
    gamma: float = math.nan
    rule: str = "trimmed-mean"
    attack: Optional[str] = None
    sizes: Any = None
    poisoned_devices: Optional[int] = None  # how many are selected on average is unknown
    alpha_schedule: str = "unknown"  # so that no epoch is marked as that of the decay
    evaluated: Tuple[int, ...] = ()  # the epochs of runs that reached the figure's last one

    @property
    def epochs(self) -> int:
        return max(self.evaluated, default=0)

    def evaluations(self, until: int, most: int) -> List[int]:
        """As of a RunConfig."""
        return [epoch for epoch in self.evaluated if epoch <= until][:most]


@dataclass(frozen=True)
class StoredFigure:
    """A figure as its CSV file has it.

    Panels that need more than metrics, such as the roughness after the decay, are left out.
    """

    name: str
    path: Path
    title: str
    panels: List[Panel]
    runs: Dict[StoredRun, List[Row]]
    synthetic: bool  # the table says so
    text: str  # of the file

    @property
    def seeds(self) -> List[int]:
        return sorted({run.seed for run in self.runs})


def find_figures(folder: Path) -> Dict[str, Path]:
    """The CSV files of figures in a folder, by name of the figure."""
    paths = {name: Path(folder) / f"{file_name(name)}.csv" for name in FIGURES}
    return {name: path for name, path in paths.items() if path.is_file()}


def read_figure(name: str, path: Path) -> StoredFigure:
    """Read the CSV of a figure, of this or an earlier version; a RunError if it is damaged."""
    text = read_text(path)
    try:
        rows = [{k: v for k, v in row.items() if k} for row in csv.DictReader(io.StringIO(text))]
        if not rows:
            raise ValueError("it has no rows")
        runs = _by_run(rows, name)
        reach = isinstance(FIGURES[name], ReachFigure)
        panels = _reach_panels(rows) if reach else _metric_panels(name, runs)
        attack = next((run.attack for run in runs if run.attack), None)
        synthetic = rows[0].get("data") == "synthetic"
        title = _title(name, attack, rows[0]) + SYNTHETIC * synthetic
        _check_numbers(rows, next(iter(runs)).sizes.metrics)
    except (ValueError, KeyError, TypeError, ConfigError, csv.Error) as error:
        why = f"there is no {error}" if isinstance(error, KeyError) else error
        raise RunError(f"{path} is not the CSV file of {name}: {why}") from error
    return StoredFigure(name, path, title, panels, runs, synthetic, text)


def _check_numbers(rows: List[Row], metrics: Sequence[str]) -> None:
    """A ValueError or TypeError if a cell that has to be a number is none."""
    for row in rows:
        int(row["epoch"] if "epoch" in row else row["epochs_computed"])
        for name in metrics:
            if name in row:  # a table of an earlier version may lack it
                float(row[name])


def _title(name: str, attack: Optional[str], row: Row) -> str:
    """The title, with the task and the poisoned devices if the table states them."""
    task, devices = row.get("task", ""), row.get("poisoned_devices")
    figure = FIGURES[name]
    if devices:
        figure = figure_of(name, Variant("paper", {}, poisoned_devices=int(devices)))
    if task:  # which partition it has is not in the table
        figure = replace(figure, title=re.sub(rf"^{IID}, |, {IID}$", "", figure.title))
    return full_title(name, attack, figure, task)


def _sizes(name: str, row: Row) -> Any:
    """The sizes of the paper's task; of another one its name, and the metrics in the table."""
    if not row.get("task"):
        return SIZES[FIGURES[name].task]()
    columns = list(row)
    after = columns[columns.index("epoch") + 1 :] if "epoch" in columns else []
    return StoredSizes(row["task"], tuple(c for c in after if c not in PROOF))


def _by_run(rows: List[Row], name: str) -> Dict[StoredRun, List[Row]]:
    sizes = _sizes(name, rows[0])
    found: Dict[StoredRun, List[Row]] = {}
    for row in rows:
        rule, attack = row.get("rule") or "trimmed-mean", row.get("attack") or "none"
        run = StoredRun(
            row.get("group", ""),
            row["curve"],
            int(row["seed"]),
            float(row["alpha"]),
            int(row.get("b", 0)),
            int(row.get("q", 0)),
            float(row.get("gamma", "nan")),
            rule.replace(";", ","),  # see ``plain``
            None if attack == "none" else attack.replace(";", ","),
            sizes,
        )
        found.setdefault(run, []).append(row)
    evaluated = _evaluated(found.values()) if "epoch" in rows[0] else ()
    return {replace(run, evaluated=evaluated): lines for run, lines in found.items()}


def _evaluated(runs: Iterable[Sequence[Row]]) -> Tuple[int, ...]:
    """The epochs of the runs that were not stopped: those with the last epoch of all."""
    epochs = [[int(row["epoch"]) for row in rows] for rows in runs]
    last = max(each[-1] for each in epochs)
    return tuple(sorted({epoch for each in epochs if each[-1] == last for epoch in each}))


def _metric_panels(name: str, runs: Dict[StoredRun, List[Row]]) -> List[Panel]:
    """The panels of metrics, by the code that draws them from run folders."""
    members: Dict[str, Dict[str, List[StoredRun]]] = {}
    for run in runs:
        members.setdefault(run.group, {}).setdefault(run.curve, []).append(run)
    seeds = sorted({run.seed for run in runs})
    lines = {
        group: [Line(label, {}, _with_missing(same, seeds)) for label, same in curves.items()]
        for group, curves in members.items()
    }
    last = max(int(rows[-1]["epoch"]) for rows in runs.values())
    outcomes: Dict[Any, Outcome] = {
        run: _outcome(runs.get(run, []), last)
        for each in lines.values()
        for line in each
        for run in line.runs
    }
    figure = replace(FIGURES[name], derived=())
    looks = [plain(label) for label in labels_of_whole(figure, Variant("paper", {}))]
    return metric_figure(figure, lines, outcomes, looks=looks)[0]


def _with_missing(runs: List[StoredRun], seeds: Sequence[int]) -> Tuple[Any, ...]:
    """The runs of a curve, and stand-ins for the seeds that only other curves have."""
    found = {run.seed for run in runs}
    return (*runs, *(replace(runs[0], seed=seed) for seed in seeds if seed not in found))


def _outcome(rows: List[Row], last: int) -> Outcome:
    """What became of a run; one that ends before the last epoch is unfinished or diverged."""
    if not rows:
        return Outcome("missing")
    if rows[0].get(UNFINISHED):
        return Outcome("begun", rows=rows)
    return Outcome("done" if int(rows[-1]["epoch"]) == last else "diverged", rows=rows)


def _reach_panels(rows: List[Row]) -> List[Panel]:
    alphas = sorted({float(row["alpha"]) for row in rows})
    seeds = sorted({int(row["seed"]) for row in rows})
    found: Dict[str, Dict[Tuple[int, float], float]] = {}
    for row in rows:
        at = math.inf if row["epochs_to_reach"] == "never" else float(row["epochs_to_reach"])
        found.setdefault(row["curve"], {})[int(row["seed"]), float(row["alpha"])] = at
    curves = []
    for label, at in found.items():
        epochs = np.array([[at.get((seed, a), math.nan) for a in alphas] for seed in seeds])
        curves.append(reach_curve(label, alphas, epochs))
    longest = max(int(row["epochs_computed"]) for row in rows)
    return [reach_panel(curves, float(rows[0]["loss_to_reach"]), longest)]
