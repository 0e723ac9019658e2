"""Rows of metrics.csv -> curves; no MXNet."""

from __future__ import annotations

import math
from pathlib import Path
from typing import List, Sequence

import numpy as np

from .config import RunConfig
from .files import disk_errors, write_atomically
from .plot import Curve, Panel, draw
from .store import Row

TITLES = {
    "train_loss": ("Cross entropy on training set", "Cross entropy"),
    "test_loss": ("Cross entropy on testing set", "Cross entropy"),
    "test_perplexity": ("Perplexity on testing set", "Perplexity"),
    "test_accuracy": ("Top-1 accuracy on testing set", "Accuracy"),
}


def column(rows: Sequence[Row], name: str) -> np.ndarray:
    """One column of the metrics as numbers."""
    return np.array([float(row[name]) for row in rows])


def curve(label: str, runs: Sequence[Sequence[Row]], metric: str) -> Curve:
    """A metric over epochs of one or several repeats; where a run ended early, NaN."""
    epochs = np.unique(np.concatenate([column(rows, "epoch") for rows in runs]))
    y = np.full((len(runs), len(epochs)), np.nan)
    for repeat, rows in enumerate(runs):
        y[repeat, np.searchsorted(epochs, column(rows, "epoch"))] = column(rows, metric)
    return Curve(label, epochs, y)


def average(config: RunConfig, runs: Sequence[Sequence[Row]]) -> List[Row]:
    """The metrics averaged over repeats, for the epochs that all of them have."""
    by_epoch = [{row["epoch"]: row for row in rows} for rows in runs]
    averaged = []
    for epoch in (row["epoch"] for row in runs[0]):
        if all(epoch in rows for rows in by_epoch):
            repeats = [rows[epoch] for rows in by_epoch]
            means = {m: np.mean([float(r[m]) for r in repeats]) for m in config.task.metrics}
            averaged.append({"epoch": epoch, **{m: repr(float(v)) for m, v in means.items()}})
    return averaged


def epochs_to(rows: Sequence[Row], loss: float) -> float:
    """The first evaluated epoch with no more than that training loss; infinite if there is none.

    >>> epochs_to([{"epoch": "2", "train_loss": "1.5"}, {"epoch": "4", "train_loss": "0.5"}], 0.5)
    4.0
    """
    reached = column(rows, "epoch")[column(rows, "train_loss") <= loss]
    return float(reached[0]) if len(reached) else math.inf


def legend(config: RunConfig) -> str:
    """The paper's wording: ``SLSGD, gamma=0.1, alpha=0.8, b=2``.

    >>> legend(RunConfig(alpha=0.8, b=2))
    'SLSGD, $\\\\gamma=0.1$, $\\\\alpha=0.8$, $b=2$'
    """
    rule = f"$b={config.b}$" if config.rule == "trimmed-mean" else config.rule
    return rf"SLSGD, $\gamma={config.gamma:g}$, $\alpha={config.alpha:g}$, {rule}"


def metric_panels(config: RunConfig, lines: Sequence) -> List[Panel]:
    """The paper's panels for this task; ``lines`` are (label, runs) pairs."""
    step = config.alpha_schedule == "step" and config.alpha < 1
    decay = config.alpha_decay_epoch if step and config.alpha_decay_epoch < config.epochs else None
    return [
        Panel(
            *TITLES[metric],
            [curve(label, runs, metric) for label, runs in lines],
            decay_epoch=decay,
        )
        for metric in config.task.panels
    ]


def data_note(config: RunConfig) -> str:
    """Names the data under a picture; a stand-in is called one."""
    if config.task.data == "synthetic":
        return "Synthetic data: an embedded, made-up stand-in."
    return f"Data: {config.task.data}."


def write_curves(path: Path, config: RunConfig, lines: Sequence) -> None:
    """The numbers behind a picture: curve, repeat, epoch and the metrics, a row a point."""
    metrics = config.task.metrics
    text = ",".join(["curve", "seed", "epoch", *metrics]) + "\n"
    for label, runs in lines:
        for repeat, rows in enumerate(runs):
            for row in rows:
                cells = [label.replace("$", "").replace(",", ";"), str(config.seed + repeat)]
                text += ",".join([*cells, row["epoch"], *(row[m] for m in metrics)]) + "\n"
    with disk_errors(path.parent):
        write_atomically(path, text.encode())


def draw_runs(config: RunConfig, runs: Sequence[Sequence[Row]], path: Path) -> None:
    """The curves of one run, or of its repeats, in the run folder."""
    attack = f", {config.attack}, q={config.q}" if config.q else ", no attack"
    kind = "synthetic data" if config.task.data == "synthetic" else config.task.data
    title = f"{config.task.kind}, {kind} ({config.task.partition}){attack}"
    draw(metric_panels(config, [(legend(config), runs)]), path, title, data_note(config))
