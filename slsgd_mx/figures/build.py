"""A figure's stored runs -> its picture and the numbers behind it; no MXNet.

A run that is missing is named in the legend and in what is returned, never left out in silence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

import numpy as np

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import RunError
from slsgd_mx.figures.curves import TITLES, curve, data_note
from slsgd_mx.figures.declarations import (
    FIGURES,
    Curves,
    Figure,
    Line,
    Reach,
    Size,
    groups,
    loss_to_reach,
)
from slsgd_mx.figures.plot import Curve, Panel, band, draw, frame
from slsgd_mx.runs.metrics import epochs_to
from slsgd_mx.runs.status import Outcome, read_outcome
from slsgd_mx.system.files import disk_errors, write_atomically

NAMES = {"cifar": "CNN", "lstm": "LSTM"}


@dataclass(frozen=True)
class Drawn:
    """The files of a figure, and what it lacks."""

    files: List[Path]
    missing: List[str]  # runs that are not finished, "slug: state"


def draw_figure(name: str, size: Size, home: Path, out: Path) -> Drawn:
    """Draw a figure from the runs under ``home``: ``out``/figNN.png, .svg and .csv."""
    figure = FIGURES[name]
    lines = groups(figure, size)
    runs = [run for group in lines.values() for line in group for run in line.runs]
    outcomes = {run: read_outcome(home / run.slug, run) for run in dict.fromkeys(runs)}
    missing = [
        f"{run.slug}: {outcome.why or outcome.state}"
        for run, outcome in outcomes.items()
        if outcome.state not in ("done", "diverged")
    ]
    if len(missing) == len(outcomes):
        raise RunError(f"{name} cannot be drawn: none of its {len(missing)} runs is finished")
    if isinstance(figure, Reach):
        panels, table = _reach(figure, size, lines[""], outcomes)
    else:
        panels, table = _metrics(figure, lines, outcomes)
    title = _title(name, figure, runs[0])
    stem = file_name(name)
    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / f"{stem}.csv", table.encode())
    files = draw(panels, [out / f"{stem}.png", out / f"{stem}.svg"], title, _note(runs, missing))
    return Drawn([*files, out / f"{stem}.csv"], missing)


def file_name(name: str) -> str:
    """A figure's file, without its ending.

    >>> file_name("fig3"), file_name("fig12"), file_name("ledger")
    ('fig03', 'fig12', 'ledger')
    """
    return f"fig{int(name[3:]):02d}" if name[:3] == "fig" else name


def _title(name: str, figure: Figure, config: RunConfig) -> str:
    number = f"Figure {name[3:]}: " if name[:3] == "fig" else ""
    zoomed = ", zoomed" if isinstance(figure, Curves) and figure.zoom else ""
    kind = " (synthetic data)" if config.sizes.data == "synthetic" else ""
    return f"{number}{NAMES[figure.task]}, {figure.title}{zoomed}{kind}"


def _note(runs: Sequence[RunConfig], missing: Sequence[str]) -> str:
    """What the data are, how large the runs, what is missing."""
    config, seeds = runs[0], sorted({run.seed for run in runs})
    sizes = (
        f"n={config.n}, k={config.k}, T={max(run.epochs for run in runs)}, {config.sizes.amount}"
    )
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    lacks = f" {len(missing)} of {len(set(runs))} runs are missing." if missing else ""
    return f"{data_note(config)} {sizes}; {which}.{lacks}"


def _metrics(
    figure: Curves, lines: Dict[str, List[Line]], outcomes: Dict[RunConfig, Outcome]
) -> Tuple[List[Panel], str]:
    """The task's panels for each group, and a row for each curve, seed and evaluation."""
    config = next(iter(lines.values()))[0].runs[0]
    labels = dict.fromkeys(line.label for members in lines.values() for line in members)
    looks = {label: number for number, label in enumerate(labels)}
    panels = []
    table = [",".join(["group", "curve", "alpha", "b", "q", "gamma", "seed", "epoch",
                       *config.sizes.metrics])]  # fmt: skip
    for group, members in lines.items():
        for metric in config.sizes.panels:
            drawn = [_line_curve(line, outcomes, metric, looks) for line in members]
            title, label = TITLES[metric]
            ylim = _zoomed(members, drawn) if figure.zoom else None
            panels.append(
                Panel(
                    ", ".join(filter(None, [title, group])),
                    label,
                    drawn,
                    decay_epoch=_decay(members),
                    ylim=ylim,
                    zoom=figure.zoom,
                )
            )
        for line in members:
            for run in line.runs:
                cells = [plain(group), plain(line.label)]
                cells += [f"{run.alpha:g}", str(run.b), str(run.q), f"{run.gamma:g}", str(run.seed)]
                for row in outcomes[run].rows:
                    metrics = (row[metric] for metric in config.sizes.metrics)
                    table.append(",".join([*cells, row["epoch"], *metrics]))
    return panels, "\n".join(table) + "\n"


