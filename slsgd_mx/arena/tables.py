"""The numbers of an arena as CSV and JSON; no MXNet."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, List, Sequence, Tuple

from slsgd_mx.arena.grid import METRIC, Arena
from slsgd_mx.arena.results import Board, Score
from slsgd_mx.arena.verdict import compare_alphas, verdict

SHARES = ("poisoned_used", "honest_lost", "attack_success")  # attributes of a score
COLUMNS = [
    *("partition", "q", "b", "alpha", "rule", "attack", METRIC, "spread", "seeds", "diverged"),
    *SHARES,
    "empty_because",
]


def table(arena: Arena, boards: Sequence[Board]) -> Tuple[List[str], List[List[str]]]:
    """``COLUMNS`` and a row for each cell; what is not known is empty.

    Further columns come first: the task if it is not the paper's CNN, and the poisoned devices
    where they are given instead of q.
    """
    rows = []
    devices = bool(arena.poisoned_devices)
    more = [*["task"] * (not arena.usual), *["poisoned_devices"] * devices]
    for board in boards:
        setting = board.setting
        for score in board.scores.values():
            known = [f"{score.mean:.6g}", f"{score.spread:.6g}"] if score.values else ["", ""]
            shares = [getattr(score, name) for name in SHARES]
            own = {"task": arena.task, "poisoned_devices": str(setting.poisoned_devices)}
            rows.append(
                [
                    *(own[name] for name in more),
                    *(setting.partition, str(setting.q), str(setting.b), f"{setting.alpha:g}"),
                    *(score.cell.rule, score.cell.attack, *known, str(len(score.values))),
                    str(score.diverged),
                    *("" if math.isnan(share) else f"{share:.6g}" for share in shares),
                    score.cell.why_empty.replace(",", ";"),
                ]
            )
    return [*more, *COLUMNS], rows


def to_json(arena: Arena, boards: Sequence[Board]) -> str:
    """Settings, scores and curves of every cell."""
    content: Dict[str, Any] = {
        "preset": arena.preset,
        "task": arena.task,
        "seeds": list(range(arena.seed, arena.seed + arena.repeats)),
        "changes": dict(arena.changes),
        "alphas": compare_alphas(boards),
        "boards": [
            {
                **vars(board.setting),
                "verdict": verdict(board),
                "cells": [_cell(board, score) for score in board.scores.values()],
            }
            for board in boards
        ],
    }
    return json.dumps(content, indent=1) + "\n"


def _cell(board: Board, score: Score) -> Dict[str, Any]:
    shares = {name: getattr(score, name) for name in SHARES}
    runs = [(run, board.outcomes[run]) for run in score.cell.runs]
    return {
        "rule": score.cell.rule,
        "attack": score.cell.attack,
        "mean": score.mean if score.values else None,
        "spread": score.spread,
        "diverged": score.diverged,
        **{name: None if math.isnan(share) else share for name, share in shares.items()},
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
