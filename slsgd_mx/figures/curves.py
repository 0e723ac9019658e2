"""Rows of metrics.csv -> curves; no MXNet."""

from __future__ import annotations

from pathlib import Path
from typing import List, Sequence

import numpy as np

from slsgd_mx.config import RunConfig
from slsgd_mx.figures.plot import Curve, Panel, draw
from slsgd_mx.runs.metrics import Row, column
from slsgd_mx.system.files import disk_errors, write_atomically

TITLES = {
    "train_loss": ("Cross entropy on training set", "Cross entropy"),
    "test_loss": ("Cross entropy on testing set", "Cross entropy"),
    "test_perplexity": ("Perplexity on testing set", "Perplexity"),
    "test_accuracy": ("Top-1 accuracy on testing set", "Accuracy"),
}


def curve(label: str, runs: Sequence[Sequence[Row]], metric: str) -> Curve:
    """A metric over epochs of one or several repeats; where a run ended early, NaN."""
    epochs = np.unique(np.concatenate([column(rows, "epoch") for rows in runs]))
    y = np.full((len(runs), len(epochs)), np.nan)
    for repeat, rows in enumerate(runs):
        y[repeat, np.searchsorted(epochs, column(rows, "epoch"))] = column(rows, metric)
    return Curve(label, epochs, y)


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
        for metric in config.sizes.panels
    ]


def data_note(config: RunConfig) -> str:
    """Names the data under a picture; a stand-in is called one."""
    if config.sizes.data == "synthetic":
        return "Synthetic data: an embedded, made-up stand-in."
    return f"Data: {config.sizes.data}."


def write_curves(path: Path, config: RunConfig, lines: Sequence) -> None:
    """The numbers behind a picture: curve, repeat, epoch and the metrics, a row a point."""
    metrics = config.sizes.metrics
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
    kind = "synthetic data" if config.sizes.data == "synthetic" else config.sizes.data
    title = f"{config.sizes.task}, {kind} ({config.sizes.partition}){attack}"
    draw(metric_panels(config, [(legend(config), runs)]), path, title, data_note(config))
