"""Stored runs -> panels, pictures and the tables of numbers behind them; no MXNet.

A run that is missing or not finished is named in the legend and in what is returned, never left out
silently.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import RunError
from slsgd_mx.figures.adapted import figure_of, labels_of_whole
from slsgd_mx.figures.captions import (
    SYNTHETIC,
    attackers,
    data_name,
    data_note,
    label_of,
    note_on,
    plain,
    precision_in_words,
    threat,
)
from slsgd_mx.figures.declarations import MetricFigure, ReachFigure, file_name, full_title
from slsgd_mx.figures.panels import (
    DERIVED,
    Repeats,
    decay_epoch_of,
    end_of,
    joined,
    limits,
    line_curve,
    metric_curve,
    remarks_on,
    title_of,
)
from slsgd_mx.figures.plot import Curve, Panel, band_of_known, draw
from slsgd_mx.figures.style import literal
from slsgd_mx.figures.tables import runs_in
from slsgd_mx.figures.used import COLUMNS as USED_COLUMNS
from slsgd_mx.figures.used import used_panels
from slsgd_mx.figures.variants import Line, Variant, groups, loss_to_reach
from slsgd_mx.runs.index import RunIndex
from slsgd_mx.runs.metrics import epochs_to
from slsgd_mx.runs.prefix import prefix_of
from slsgd_mx.runs.proof import read_closing
from slsgd_mx.runs.status import ENDED, Outcome, read_outcome, read_so_far
from slsgd_mx.system.files import write_csv
from slsgd_mx.workloads import OWN

SUCCESS = "attack_success"
Table = Tuple[List[str], List[List[str]]]  # columns and rows
PROOF = ("run", "digest")  # columns: a run's identity, and the digest of its model as in DONE
UNPROVEN = ("", "")
UNFINISHED = "unfinished"  # a column, if some runs are drawn as far as they got
Proofs = Dict[RunConfig, List[str]]


@dataclass(frozen=True)
class Drawn:
    """The files of a figure, and the runs it lacks."""

    files: List[Path]
    missing: List[str]  # unfinished runs, "slug: how far it got"


@dataclass(frozen=True)
class Built:
    """A figure before it is drawn: panels, words and the numbers behind them."""

    name: str
    title: str
    note: str
    panels: List[Panel]
    own: Dict[str, str]  # what tables state in every row
    table: Table
    lines: Dict[str, List[Line]]
    folders: Dict[RunConfig, Path]  # of the runs that have rows
    missing: List[str]  # unfinished runs, "slug: how far it got"


def draw_figure(name: str, variant: Variant, home: Path, folder: Path) -> Drawn:
    """Draw a figure from the runs under ``home``: ``folder``/figNN.png, .svg and .csv.

    A RunError if that would replace the table of a figure with more runs.
    """
    built = build_figure(name, variant, RunIndex(home))
    stem = folder / file_name(name)
    _refuse_to_shrink(stem.with_suffix(".csv"), built)
    pictures = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    draw(built.panels, pictures, built.title, built.note)
    write_csv(stem.with_suffix(".csv"), *built.table)
    figure, used = figure_of(name, variant), []
    if isinstance(figure, MetricFigure) and not figure.zoom:  # others show the same runs
        used = _draw_used(built, stem)
    return Drawn([*pictures, stem.with_suffix(".csv"), *used], built.missing)


def _refuse_to_shrink(path: Path, built: Built) -> None:
    """A RunError if the table at ``path`` has all finished runs of this figure, and more.

    It may be all that is left of them.
    """
    columns, rows = built.table
    here = {row[columns.index(PROOF[0])] for row in rows} - {""}
    there = runs_in(path)
    if here < there:
        raise RunError(
            f"{built.name} is not drawn: {path} has its {len(here)} finished runs and "
            f"{len(there) - len(here)} more, which would be lost; --figures DIR draws it elsewhere"
        )


def build_figure(name: str, variant: Variant, index: RunIndex) -> Built:
    """The panels and numbers of a figure; a RunError if none of its runs has a number.

    Metrics of a run that is not finished are drawn as far as it got.
    """
    figure = figure_of(name, variant)
    lines = groups(figure, variant)
    runs = [run for group in lines.values() for line in group for run in line.runs]
    reach = isinstance(figure, ReachFigure)
    found = {run: (index.folder(run), read_outcome(index.folder(run), run)) for run in runs}
    for line in (line for group in lines.values() for line in group):
        if not reach and not any(found[run][1].state in ENDED for run in line.runs):
            found.update({run: _so_far(run, *found[run], index) for run in line.runs})
    outcomes = {run: outcome for run, (_, outcome) in found.items()}
    missing = [
        f"{run.slug}: {outcome.why or _state(outcome, run)}"
        for run, outcome in outcomes.items()
        if outcome.state not in ENDED
    ]
    folders = {run: path for run, (path, outcome) in found.items() if outcome.rows}
    if not folders:
        raise RunError(f"{name} cannot be drawn: none of its {len(missing)} runs is finished")
    proofs = {
        run: [run.identity, _model_digest(path)]
        for run, path in folders.items()
        if outcomes[run].state in ENDED
    }
    if reach:
        panels, table = _reach(figure, variant, lines[""], outcomes, proofs)
    else:
        looks = labels_of_whole(figure, variant)
        panels, table = metric_figure(figure, lines, outcomes, proofs, looks)
    own = _own_columns(variant, runs[0])
    table = _with_columns(table, own)
    kind = SYNTHETIC if "data" in own else ""
    kind += precision_in_words(runs[0])
    attack = next((run.attack for run in runs if run.attacked), None)
    workload = "" if variant.task is None else literal(runs[0].sizes.title)
    title = full_title(name, attack, figure, workload) + kind
    note = note_on(outcomes, variant.where)
    return Built(name, title, note, panels, own, table, lines, folders, missing)


def _so_far(
    run: RunConfig, folder: Path, outcome: Outcome, index: RunIndex
) -> Tuple[Path, Outcome]:
    """The folder and outcome of a run that has not ended, with its rows so far.

    Before it begins, they are those of its prefix; if that diverged, so does the run.
    """
    if outcome.state == "begun":
        return folder, replace(outcome, rows=read_so_far(folder, run))
    prefix = prefix_of(run)
    if outcome.state != "missing" or prefix is None:
        return folder, outcome
    path = index.folder(prefix)
    first = read_outcome(path, prefix)
    rows = first.rows or read_so_far(path, prefix)
    state = "diverged" if first.state == "diverged" else "begun"
    return (path, Outcome(state, first.epoch, rows)) if rows else (folder, outcome)


def _state(outcome: Outcome, run: RunConfig) -> str:
    return f"{end_of(outcome)} of {run.epochs}" if outcome.rows else outcome.state


def _model_digest(path: Path) -> str:
    """The digest of a run's model, equal wherever its numbers are; "" if it diverged."""
    closing = read_closing(path)
    return "" if closing is None else closing.digests.get("model", "")


