"""Draw curves in panels; this module knows nothing of runs or of MXNet."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.style import GREY, as_paths, literal, look, new_figure, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Transform

    from slsgd_mx.figures.style import Paths

_FENCE = 3.0  # points farther out than this many reaches are left out, see `frame`
_FEW = 25  # a curve of at most this number of points has a marker at each
_TICKED = 6  # at most this number of places on the x-axis have a tick each
_ABOVE = 6.0  # points (1/72 inch) from the frame to the middle of a cross above it
_HUGE = 1e100  # treated as infinite: arithmetic on it overflows


@dataclass(frozen=True, eq=False)
class Curve:
    """One line: y over x, with repeats on a leading axis if there are several.

    Where a repeat is NaN there is no mean and the line has a gap; the mean with an infinite
    repeat is infinite and leaves the panel. `style` numbers the look; without it, labels are
    numbered in the order in which they first occur. Curves with one label are one entry of the
    legend, which adds their remarks.
    """

    label: str
    x: np.ndarray  # (points,), epochs in most figures
    y: np.ndarray  # (points,) or (repeats, points)
    style: int | None = None
    remark: str = ""  # for the legend
    summary: np.ndarray | None = None  # minimum, mean and maximum, if not those of all repeats
    diverged: Sequence[float] = ()  # the places where repeats diverged: a cross at each

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
    zoom: bool = False  # the legend names only curves that end outside
    outside: str = "leaves the panel"  # what the legend says of such a curve
    triangles: str = "Triangles at the edge: the curve is beyond the panel there."  # small print
    crosses: str = (  # small print, too
        "Large cross: a repeat diverged and stopped; its last accuracy stays, "
        "a loss that is not a number counts as infinite."
    )
    dots: bool = False  # curves side by side, with a bar and dots for repeats instead of a band
    own_legend: bool = False  # to the right of the panel, apart from the figure's


def looks_of(panels: Sequence[Panel]) -> dict[str, int]:
    """The number of each label's look: its own, or its place among the labels."""
    curves = [curve for panel in panels for curve in panel.curves]
    places = {label: i for i, label in enumerate(dict.fromkeys(c.label for c in curves))}
    return {**places, **{c.label: c.style for c in curves if c.style is not None}}


def band(curve: Curve) -> np.ndarray:
    """Summarise repeats: minimum, mean and maximum, shape (3, points)."""
    if curve.summary is not None:
        return curve.summary
    with np.errstate(all="ignore"):  # NaN and infinity are data here
        y = np.where(np.abs(curve.y) > _HUGE, np.copysign(np.inf, curve.y), curve.y)
        return np.stack([y.min(axis=0), y.mean(axis=0), y.max(axis=0)])


