"""Pictures: curves over epochs in panels, and a partition as devices x labels.

Draws what it is given and knows nothing of runs or of MXNet.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.style import COLOURS, GREY, as_paths, new_figure, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slsgd_mx.figures.style import Paths

# Colour tells curves apart; line style and marker do the same in greyscale.
LINES = ["-", (0, (6, 2)), (0, (4, 1.5, 1, 1.5)), (0, (1.5, 1.2))]
MARKERS = "osD^vXP*"

_FENCE = 3.0  # a point this many reaches out would flatten the other curves, see `frame`
_FEW = 25  # up to so many points of a curve, each has a marker
_TICKED = 6  # up to so many places on the x-axis, each has a tick
_HUGE = 1e100  # as good as infinite, and arithmetic on it overflows


@dataclass(frozen=True, eq=False)
class Curve:
    """One line: y over x, with repeats on a leading axis if there are several.

    Where a repeat is NaN there is no mean and the line has a gap; the mean with an infinite
    repeat is infinite and leaves the picture. `style` numbers the look; without it, labels are
    numbered in the order in which they first occur.
    """

    label: str
    x: np.ndarray  # (points,), epochs in most figures
    y: np.ndarray  # (points,) or (repeats, points)
    style: int | None = None

    def __post_init__(self) -> None:
        x, y = np.asarray(self.x, dtype=float), np.asarray(self.y, dtype=float)
        if x.ndim != 1 or y.ndim not in (1, 2) or y.shape[-1] != len(x) or 0 in y.shape[:-1]:
            raise ConfigError(
                f"curve {self.label!r}: x of shape {x.shape} and y of shape {y.shape} do not fit: "
                "x needs (points,), y (points,) or (repeats, points) with one repeat or more"
            )
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", np.atleast_2d(y))


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes; without `ylim` the limits are those of `frame`."""

    title: str
    ylabel: str
    curves: Sequence[Curve]
    xlabel: str = "Epochs"
    decay_epoch: int | None = None  # a thin vertical mark: alpha decays here
    yscale: str = "linear"  # or "log"
    xscale: str = "linear"  # or "log"
    ylim: tuple[float, float] | None = None
    zoom: bool = False  # curves may leave it unremarked, as long as they end inside
    outside: str = "leaves the picture"  # what the legend says of a curve that does


def band(curve: Curve) -> np.ndarray:
    """Summarise repeats: minimum, mean and maximum, shape (3, points)."""
    with np.errstate(all="ignore"):  # NaN and infinity are data here
        y = np.where(np.abs(curve.y) > _HUGE, np.copysign(np.inf, curve.y), curve.y)
        return np.stack([y.min(axis=0), y.mean(axis=0), y.max(axis=0)])