def _own_columns(variant: Variant, run: RunConfig) -> Dict[str, str]:
    """What tables of this variant state in every row.

    The task and the poisoned devices, if given, and that the data are synthetic; tables of the
    paper's figures have none of them.
    """
    own = {"task": variant.task, "poisoned_devices": variant.poisoned_devices}
    own["data"] = "synthetic" if run.sizes.data == "synthetic" else None
    return {name: str(value) for name, value in own.items() if value is not None}


def _with_columns(table: Table, own: Dict[str, str]) -> Table:
    """The table with further columns before its own, equal in all rows."""
    columns, rows = table
    return [*own, *columns], [[*own.values(), *row] for row in rows]


def _draw_used(built: Built, stem: Path) -> List[Path]:
    """Draw which pushes the rule used, if the runs have recorded it: ``stem``-used.png, .csv."""
    panels, rows = used_panels(built.lines, built.folders)
    if not panels:
        return []
    picture = stem.with_name(f"{stem.name}-used.png")
    draw(panels, picture, built.title, built.note)
    cells = [[plain(cell) for cell in row] for row in rows]
    write_csv(picture.with_suffix(".csv"), *_with_columns((USED_COLUMNS, cells), built.own))
    return [picture, picture.with_suffix(".csv")]


def draw_runs(config: RunConfig, runs: Repeats, path: Path) -> None:
    """The curves of one run, or of its repeats, in the run folder."""
    named = config.sizes.partition != OWN
    title = joined(config.sizes.task, data_name(config)) + f" ({config.sizes.partition})" * named
    title += precision_in_words(config)
    title = joined(title, threat(config), attackers(config))
    lines = {label_of(config): runs}
    panels = metric_panels(config, lines)
    if all(SUCCESS in row for rows in runs for row in rows):  # of a backdoor, which it measures
        panels.append(_metric_panel(config, lines, SUCCESS))
    draw(panels, path, literal(title), data_note(config))


def metric_panels(config: RunConfig, lines: Dict[str, Repeats]) -> List[Panel]:
    """The paper's panels for this task, with a curve for each label."""
    return [_metric_panel(config, lines, metric) for metric in config.sizes.panels]


def _metric_panel(config: RunConfig, lines: Dict[str, Repeats], metric: str) -> Panel:
    return Panel(
        *title_of(metric, config.sizes.task),
        [metric_curve(label, runs, metric) for label, runs in lines.items()],
        decay_epoch=decay_epoch_of([config]),
    )


def write_curves(path: Path, config: RunConfig, lines: Dict[str, Repeats]) -> None:
    """The numbers behind ``metric_panels``: a row for each curve, seed and evaluation."""
    rows = [
        [plain(label), config.seed + repeat, row["epoch"], *(row[m] for m in config.sizes.metrics)]
        for label, runs in lines.items()
        for repeat, rows in enumerate(runs)
        for row in rows
    ]
    write_csv(path, ["curve", "seed", "epoch", *config.sizes.metrics], rows)