def band_of_known(y: np.ndarray) -> np.ndarray:
    """The same of the repeats that are not NaN, (repeats, points); for `Curve.summary`."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where all repeats are NaN
        return np.stack([np.nanmin(y, axis=0), np.nanmean(y, axis=0), np.nanmax(y, axis=0)])


def frame(bands: Sequence[np.ndarray], log: bool = False) -> tuple[float, float]:
    """Choose y limits that a diverging curve cannot stretch until the others are flat.

    Points farther than 3 reaches from the typical first point are left out. A reach is how far
    the calmest curve moves from that point, or the point's own size if that is larger (on a log
    scale: in decades, and at least one). Shares and their differences, values that all lie within
    -1 and 1, are never left out.

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
    if log or np.abs(y).max() > 1:
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
        Small print below the legend; it also explains line and band, dots, crosses and triangles.
    columns : int, optional
        Panels in a row, 2 by default.

    Raises
    ------
    ConfigError
        If there is no panel, or a path has another ending.
    RunError
        If a file cannot be written.
    """
    paths = as_paths(path)
    with composed(panels, title, note, columns) as figure:
        return write(figure, paths)


@contextmanager
def composed(
    panels: Sequence[Panel],
    title: str | None = None,
    note: str | None = None,
    columns: int | None = None,
) -> Iterator[Figure]:
    """The figure that ``draw`` writes."""
    if not panels:
        raise ConfigError("panels=[] cannot be drawn: at least one panel is needed")
    columns = min(columns or 2, len(panels))
    curves, looks = [curve for panel in panels for curve in panel.curves], looks_of(panels)
    repeats = sorted({len(c.y) for c in curves if len(c.y) > 1})
    notes = []
    if repeats:
        count = "-".join(str(r) for r in sorted({repeats[0], repeats[-1]}))
        kinds = {panel.dots for panel in panels}
        spread = " or ".join(["band"] * (False in kinds) + ["bar"] * (True in kinds))
        dots = "; dots: single repeats" if True in kinds else ""
        notes = [f"Line: mean of {count} repeats; {spread}: minimum to maximum{dots}."]
        if any(_ends_early(curve) for panel in panels if not panel.dots for curve in panel.curves):
            notes.append("A line ends where the first of its repeats ends.")
    with new_figure(max(4.7 * columns, 6.6), 3.1 * -(-len(panels) // columns)) as figure:
        axes = figure.subplots(-(-len(panels) // columns), columns, squeeze=False).ravel()
        entries: dict[str, list[str]] = {}  # of the figure's legend: label -> remarks
        lift = max(map(_lift, panels))  # one for all, so that titles side by side are level
        for ax, panel in zip(axes, panels):
            leaving = _draw_panel(ax, panel, looks, lift)
            notes += [panel.crosses] if any(len(curve.diverged) for curve in panel.curves) else []
            notes += [panel.triangles] if leaving else []
            named: dict[str, list[str]] = {} if panel.own_legend else entries
            for curve in panel.curves:
                left = panel.outside if curve.label in leaving else ""
                named.setdefault(curve.label, []).extend(filter(None, [curve.remark, left]))
            if panel.own_legend:
                place = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5), "frameon": False}
                ax.legend(*_legend_of(named, looks), handlelength=3.4, **place).set_in_layout(False)
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        note = " ".join([*dict.fromkeys(notes), note or ""])
        _arrange(figure, _legend_of(entries, looks), title or "", note)
        yield figure


def _ends_early(curve: Curve) -> bool:
    """Whether some repeats have points beyond those of another, where there is no mean."""
    known = ~np.isnan(curve.y)
    drawn = known.all(axis=0) if curve.summary is None else ~np.isnan(curve.summary[1])
    return bool((known.any(axis=0) & ~drawn)[-1:].any())


def _legend_of(entries: dict[str, list[str]], looks: dict[str, int]) -> tuple[list, list[str]]:
    """Handles and labels, with each remark once."""
    from matplotlib.lines import Line2D

    labels = [
        f"{label} ({'; '.join(dict.fromkeys(remarks))})" if remarks else label
        for label, remarks in entries.items()
    ]
    return [Line2D([], [], **look(looks[label])) for label in entries], labels


def _draw_panel(ax: Axes, panel: Panel, looks: dict[str, int], lift: float) -> set[str]:
    """Draw one panel, what is above its frame ``lift`` points higher.

    Return the labels of the curves that leave it.
    """
    bands = [band(curve) for curve in panel.curves]
    ylim = heights(panel, bands)
    ax.set(xlabel=panel.xlabel, ylabel=panel.ylabel, yscale=panel.yscale, ylim=ylim)
    ax.set_xscale(panel.xscale)
    pad = lift + (6 if panel.decay_epoch is None else 18)
    ax.set_title(textwrap.fill(panel.title, 50), pad=pad)
    if panel.dots:  # room for what stands aside
        places = np.concatenate([curve.x for curve in panel.curves])
        margin = 0.1 * np.ptp(places) or 0.1
        ax.set_xlim(places.min() - margin, places.max() + margin)
    edges = [beyond(each, ylim, panel.zoom) for each in bands]
    leaving = [curve for curve, out in zip(panel.curves, edges) if out.any()]
    for curve, each, (down, up) in zip(panel.curves, bands, edges):
        style = looks[curve.label]
        # Side by side, so that points and carets at one place do not hide each other.
        peers = panel.curves if panel.dots else leaving
        aside = 6 * (peers.index(curve) - (len(peers) - 1) / 2) if curve in peers else 0
        _draw_curve(ax, curve, each, ylim, style, aside if panel.dots else None)
        _mark_exits(ax, curve.x, up, 1, style, aside)
        _mark_exits(ax, curve.x, down, 0, style, aside)
        _draw_crosses(ax, *crosses(curve, each[1], ylim), style, aside)
    _set_ticks(ax, panel)
    left, right = ax.get_xlim()
    if panel.decay_epoch is not None and left <= panel.decay_epoch <= right:
        ax.axvline(panel.decay_epoch, color=GREY, lw=0.9, ls=(0, (1, 2)))
        place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        place.update(xytext=(0, 4 + lift), ha="center", size=8, color=GREY)
        ax.annotate("α decays", (panel.decay_epoch, 1), **place)
    return {curve.label for curve in leaving}


def heights(panel: Panel, bands: Sequence[np.ndarray]) -> tuple[float, float]:
    """The y limits of a panel."""
    return panel.ylim or frame(bands, panel.yscale == "log")


def beyond(band: np.ndarray, ylim: tuple[float, float], zoom: bool) -> np.ndarray:
    """Where a curve is below and above the panel, (2, points); in a zoom, if it ends outside."""
    mean = band[1]
    edges = np.stack([mean < ylim[0], mean > ylim[1]])
    return edges & (not zoom or edges[:, ~np.isnan(mean)][:, -1:].any())


def _set_ticks(ax: Axes, panel: Panel) -> None:
    """Ticks at whole numbers where values are counts, and at each x where there are few."""
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


def _aside(ax: Axes, points: float, up: float = 0) -> Transform:
    """So many points (1/72 inch) to the right, and up."""
    from matplotlib.transforms import ScaledTranslation

    return ScaledTranslation(points / 72, up / 72, ax.figure.dpi_scale_trans)


def _mark_exits(
    ax: Axes, x: np.ndarray, out: np.ndarray, edge: int, style: int, aside: float
) -> None:
    """Put carets on the upper (1) or lower (0) edge where a curve is beyond it."""
    if not out.any():
        return
    shown = np.zeros(len(x), dtype=bool)
    shown[_marked(len(x), style)] = True
    shown[np.argmax(out)] = True  # where it leaves
    x = x[out & shown]
    caret = {"marker": 6 if edge else 7, "markersize": 8, "linestyle": "", "zorder": 4}
    where = ax.get_xaxis_transform() + _aside(ax, aside)
    caret.update(transform=where, clip_on=False, in_layout=False)
    ax.plot(x, np.full(len(x), edge), **{**look(style), **caret})


def _lift(panel: Panel) -> float:
    """The room that crosses need above the frame, in points."""
    bands = [band(curve) for curve in panel.curves]
    ylim = heights(panel, bands)
    places = [crosses(curve, each[1], ylim) for curve, each in zip(panel.curves, bands)]
    return 2 * _ABOVE if any(np.isnan(height).any() for _, height in places) else 0.0


def crosses(
    curve: Curve, mean: np.ndarray, ylim: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Where repeats diverged, and how high the curve is there: NaN if it is not in the panel."""
    x = np.asarray(curve.diverged, dtype=float)
    if not len(curve.x):
        return x, np.full(len(x), np.nan)
    height = np.interp(x, curve.x, mean)  # a repeat may diverge between two points of the curve
    return x, np.where((ylim[0] <= height) & (height <= ylim[1]), height, np.nan)


