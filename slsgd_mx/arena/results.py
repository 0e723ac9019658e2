"""What came out of an arena: accuracies, tables and a verdict in words; no MXNet."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.arena.grid import CLEAN, Arena, Cell, Setting
from slsgd_mx.config import RunConfig
from slsgd_mx.runs.folder import RunIndex
from slsgd_mx.runs.status import Outcome, read_outcome

METRIC = "test_accuracy"


@dataclass(frozen=True)
class Score:
    """The final accuracies of a cell, one for each seed that is finished."""

    cell: Cell
    values: Tuple[float, ...] = ()
    diverged: int = 0  # seeds whose model stopped being finite; their accuracy counts as 0

    @property
    def mean(self) -> float:
        """The mean over seeds; NaN if no run is finished."""
        return float(np.mean(self.values)) if self.values else math.nan

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; 0 for one."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0


@dataclass(frozen=True)
class Board:
    """The scores of one heat map."""

    setting: Setting
    rules: Tuple[str, ...]
    columns: Tuple[str, ...]
    scores: Dict[Tuple[str, str], Score]
    outcomes: Dict[RunConfig, Outcome]

    def worst(self, rule: str) -> Optional[Score]:
        """A rule's score under the attack that does it most harm; None if one is missing."""
        scores = [self.scores[rule, attack] for attack in self.columns if attack != CLEAN]
        known = [score for score in scores if not score.cell.why_empty]
        if not known or any(math.isnan(score.mean) for score in known):
            return None
        return min(known, key=lambda score: score.mean)


def read_boards(arena: Arena, home: Path) -> List[Board]:
    """The scores of an arena from the runs that are finished, one board for each setting."""
    index = RunIndex(home)
    outcomes = {run: read_outcome(index.folder(run), run) for run in arena.runs()}
    boards = []
    for setting in arena.settings:
        scores = {}
        for cell in arena.cells(setting):
            found = [outcomes[run] for run in cell.runs]
            ended = [o for o in found if o.state in ("done", "diverged")]
            values = tuple(float(o.rows[-1][METRIC]) if o.state == "done" else 0.0 for o in ended)
            diverged = sum(o.state == "diverged" for o in ended)
            scores[cell.rule, cell.attack] = Score(cell, values, diverged)
        boards.append(Board(setting, arena.rules, arena.columns, scores, outcomes))
    return boards


def missing_runs(boards: Sequence[Board]) -> List[str]:
    """The runs that are not finished, "slug: state"."""
    outcomes = {run: outcome for board in boards for run, outcome in board.outcomes.items()}
    return [
        f"{run.slug}: {outcome.why or outcome.state}"
        for run, outcome in outcomes.items()
        if outcome.state not in ("done", "diverged")
    ]


COLUMNS = [
    *("partition", "q", "b", "alpha", "rule", "attack", METRIC, "spread", "seeds", "diverged"),
    "empty_because",
]


def table(boards: Sequence[Board]) -> List[List[str]]:
    """A row for each cell, in the order of ``COLUMNS``."""
    rows = []
    for board in boards:
        setting = board.setting
        for score in board.scores.values():
            known = [f"{score.mean:.6g}", f"{score.spread:.6g}"] if score.values else ["", ""]
            rows.append(
                [
                    *(setting.partition, str(setting.q), str(setting.b), f"{setting.alpha:g}"),
                    *(score.cell.rule, score.cell.attack, *known, str(len(score.values))),
                    *(str(score.diverged), score.cell.why_empty.replace(",", ";")),
                ]
            )
    return rows


def to_json(arena: Arena, boards: Sequence[Board]) -> str:
    """Settings, scores and curves of every cell."""
    content: Dict[str, Any] = {
        "preset": arena.preset,
        "task": arena.task,
        "seeds": list(range(arena.seed, arena.seed + arena.repeats)),
        "changes": dict(arena.changes),
        "boards": [_board(board) for board in boards],
    }
    return json.dumps(content, indent=1) + "\n"


def _board(board: Board) -> Dict[str, Any]:
    cells = []
    for score in board.scores.values():
        runs = [(run, board.outcomes[run]) for run in score.cell.runs]
        cells.append(
            {
                "rule": score.cell.rule,
                "attack": score.cell.attack,
                "mean": score.mean if score.values else None,
                "spread": score.spread,
                "diverged": score.diverged,
                "empty_because": score.cell.why_empty or None,
                "runs": [
                    {
                        "seed": run.seed,
                        "identity": run.identity,
                        "state": outcome.state,
                        "epoch": [int(row["epoch"]) for row in outcome.rows],
                        METRIC: [float(row[METRIC]) for row in outcome.rows],
                    }
                    for run, outcome in runs
                ],
            }
        )
    return {**vars(board.setting), "verdict": verdict(board), "cells": cells}


def verdict(board: Board) -> List[str]:
    """In words: the rule with the best worst case, and the strongest attack on each rule."""
    worst = {rule: board.worst(rule) for rule in board.rules}
    known = {rule: score for rule, score in worst.items() if score is not None}
    lines = []
    if known:
        best = max(known, key=lambda rule: known[rule].mean)
        lines.append(
            f"Best worst case: {best}, {known[best].mean:.3f} under {known[best].cell.attack}."
        )
    for rule, score in known.items():
        clean = board.scores[rule, CLEAN].mean
        lines.append(
            f"{rule}: the strongest attack is {score.cell.attack}, {score.mean:.3f}"
            + ("" if math.isnan(clean) else f" ({clean:.3f} without attack)")
        )
    for rule in board.rules:
        if rule not in known:
            reasons = {s.cell.why_empty for (r, _), s in board.scores.items() if r == rule}
            why = "; ".join(sorted(filter(None, reasons))) or "runs are missing"
            lines.append(f"{rule}: no verdict, {why}")
    return lines
