"""The heat map of an arena, and the curves behind its cells."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, List, Sequence

import numpy as np

from slsgd_mx.arena.grid import CLEAN
from slsgd_mx.arena.results import METRIC, Board
from slsgd_mx.figures.panels import TITLES, metric_curve
from slsgd_mx.figures.plot import Curve, Panel, draw
from slsgd_mx.figures.style import GREY, as_paths, new_figure, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from slsgd_mx.figures.style import Paths

WORST = "worst"


def draw_heat_maps(boards: Sequence[Board], path: Paths, title: str, note: str) -> List[Path]:
    """One heat map for each board, rules by attacks, with each rule's worst attack on the right."""
    paths = as_paths(path)
    rules, columns = len(boards[0].rules), len(boards[0].columns) + 1
    width = 2.6 + 0.92 * columns
    height = 1.5 + 0.42 * rules
    across = 1 if len(boards) == 1 else 2
    down = -(-len(boards) // across)
    with new_figure(width * across, height * down + 0.7) as figure:
        axes = figure.subplots(down, across, squeeze=False)
        for ax in list(axes.flat)[len(boards) :]:
            ax.remove()
        for board, ax in zip(boards, axes.flat):
            _draw_board(ax, board)
        figure.suptitle(title, fontsize=13)
        figure.text(0.5, 0.008, note, ha="center", va="bottom", fontsize=8, color=GREY, wrap=True)
        figure.tight_layout(rect=(0, 0.04 / down + 0.02, 1, 0.995))
        return write(figure, paths)


def _draw_board(ax: Axes, board: Board) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    # Dark means broken: one hue, readable in greyscale and by colour-blind readers.
    colours = LinearSegmentedColormap.from_list("accuracy", ["#4A1486", "#9E9AC8", "#FCFBFD"])
    columns = [*board.columns, WORST]
    values = np.full((len(board.rules), len(columns)), np.nan)
    for i, rule in enumerate(board.rules):
        for j, attack in enumerate(board.columns):
            values[i, j] = board.scores[rule, attack].mean
        worst = board.worst(rule)
        values[i, -1] = math.nan if worst is None else worst.mean
    top = np.nanmax(values) if np.isfinite(values).any() else 1.0
    ax.imshow(
        np.ma.masked_invalid(values), cmap=colours, vmin=0.0, vmax=max(top, 0.1), aspect="auto"
    )
    ax.set_facecolor("#EEEEEE")
    ax.grid(False)
    for i, rule in enumerate(board.rules):
        for j in range(len(columns)):
            text, size = _cell_text(board, rule, j)
            dark = values[i, j] < 0.55 * top
            ax.text(j, i, text, ha="center", va="center", fontsize=size, color="w" if dark else "k")
    best = values[:, -1]
    if np.isfinite(best).any():
        row = int(np.nanargmax(best))
        edge = Rectangle((len(columns) - 1.5, row - 0.5), 1, 1, fill=False, lw=2, ec="#D55E00")
        ax.add_patch(edge)
    ax.axvline(0.5, color="k", lw=0.8)
    ax.axvline(len(columns) - 1.5, color="k", lw=0.8)
    names = ["no attack" if c == CLEAN else c.replace(":", ":\n") for c in columns]
    ax.set_xticks(range(len(columns)))
    ax.set_xticklabels(names, fontsize=8, rotation=30, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(board.rules)))
    ax.set_yticklabels(board.rules, fontsize=9)
    ax.tick_params(length=0)
    ax.set_title(str(board.setting).replace("alpha=", r"$\alpha$="))


def _cell_text(board: Board, rule: str, column: int) -> tuple:
    """What a cell says, and its font size."""
    if column == len(board.columns):
        worst = board.worst(rule)
        if worst is None:
            return "", 8
        return f"{worst.mean:.3f}\n{worst.cell.attack.partition(':')[0]}", 6.5
    score = board.scores[rule, board.columns[column]]
    if score.cell.why_empty:
        return "illegal", 7
    if not score.values:
        return "missing", 7
    spread = f"\n±{score.spread:.3f}" if len(score.values) > 1 else ""
    broken = f"\n{score.diverged} diverged" if score.diverged else ""
    return f"{score.mean:.3f}{spread}{broken}", 8


def draw_curves(board: Board, path: Paths, title: str, note: str) -> List[Path]:
    """The curves behind the cells: a panel for each attack, a curve for each rule."""
    panels = []
    for attack in board.columns:
        curves = []
        for style, rule in enumerate(board.rules):
            cell = board.scores[rule, attack].cell
            rows = [board.outcomes[run].rows for run in cell.runs if board.outcomes[run].rows]
            empty = Curve(rule, np.array([]), np.zeros((1, 0)))
            curve = metric_curve(rule, rows, METRIC) if rows else empty
            curves.append(Curve(rule, curve.x, curve.y, style))
        name = "no attack" if attack == CLEAN else attack
        panels.append(Panel(name, TITLES[METRIC][1], curves))
    return draw(panels, path, f"{title} ({board.setting})", note)
