"""The picture of a partition: devices x labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.style import COLOURS, as_paths, new_figure, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from slsgd_mx.figures.style import Paths


def draw_partition(
    counts: np.ndarray, path: Paths, title: str | None = None, names: Sequence[str] | None = None
) -> list[Path]:
    """Draw counts (n, classes): sizes, samples by label and distinct labels, device by device."""
    paths, counts = as_paths(path), np.asarray(counts)
    if counts.ndim != 2 or 0 in counts.shape:
        raise ConfigError(f"counts of shape {counts.shape} cannot be drawn: (n, classes) is needed")
    n, classes = counts.shape
    tall = min(max(0.24 * classes, 1.0), 6.0)
    with new_figure(10.0, 3.4 + tall) as figure:
        grid = {"height_ratios": [1.4, tall, 1.1], "width_ratios": [60, 1]}
        axes = figure.subplots(3, 2, gridspec_kw=grid)
        sizes, heat, distinct = axes[:, 0]
        axes[0, 1].remove()
        axes[2, 1].remove()
        for ax, bars in ((sizes, counts.sum(axis=1)), (distinct, (counts > 0).sum(axis=1))):
            ax.bar(np.arange(n), bars, width=0.8 if n <= 200 else 1.0, color=COLOURS[2])
            ax.grid(axis="x", visible=False)
            ax.locator_params(axis="y", integer=True, nbins=5)
        _draw_heat(heat, axes[1, 1], counts, names)
        for ax, name in zip(axes[:, 0], ("Samples", "Label", "Distinct labels")):
            ax.set(ylabel=name, xlim=(-0.7, n - 0.3))
            ax.locator_params(axis="x", integer=True, nbins=11)
            ax.tick_params(labelbottom=ax is distinct)
        distinct.set(xlabel="Device")
        figure.align_ylabels(axes[:, 0])
        figure.suptitle(title or "", fontsize=13, y=0.985)
        figure.tight_layout(rect=(0, 0, 1, 1), w_pad=0.5, h_pad=0.6)
        return write(figure, paths)


def _draw_heat(ax: Axes, bar: Axes, counts: np.ndarray, names: Sequence[str] | None) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    # Light to dark in one hue reads in greyscale; none at all is white, one sample is not.
    colours = LinearSegmentedColormap.from_list("samples", ["#B9D4EA", "#2C7FB8", "#081D58"])
    held = np.ma.masked_equal(counts.T, 0)  # (classes, n)
    scale = {"vmin": 1, "vmax": max(2, counts.max())}
    picture = ax.imshow(held, cmap=colours, aspect="auto", interpolation="nearest", **scale)
    ax.grid(False)
    ax.hlines(np.arange(counts.shape[1] - 1) + 0.5, -0.5, len(counts) - 0.5, "#E4E4E4", lw=0.6)
    if names is not None or counts.shape[1] <= 25:
        ax.set_yticks(range(counts.shape[1]))
        ax.set_yticklabels(range(counts.shape[1]) if names is None else names)
    ax.figure.colorbar(picture, cax=bar, label="Samples", ticks=MaxNLocator(5, integer=True))