def plain(label: str) -> str:
    r"""A label as a cell of a CSV.

    >>> plain(r"SLSGD, $\gamma=0.1$, $b=2$")
    'SLSGD; gamma=0.1; b=2'
    """
    return label.replace("$", "").replace("\\", "").replace(",", ";")


def _line_curve(
    line: Line, outcomes: Dict[RunConfig, Outcome], metric: str, looks: Dict[str, int]
) -> Curve:
    """The mean and band of the seeds that are there; the label says what is not."""
    runs = [outcomes[run].rows for run in line.runs if outcomes[run].rows]
    label = line.label
    diverged = sum(outcomes[run].state == "diverged" for run in line.runs)
    lacking = sum(outcomes[run].state not in ("done", "diverged") for run in line.runs)
    for count, what in ((diverged, "diverged"), (lacking, "missing")):
        if count:
            many = f"{count} of {len(line.runs)} " if len(line.runs) > 1 else ""
            label += f" [{many}{what}]"
    made = curve(label, runs, metric) if runs else Curve(label, np.array([]), np.zeros((1, 0)))
    return replace(made, style=looks[line.label])


def _decay(members: Sequence[Line]) -> int | None:
    """The epoch to mark: where the alpha of some curve decays."""
    for line in members:
        config = line.runs[0]
        if config.alpha < 1 and config.alpha_schedule == "step":
            return config.alpha_decay_epoch
    return None


def _zoomed(members: Sequence[Line], drawn: Sequence[Curve]) -> tuple[float, float] | None:
    """y limits from the second half of the curves that trim enough for their attack."""
    halves = [
        band(c)[:, c.x > c.x.max() / 2]
        for line, c in zip(members, drawn)
        if line.runs[0].b >= line.runs[0].q and len(c.x)
    ]
    return frame(halves) if halves else None


def _reach(
    figure: Reach, size: Size, members: Sequence[Line], outcomes: Dict[RunConfig, Outcome]
) -> Tuple[List[Panel], str]:
    """Epochs to the loss over alpha, and a row for each line, alpha and seed."""
    loss, alphas, repeats = loss_to_reach(figure, size), size.alphas, len(size.seeds)
    table = ["curve,alpha,seed,loss_to_reach,epochs_to_reach,epochs_computed"]
    drawn = []
    for line in members:
        epochs = np.full((repeats, len(alphas)), np.nan)
        for index, run in enumerate(line.runs):
            outcome = outcomes[run]
            if outcome.state in ("done", "diverged"):
                reached = outcome.state == "done"  # what diverges has not got there for good
                at = epochs_to(outcome.rows, loss) if reached else math.inf
                epochs[index % repeats, index // repeats] = at
                said = "never" if math.isinf(at) else f"{at:g}"
                cells = [plain(line.label), f"{run.alpha:g}", str(run.seed), f"{loss:g}", said]
                table.append(",".join([*cells, outcome.rows[-1]["epoch"]]))
        lacking = int(np.isnan(epochs).sum())
        label = line.label + (f" [{lacking} of {epochs.size} missing]" if lacking else "")
        drawn.append(Curve(label, np.array(alphas), epochs))
    longest = max(run.epochs for line in members for run in line.runs)
    panel = Panel(
        f"Epochs to reach training loss {loss:g}",
        "Epochs",
        drawn,
        xlabel=r"$\alpha$ (constant)",
        ylim=(0, 1.08 * longest),
        outside=f"▲ not reached within {longest} epochs",
    )
    return [panel], "\n".join(table) + "\n"
