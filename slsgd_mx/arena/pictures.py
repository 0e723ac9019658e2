"""The heat maps of an arena, and the curves behind its cells."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Callable, List, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.arena.grid import CLEAN, Measure
from slsgd_mx.arena.results import Board, Score
from slsgd_mx.arena.verdict import best_of
from slsgd_mx.figures.panels import by_group, lost_seeds, metric_curve
from slsgd_mx.figures.plot import Curve, Panel, draw
from slsgd_mx.figures.style import GREY, as_paths, literal, new_figure, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from slsgd_mx.figures.style import Paths

WORST = "worst"
LONGEST = 13  # characters of a line that fit into a cell
DARK, LIGHT = ("#4A1486", "#9E9AC8", "#FCFBFD"), ("#FCFBFD", "#9E9AC8", "#4A1486")


@dataclass(frozen=True)
class Grid:
    """One heat map: values (rules, columns) with a text in each cell; NaN is grey."""

    title: str
    rules: Sequence[str]
    columns: Sequence[str]
    values: np.ndarray
    texts: List[List[str]]
    colours: Sequence[str]  # from the lowest to the highest value
    top: float  # the highest value
    framed: Sequence[Tuple[int, int]] = ()  # the rows and columns of cells with a frame
    bars: Sequence[float] = field(default_factory=tuple)  # vertical lines
    bottom: float = 0.0  # the lowest value

    def share(self, value: float) -> float:
        """Where a value is between the lowest and the highest; NaN if it is not known."""
        if math.isnan(value):
            return math.nan
        return float(np.clip((value - self.bottom) / ((self.top - self.bottom) or 1.0), 0.0, 1.0))


def draw_heat_maps(boards: Sequence[Board], path: Paths, title: str, note: str) -> List[Path]:
    """One heat map for each board, rules by attacks, with each rule's worst attack on the right."""
    return _draw([finals(board) for board in boards], path, title, note)


def draw_used(boards: Sequence[Board], path: Paths, title: str, note: str) -> List[Path]:
    """One heat map for each board: how much of the poisoned pushes each rule used."""
    return _draw([shares(board) for board in boards], path, title, note)


def finals(board: Board) -> Grid:
    """Dark means broken; frames mark the best worst case, that of several rules if they tie.

    There is no frame while a rule lacks runs.
    """
    worst = [board.worst(rule) for rule in board.rules]
    ends = np.array([math.nan if score is None else score.mean for score in worst])
    values = np.column_stack([_values(board, lambda score: score.mean), ends])
    texts = [
        [
            *(_final(board.scores[rule, c], board) for c in board.columns),
            _worst(score, board.measure),
        ]
        for rule, score in zip(board.rules, worst)
    ]
    last = len(board.columns)
    known = {rule: score for rule, score in zip(board.rules, worst) if score is not None}
    best = [] if board.unfinished else best_of(known, board.measure)
    rises = board.measure.rises
    finite = values[np.isfinite(values)]
    lowest, highest = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    return Grid(
        _title(board),
        board.rules,
        [*board.columns, WORST],
        values,
        texts,
        DARK if rises else LIGHT,
        max(0.1, highest) if rises else highest,
        [(board.rules.index(rule), last) for rule in best],
        (0.5, last - 0.5),
        0.0 if rises else lowest,
    )


def shares(board: Board) -> Grid:
    """Dark means that poisoned pushes were used."""
    values = _values(board, lambda score: score.poisoned_used)
    texts = [[_used(board.scores[rule, c]) for c in board.columns] for rule in board.rules]
    return Grid(_title(board), board.rules, board.columns, values, texts, LIGHT, 1.0, bars=(0.5,))


def _values(board: Board, value: Callable[[Score], float]) -> np.ndarray:
    rows = [[value(board.scores[rule, c]) for c in board.columns] for rule in board.rules]
    return np.array(rows, float)


def _title(board: Board) -> str:
    return str(board.setting).replace("alpha=", r"$\alpha$=")


def _final(score: Score, board: Board) -> str:
    """What a cell of the final metrics says."""
    if score.cell.why_empty or not score.values:
        return _absent(score)
    measure, seeds = board.measure, len(board.seeds)
    lines = [measure.show(score.mean)]
    lines += [f"±{measure.show(score.spread)}"] * (len(score.values) > 1)
    lines += [f"{len(score.values)} of {seeds} seeds"] * (len(score.values) < seeds)
    lines += [f"{score.diverged} diverged"] * bool(score.diverged)
    lines += [f"{score.stuck} without update"] * bool(score.stuck)
    lines += [] if math.isnan(score.attack_success) else [f"success {score.attack_success:.2f}"]
    return "\n".join(lines)


def _worst(score: Optional[Score], measure: Measure) -> str:
    if score is None:
        return ""
    names = [textwrap.fill(name, LONGEST) for name in score.cell.attack.split(":")]
    return "\n".join([measure.show(score.mean), *names])


def _used(score: Score) -> str:
    """What a cell of the used pushes says."""
    if score.cell.why_empty or not score.values:
        return _absent(score)
    if math.isnan(score.honest_lost) and math.isnan(score.poisoned_used):
        return "not\nrecorded"
    lines = [] if math.isnan(score.poisoned_used) else [f"{score.poisoned_used:.2f}"]
    lines += [] if math.isnan(score.honest_lost) else [f"lost {score.honest_lost:.2f}"]
    return "\n".join(lines)