def metric_figure(
    figure: MetricFigure,
    lines: Dict[str, List[Line]],
    outcomes: Dict[RunConfig, Outcome],
    proofs: Optional[Proofs] = None,
    looks: Sequence[str] = (),
) -> Tuple[List[Panel], Table]:
    """The task's panels for each group, and a row for each curve, seed and evaluation.

    Curves look as in the figure with the labels ``looks``, if that has all of them.
    """
    sizes = next(iter(lines.values()))[0].runs[0].sizes
    labels = dict.fromkeys(line.label for members in lines.values() for line in members)
    ordered = dict.fromkeys(looks) if {*labels} <= {*looks} else labels
    styles = {label: number for number, label in enumerate(ordered)}
    remarks = remarks_on(lines, outcomes)
    panels, rows, proofs = [], [], proofs or {}
    partial = any(outcome.state == "begun" and outcome.rows for outcome in outcomes.values())
    for group, members in lines.items():
        decay_epoch = decay_epoch_of(line.runs[0] for line in members)
        look = {"decay_epoch": decay_epoch, "zoom": figure.zoom}
        for metric in sizes.panels:
            curves = [
                line_curve(line, outcomes, metric, styles[line.label], remarks[group, line.label])
                for line in members
            ]
            title, ylabel = title_of(metric, sizes.task)
            title = joined(title, group, "zoomed" * bool(figure.whole))  # see ``full_title``
            ylim = limits(members, curves, metric, figure.zoom)
            panels.append(Panel(title, ylabel, curves, ylim=ylim, **look))
        for line in members:
            for run in line.runs:
                cells = [plain(group), plain(line.label), f"{run.alpha:g}", str(run.b), str(run.q)]
                cells += [f"{run.gamma:g}", plain(run.rule), plain(run.attack or "none")]
                cells += [str(run.seed)]
                cells += ["yes" if outcomes[run].state == "begun" else ""] * partial
                for row in outcomes[run].rows:
                    metrics = [row[metric] for metric in sizes.metrics]
                    rows.append([*cells, row["epoch"], *metrics, *proofs.get(run, UNPROVEN)])
    for name in figure.derived:
        panels += DERIVED[name](lines, outcomes, styles)
    columns = ["group", "curve", "alpha", "b", "q", "gamma", "rule", "attack", "seed"]
    columns += [*[UNFINISHED] * partial, "epoch", *sizes.metrics, *PROOF]
    return panels, (columns, rows)


def _reach(
    figure: ReachFigure,
    variant: Variant,
    members: Sequence[Line],
    outcomes: Dict[RunConfig, Outcome],
    proofs: Proofs,
) -> Tuple[List[Panel], Table]:
    """Epochs to the loss over alpha, and a row for each line, alpha and seed."""
    loss, alphas, repeats = loss_to_reach(figure, variant), variant.alphas, len(variant.seeds)
    columns = ["curve", "alpha", "b", "q", "gamma", "passes", "rule", "attack", "seed"]
    columns += ["loss_to_reach", "epochs_to_reach", "epochs_computed", *PROOF]
    curves, rows = [], []
    for line in members:
        epochs = np.full((repeats, len(alphas)), np.nan)
        for index, run in enumerate(line.runs):
            outcome = outcomes[run]
            if outcome.state in ENDED:  # a run that diverges has not reached it
                at = epochs_to(outcome.rows, loss) if outcome.state == "done" else math.inf
                epochs[index % repeats, index // repeats] = at
                reached = "never" if math.isinf(at) else f"{at:g}"
                cells = [plain(line.label), f"{run.alpha:g}", str(run.b), str(run.q)]
                cells += [f"{run.gamma:g}", str(run.passes), plain(run.rule)]
                cells += [plain(run.attack or "none"), str(run.seed), f"{loss:g}", reached]
                rows.append([*cells, outcome.rows[-1]["epoch"], *proofs[run]])
        curves.append(reach_curve(line.label, alphas, epochs))
    longest = max(run.epochs for line in members for run in line.runs)
    return [reach_panel(curves, loss, longest)], (columns, rows)


def reach_curve(label: str, alphas: Sequence[float], epochs: np.ndarray) -> Curve:
    """Epochs to a loss, (repeats, alphas): NaN if a run is missing, infinite if never reached.

    A point is the mean of the repeats that are there, and the legend says how many are not.
    """
    missing = int(np.isnan(epochs).sum())
    remark = f"{missing} of {epochs.size} missing" if missing else ""
    summary = band_of_known(epochs) if missing else None
    return Curve(label, np.array(alphas), epochs, remark=remark, summary=summary)


def reach_panel(curves: Sequence[Curve], loss: float, longest: int) -> Panel:
    """Epochs to a loss over alpha; ``longest`` is the number of epochs computed."""
    return Panel(
        f"Epochs to reach training loss {loss:g}",
        "Epochs",
        curves,
        xlabel=r"$\alpha$ (constant)",
        ylim=(0, 1.08 * longest),
        outside=f"▲ not reached within {longest} epochs",
        triangles="Triangles at the top: at least one repeat does not reach the loss.",
        dots=True,
    )
