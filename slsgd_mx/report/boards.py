"""The arena's heat maps, and the curves and pushes behind each cell, as data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from slsgd_mx.arena.grid import CLEAN
from slsgd_mx.arena.pictures import Grid, cell_curve, cell_label, finals, label_of, shares
from slsgd_mx.arena.results import Board
from slsgd_mx.arena.stored import find_boards
from slsgd_mx.arena.tables import SHARES, from_json
from slsgd_mx.arena.verdict import verdict
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import RunError
from slsgd_mx.figures.captions import SYNTHETIC
from slsgd_mx.figures.plot import Panel
from slsgd_mx.report.charts import chart, readable, rounded
from slsgd_mx.runs.pushes import Pushes, read_pushes
from slsgd_mx.system.files import read_text

MOST_EPOCHS = 120  # of a picture of pushes; of longer runs, evenly spaced ones are shown


def from_runs(
    folders: Dict[RunConfig, Path], home: Path, problems: List[str]
) -> Tuple[List[Dict[str, Any]], Set[str]]:
    """The arenas among stored runs, and the identities of the runs that they show.

    There is none if the pushes of one are damaged.
    """
    places = {run.identity: folder for run, folder in folders.items()}
    try:
        boards = find_boards(folders)
    except RunError as error:
        problems.append(f"the arena is not shown: {error}")
        return [], set()
    shown = {run.identity for board in boards for run in board.outcomes}
    return [_board(b, str(home), places) for b in boards], shown


def from_folder(
    folder: Path, folders: Dict[RunConfig, Path], shown: Set[str], problems: List[str]
) -> List[Dict[str, Any]]:
    """The arenas in arena.json of a folder, without those whose runs are all ``shown`` already."""
    path = Path(folder) / "arena.json"
    if not path.is_file():
        return []
    try:
        boards = from_json(read_text(path))
    except RunError as error:
        problems.append(f"{path}: {error}")
        return []
    places = {run.identity: place for run, place in folders.items()}
    own = [b for b in boards if not {run.identity for run in b.outcomes} <= shown]
    return [_board(b, str(path), places) for b in own]


def _board(board: Board, source: str, places: Dict[str, Path]) -> Dict[str, Any]:
    title = readable(f"{board.setting} ({board.workload})")
    return {
        "title": title + SYNTHETIC * (board.data == "synthetic"),
        "source": source,
        "words": verdict(board),
        "rules": list(board.rules),
        "columns": ["no attack" if c == CLEAN else c for c in board.columns],
        "metric": board.measure.words,
        "maps": {"final": _map(finals(board)), "pushes": _map(shares(board))},
        "cells": [[_cell(board, r, c, places) for c in board.columns] for r in board.rules],
    }


def _map(grid: Grid) -> List[List[Dict[str, Any]]]:
    """Text and colours of the cells."""
    cells = []
    for i, texts in enumerate(grid.texts):
        row = []
        for j, text in enumerate(texts):
            value = float(grid.values[i, j])
            share = grid.share(value)
            colour = None if math.isnan(share) else mixed(grid.colours, share)
            light = colour is not None and _is_dark(colour)
            framed = (i, j) in grid.framed
            row.append({"text": text, "colour": colour, "light": light, "framed": framed})
        cells.append(row)
    return cells


def mixed(colours: Sequence[str], share: float) -> str:
    """The colour at a share of the way through evenly spaced colours.

    >>> mixed(["#000000", "#FFFFFF"], 0.5), mixed(["#000000", "#0000FF", "#FFFFFF"], 0.5)
    ('#808080', '#0000ff')
    """
    place = min(max(share, 0.0), 1.0) * (len(colours) - 1)
    first = min(int(place), len(colours) - 2)
    ends = [[int(colours[first + i][at : at + 2], 16) for at in (1, 3, 5)] for i in (0, 1)]
    weight = place - first
    parts = [round(a + (b - a) * weight) for a, b in zip(*ends)]
    return "#" + "".join(f"{part:02x}" for part in parts)


def _is_dark(colour: str) -> bool:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue < 140


def _cell(board: Board, rule: str, attack: str, places: Dict[str, Path]) -> Dict[str, Any]:
    """What a click on a cell shows."""
    score = board.scores[rule, attack]
    pairs = [(rule, CLEAN), (rule, attack)] if attack != CLEAN else [(rule, CLEAN)]
    curves = [cell_curve(board, pair, cell_label(*pair), style) for style, pair in enumerate(pairs)]
    found = [(n, getattr(score, n)) for n in SHARES]
    numbers = {name: rounded([value])[0] for name, value in found if not math.isnan(value)}
    return {
        "title": cell_label(rule, attack),
        "why": score.cell.why_empty,
        "numbers": numbers,
        "pushes": _pushes(score.cell.runs, places),
        **chart([Panel(board.measure.words.capitalize(), label_of(board), curves)], columns=1),
    }


def _pushes(runs: Sequence[Any], places: Dict[str, Path]) -> Optional[Dict[str, Any]]:
    """How much of each push the rule used, of the first seed; None if there is no folder.

    ``used`` is empty if the rule does not tell it.
    """
    for run in runs:
        try:
            rows = read_pushes(places[run.identity]) if run.identity in places else []
        except RunError:
            continue
        shown: List[Pushes] = rows[:: -(-len(rows) // MOST_EPOCHS)] if rows else []
        if shown:
            slots = max(len(row.devices) for row in shown)
            told = [row for row in shown if row.used]
            used = [list(row.used or ()) for row in shown] if told else []
            return {
                "seed": run.seed,
                "epochs": [row.epoch for row in shown],
                "used": [rounded([*each, *[math.nan] * (slots - len(each))]) for each in used],
                "poisoned": [list(row.poisoned) for row in shown],
                "devices": [list(row.devices) for row in shown],
            }
    return None