def _absent(score: Score) -> str:
    return "illegal" if score.cell.why_empty else "missing"


def _draw(grids: Sequence[Grid], path: Paths, title: str, note: str) -> List[Path]:
    paths = as_paths(path)
    across = 1 if len(grids) == 1 or len(grids[0].columns) > 5 else 2
    down = -(-len(grids) // across)
    width = max(5.2, 2.6 + 0.92 * len(grids[0].columns)) * across
    title, note = (
        textwrap.fill(literal(text), int(size * width)) for text, size in ((title, 10), (note, 15))
    )
    above, below = (0.08 + size * len(t.splitlines()) for size, t in ((0.25, title), (0.15, note)))
    lines = max(len(text.split("\n")) for grid in grids for row in grid.texts for text in row)
    height = (1.5 + max(0.42, 0.06 + 0.125 * lines) * len(grids[0].rules)) * down + above + below
    with new_figure(width, height) as figure:
        axes = figure.subplots(down, across, squeeze=False)
        for ax in list(axes.flat)[len(grids) :]:
            ax.remove()
        for grid, ax in zip(grids, axes.flat):
            _draw_grid(ax, grid)
        figure.text(0.5, 1 - 0.08 / height, title, ha="center", va="top", fontsize=13)
        place = {"ha": "center", "va": "bottom", "fontsize": 8, "color": GREY}
        figure.text(0.5, 0.06 / height, note, **place)
        figure.tight_layout(rect=(0, below / height, 1, 1 - above / height))
        return write(figure, paths)


def _draw_grid(ax: Axes, grid: Grid) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    # One hue: readable in greyscale and by colour-blind readers.
    colours = LinearSegmentedColormap.from_list("arena", list(grid.colours))
    shown = np.ma.masked_invalid(np.vectorize(grid.share, [float])(grid.values))
    ax.imshow(shown, cmap=colours, vmin=0.0, vmax=1.0, aspect="auto")
    ax.set_facecolor("#EEEEEE")
    ax.grid(False)
    for (i, j), value in np.ndenumerate(grid.values):
        text = grid.texts[i][j]
        share = grid.share(value)  # NaN is neither
        dark = share < 0.55 if grid.colours is DARK else share > 0.55
        ax.text(j, i, text, ha="center", va="center", fontsize=7.5, color="w" if dark else "k")
    for row, column in grid.framed:
        edge = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, lw=2, ec="#D55E00")
        ax.add_patch(edge)
    for place in grid.bars:
        ax.axvline(place, color="k", lw=0.8)
    names = ["no attack" if c == CLEAN else c.replace(":", ":\n") for c in grid.columns]
    ax.set_xticks(range(len(names)))
    ax.set_xticklabels(names, fontsize=8, rotation=30, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(grid.rules)))
    ax.set_yticklabels(grid.rules, fontsize=9)
    ax.tick_params(length=0)
    ax.set_title(grid.title)


def draw_curves(board: Board, path: Paths, title: str, note: str) -> List[Path]:
    """The curves behind the cells: a panel for each attack, a curve for each rule."""
    names = {c: "no attack" if c == CLEAN else c for c in board.columns}
    drawn = {
        (names[attack], rule): cell_curve(board, (rule, attack), rule, style)
        for attack in board.columns
        for style, rule in enumerate(board.rules)
    }
    remarks = by_group({place: curve.remark for place, curve in drawn.items()})
    panels = [
        Panel(
            name,
            label_of(board),
            [replace(drawn[name, r], remark=remarks[name, r]) for r in board.rules],
        )
        for name in names.values()
    ]
    return draw(panels, path, literal(f"{title} ({board.setting})"), note)


def draw_cells(
    boards: Sequence[Board], cells: Sequence[Tuple[str, str]], path: Paths, title: str, note: str
) -> List[Path]:
    """The curves behind some cells, each with its rule's clean run: a panel for each board."""
    pairs = dict.fromkeys((rule, each) for rule, attack in cells for each in (CLEAN, attack))
    panels = [
        Panel(
            _title(board),
            label_of(board),
            [
                cell_curve(board, (rule, attack), cell_label(rule, attack), style)
                for style, (rule, attack) in enumerate(pairs)
            ],
        )
        for board in boards
    ]
    return draw(panels, path, literal(title), note)


def label_of(board: Board) -> str:
    """The y-label of a board's curves."""
    return "Accuracy" if board.measure.rises else board.measure.words.capitalize()


def cell_label(rule: str, attack: str) -> str:
    return f"{rule}, no attack" if attack == CLEAN else f"{rule}, {attack}"


def cell_curve(board: Board, pair: Tuple[str, str], label: str, style: int) -> Curve:
    """The metric of a cell over its epochs; the legend says how many seeds it lacks."""
    cell = board.scores[pair].cell
    rows = [board.outcomes[run].rows for run in cell.runs if board.outcomes[run].rows]
    remark = "illegal" if cell.why_empty else lost_seeds(board.ends(pair))
    if not rows:
        return Curve(label, np.array([]), np.zeros((1, 0)), style, remark)
    curve = metric_curve(label, rows, board.measure.name)
    return Curve(label, curve.x, curve.y, style, remark)