def _draw_crosses(ax: Axes, x: np.ndarray, height: np.ndarray, style: int, aside: float) -> None:
    """Put crosses on the curve, or above the frame, which carets touch from within."""
    from matplotlib.patheffects import withStroke

    colour, outside = look(style)["color"], np.isnan(height)
    cross = {"marker": "x", "markersize": 9, "markeredgewidth": 2, "linestyle": "", "zorder": 5}
    cross.update(color=colour, path_effects=[withStroke(linewidth=4, foreground="white")])
    if not outside.all():
        ax.plot(x[~outside], height[~outside], clip_on=False, **cross)
    if outside.any():
        where = ax.get_xaxis_transform() + _aside(ax, aside, up=_ABOVE)
        cross.update(transform=where, clip_on=False, in_layout=False)
        ax.plot(x[outside], np.ones(outside.sum()), **cross)


def _marked(points: int, style: int) -> slice:
    """The points with a marker, staggered so that markers of equal curves are visible."""
    step = 1 if points <= _FEW else points // 8
    return slice(style % 8 * step // 8, None, step)


def _draw_curve(
    ax: Axes,
    curve: Curve,
    band: np.ndarray,
    ylim: tuple[float, float],
    style: int,
    aside: float | None,
) -> None:
    """Draw mean and band, clipped at one frame's height beyond the frame.

    With ``aside``, draw a bar and dots instead of the band, ``aside`` points to the right.
    """
    x, (low, high), log = curve.x, ylim, ax.get_yscale() == "log"
    floor, roof = (low * low / high, high * high / low) if log else (2 * low - high, 2 * high - low)
    middle = np.where(np.isfinite(band[1]), band[1], np.nan)
    low, mean, high = np.clip([band[0], middle, band[2]], floor, roof)
    where = ax.transData if aside is None else ax.transData + _aside(ax, aside)
    options = {**look(style), "transform": where}
    ax.plot(x, mean, markevery=_marked(len(x), style), zorder=3, **options)
    colour = options["color"]
    if aside is not None and len(curve.y) > 1:
        single = np.where(np.isfinite(curve.y), curve.y, np.nan)
        ax.plot(np.stack([x, x]), np.stack([low, high]), color=colour, lw=1, transform=where)
        ax.plot(x, single.T, ".", color=colour, ms=5, transform=where)
    elif (low < high).any():
        ax.fill_between(x, low, high, color=colour, alpha=0.13, lw=0)


def _arrange(figure: Figure, entries: tuple[list, list[str]], title: str, note: str) -> None:
    """Stack title, panels, legend and note without overlap, growing the figure as needed."""
    (width, height), (handles, labels) = figure.get_size_inches(), entries
    # Few and full rows: eight curves make two columns of four rather than three of 3, 3 and 2.
    for ncol in sorted(range(1, 5), key=lambda c: -(-len(labels) // c) + (len(labels) % c > 0)):
        figure.legends.clear()
        options = {"loc": "lower center", "ncol": ncol, "frameon": False, "handlelength": 3.4}
        legend = figure.legend(handles, labels, **options)
        box = legend.get_window_extent(figure.canvas.get_renderer())
        if box.width / figure.dpi <= width:
            break
    width = max(width, box.width / figure.dpi + 0.2)
    note, title = (
        textwrap.fill(literal(note.strip()), int(15 * width)),
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