def frame(bands: Sequence[np.ndarray], log: bool = False) -> tuple[float, float]:
    """Choose y limits that a diverging curve cannot stretch until the others are flat.

    Left out are points farther than 3 reaches from the typical first point, a reach being how
    far the calmest curve moves from there, or that point's own size if it is more. (On a log
    scale: in decades, and at least one.) Shares, all within 0 and 1, are never cut.

    Examples
    --------
    >>> fine, wild = Curve("fine", [1, 2], [2, 1]), Curve("wild", [1, 2], [2, 1e30])
    >>> [round(limit, 2) for limit in frame([band(fine), band(wild)])]
    [0.95, 2.05]
    """
    with np.errstate(all="ignore"):
        curves = [(np.log10(np.where(b * _HUGE < 1, 0, b)) if log else b).T for b in bands]
    curves = [c[np.isfinite(c)] for c in curves if np.isfinite(c).any()]  # each in order of x
    if not curves:
        return (0.1, 1.0) if log else (0.0, 1.0)
    y = np.concatenate(curves)
    if log or y.min() < 0 or y.max() > 1:
        first = sorted(c[0] for c in curves)[(len(curves) - 1) // 2]
        calmest = min(np.abs(c - first).max() for c in curves)
        reach = max(calmest, 1.0 if log else abs(first)) or 1.0
        y = y[np.abs(y - first) <= _FENCE * reach]
    low, high = float(y.min()), float(y.max())
    size = max(abs(low), abs(high))
    margin = 0.05 * (high - low if high - low > 1e-9 * size else size) or 0.05
    low, high = low - margin, high + margin
    return (10.0**low, 10.0**high) if log else (low, high)


def draw(
    panels: Sequence[Panel],
    path: Paths,
    title: str | None = None,
    note: str | None = None,
    columns: int | None = None,
) -> list[Path]:
    """Draw panels row by row with one legend below them all; return the files written.

    Parameters
    ----------
    path : path or sequence of paths
        Ending in .png or .svg; missing folders are made, a file appears whole or not at all.
    note : str, optional
        Small print below the legend; what line and band are is added where there are repeats.
    columns : int, optional
        Panels in a row, 2 by default.

    Raises
    ------
    ConfigError
        If there is no panel or a path ends otherwise.
    RunError
        If a file cannot be written.
    """
    paths = as_paths(path)
    if not panels:
        raise ConfigError("panels=[] cannot be drawn: at least one panel is needed")
    columns = min(columns or 2, len(panels))
    curves = [curve for panel in panels for curve in panel.curves]
    looks = {label: i for i, label in enumerate(dict.fromkeys(c.label for c in curves))}
    looks.update({c.label: c.style for c in curves if c.style is not None})
    repeats = sorted({len(c.y) for c in curves if len(c.y) > 1})
    if repeats:
        count = "-".join(str(r) for r in sorted({repeats[0], repeats[-1]}))
        note = " ".join([f"Line: mean of {count} repeats; band: minimum to maximum.", note or ""])
    with new_figure(max(4.7 * columns, 6.6), 3.1 * -(-len(panels) // columns)) as figure:
        axes = figure.subplots(-(-len(panels) // columns), columns, squeeze=False).ravel()
        remarks: dict[str, str] = {}
        for ax, panel in zip(axes, panels):
            remarks.update(_draw_panel(ax, panel, looks))
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        _arrange(figure, looks, remarks, title or "", note or "")
        return write(figure, paths)


def _draw_panel(ax: Axes, panel: Panel, looks: dict[str, int]) -> dict[str, str]:
    """Fill one pair of axes; return what the legend has to add to which label."""
    bands = [band(curve) for curve in panel.curves]
    ylim = panel.ylim or frame(bands, panel.yscale == "log")
    ax.set(xlabel=panel.xlabel, ylabel=panel.ylabel, yscale=panel.yscale, ylim=ylim)
    ax.set_xscale(panel.xscale)
    ax.set_title(textwrap.fill(panel.title, 50), pad=6 if panel.decay_epoch is None else 18)
    remarks = {}
    for curve, (low, mean, high) in zip(panel.curves, bands):
        style = looks[curve.label]
        _draw_curve(ax, curve.x, (low, mean, high), ylim, style)
        # Nothing is hidden in silence; in a zoom only a curve that ends outside is worth a word.
        zoom = panel.zoom
        up, down = (mean if zoom else high) > ylim[1], (mean if zoom else low) < ylim[0]
        if (up | down)[-1 if zoom else 0 :].any():
            remarks[curve.label] = panel.outside
            _mark_exits(ax, curve.x, up, 1, style)
            _mark_exits(ax, curve.x, down, 0, style)
    heights = np.concatenate([c.y[np.isfinite(c.y)] for c in panel.curves] or [np.array([0.5])])
    if panel.yscale == "linear" and (heights % 1 == 0).all():
        ax.yaxis.get_major_locator().set_params(integer=True)  # epochs, counted
    places = sorted({float(x) for curve in panel.curves for x in curve.x})
    if panel.xscale == "log":
        ax.minorticks_off()
    if 0 < len(places) <= _TICKED:
        ax.set_xticks(places)
        if panel.xscale == "log" and max(places) < 1000:  # beyond, powers of ten read better
            ax.set_xticklabels([f"{x:g}" for x in places])
    elif all(x % 1 == 0 for x in places):
        ax.xaxis.get_major_locator().set_params(integer=True)  # there is no epoch 2.5
    left, right = ax.get_xlim()
    if panel.decay_epoch is not None and left <= panel.decay_epoch <= right:
        ax.axvline(panel.decay_epoch, color=GREY, lw=0.9, ls=(0, (1, 2)))
        place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        place.update(xytext=(0, 4), ha="center", size=8, color=GREY)
        ax.annotate("α decays", (panel.decay_epoch, 1), **place)
    return remarks


def _mark_exits(ax: Axes, x: np.ndarray, out: np.ndarray, edge: int, style: int) -> None:
    """Put a caret on the upper (1) or lower (0) edge where a curve first lies beyond it."""
    from matplotlib.transforms import ScaledTranslation

    if len(x) > _TICKED:  # a line: where it leaves; else points: each of them
        out = out & ~np.append(False, out[:-1])
    x = x[out] if len(x) <= _FEW else x[out][:1]
    caret = {"marker": 6 if edge else 7, "markersize": 8, "linestyle": "", "zorder": 4}
    # Side by side, or carets of curves that leave together hide each other.
    aside = ScaledTranslation((style % 5 - 2) * 6 / 72, 0, ax.figure.dpi_scale_trans)
    where = {"transform": ax.get_xaxis_transform() + aside, "clip_on": False, "in_layout": False}
    ax.plot(x, np.full(len(x), edge), **{**_look(style), **caret, **where})


def _look(style: int) -> dict:
    """Colour, line and marker number `style`."""
    marker = MARKERS[(style + style // len(COLOURS)) % len(MARKERS)]
    return {
        "color": COLOURS[style % len(COLOURS)],
        "linestyle": LINES[style % len(LINES)],
        "marker": marker,
        "markersize": 7 if marker in "XP*" else 5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
    }


def _draw_curve(
    ax: Axes, x: np.ndarray, b: Sequence[np.ndarray], ylim: tuple[float, float], style: int
) -> None:
    """Draw mean and band; what lies far outside is cut to a frame's height beyond the frame."""
    (low, high), log = ylim, ax.get_yscale() == "log"
    floor, roof = (low * low / high, high * high / low) if log else (2 * low - high, 2 * high - low)
    low, mean, high = np.clip([b[0], np.where(np.isfinite(b[1]), b[1], np.nan), b[2]], floor, roof)
    step = 1 if len(x) <= _FEW else len(x) // 8
    start = style % 8 * step // 8  # staggered, or markers of equal curves hide each other
    ax.plot(x, mean, markevery=(start, step), zorder=3, **_look(style))
    if (low < high).any():
        ax.fill_between(x, low, high, color=COLOURS[style % len(COLOURS)], alpha=0.13, lw=0)


def _arrange(
    figure: Figure, looks: dict[str, int], remarks: dict[str, str], title: str, note: str
) -> None:
    """Stack title, panels, legend and note so that none hides another, growing the figure."""
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches()
    handles = [Line2D([], [], **_look(style)) for style in looks.values()]
    labels = [f"{name} ({remarks[name]})" if name in remarks else name for name in looks]
    # Few rows, rather full ones: eight curves make two columns of four before three of 3, 3, 2.
    for ncol in sorted(range(1, 5), key=lambda c: -(-len(labels) // c) + (len(labels) % c > 0)):
        figure.legends.clear()
        look = {"loc": "lower center", "ncol": ncol, "frameon": False, "handlelength": 3.4}
        legend = figure.legend(handles, labels, **look)
        box = legend.get_window_extent(figure.canvas.get_renderer())
        if box.width / figure.dpi <= width:
            break
    width = max(width, box.width / figure.dpi + 0.2)
    note, title = (
        textwrap.fill(note.strip(), int(15 * width)),
        textwrap.fill(title, int(10 * width)),
    )
    note_inch = 0.08 + 0.15 * len(note.splitlines())
    below = note_inch + (box.height / figure.dpi if labels else 0)
    above = 0.08 + 0.25 * len(title.splitlines())
    height += below + above
    figure.set_size_inches(width, height)
    figure.text(0.5, 0.06 / height, note, ha="center", va="bottom", size=8, color=GREY)
    figure.text(0.5, 1 - 0.08 / height, title, ha="center", va="top", size=13)
    legend.set_bbox_to_anchor((0.5, note_inch / height), figure.transFigure)
    figure.tight_layout(rect=(0, below / height, 1, 1 - above / height), w_pad=2, h_pad=1.5)


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
    picture = ax.imshow(held, cmap=colours, vmin=0, aspect="auto", interpolation="nearest")
    ax.grid(False)
    ax.hlines(np.arange(counts.shape[1] - 1) + 0.5, -0.5, len(counts) - 0.5, "#E4E4E4", lw=0.6)
    if names is not None or counts.shape[1] <= 25:
        ax.set_yticks(range(counts.shape[1]))
        ax.set_yticklabels(range(counts.shape[1]) if names is None else names)
    ax.figure.colorbar(picture, cax=bar, label="Samples", ticks=MaxNLocator(5, integer=True))
