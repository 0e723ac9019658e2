"""The numbers of an arena as CSV and JSON; no MXNet."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from slsgd_mx.arena.grid import CLEAN, Arena, Cell, Measure, Setting, measure_of
from slsgd_mx.arena.results import Board, Score, ends_of, has_ended
from slsgd_mx.arena.verdict import compare_alphas, verdict
from slsgd_mx.errors import RunError
from slsgd_mx.runs.status import Outcome
from slsgd_mx.system.files import parse_json

SHARES = ("poisoned_used", "honest_lost", "attack_success")  # attributes of a score


def table(arena: Arena, boards: Sequence[Board]) -> Tuple[List[str], List[List[str]]]:
    """The names of the columns and a row for each cell; what is not known is empty.

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
    name = measure_of(arena.sizes.metrics).name
    usual = ("partition", "q", "b", "alpha", "rule", "attack", name, "spread", "seeds", "diverged")
    return [*more, *usual, *SHARES, "empty_because"], rows


def to_json(arena: Arena, boards: Sequence[Board]) -> str:
    """Settings, scores and curves of every cell; null stands for what is not known or infinite."""
    content: Dict[str, Any] = {
        "preset": arena.preset,
        "task": arena.task,
        "data": boards[0].data,
        "metric": measure_of(arena.sizes.metrics).name,
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
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _cell(board: Board, score: Score) -> Dict[str, Any]:
    runs, name = [(run, board.outcomes[run]) for run in score.cell.runs], board.measure.name
    return {
        "rule": score.cell.rule,
        "attack": score.cell.attack,
        "mean": _finite(score.mean),
        "spread": _finite(score.spread),
        "diverged": score.diverged,
        **{share: _finite(getattr(score, share)) for share in SHARES},
        "empty_because": score.cell.why_empty or None,
        "runs": [
            {
                "seed": run.seed,
                "identity": run.identity,
                "state": outcome.state,
                "epoch": [int(row["epoch"]) for row in outcome.rows],
                name: [_finite(float(row[name])) for row in outcome.rows],
            }
            for run, outcome in runs
        ],
    }


def _finite(value: float) -> Optional[float]:
    """A number as strict JSON can hold it."""
    return value if math.isfinite(value) else None


class StoredRun(NamedTuple):
    """A run as ``to_json`` names it, in the place of its configuration."""

    seed: int
    identity: str


def from_json(text: str) -> List[Board]:
    """The boards that ``to_json`` wrote; a RunError if it is something else."""
    try:
        content = parse_json(text)
        workload, measure = _workload(content), Measure(str(content.get("metric", Measure.name)))
        boards = [_board(board, workload, measure) for board in content["boards"]]
        return [replace(board, data=str(content.get("data", ""))) for board in boards]
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise RunError(f"not the numbers of slsgd-mx arena: {error!r}") from error


def _workload(content: Dict[str, Any]) -> str:
    """The task, the preset and what is changed in it."""
    changes = [f"{name}={str(value)[:40]}" for name, value in content.get("changes", {}).items()]
    task, preset = content.get("task", "cifar"), content.get("preset", "unknown")
    return ", ".join([str(task), f"preset {preset}", *changes])


def _board(content: Dict[str, Any], workload: str, measure: Measure) -> Board:
    q, b, alpha = int(content["q"]), int(content["b"]), float(content["alpha"])
    devices = content.get("poisoned_devices")
    devices = None if devices is None else int(devices)
    setting = Setting(str(content["partition"]), q, b, alpha, poisoned_devices=devices)
    outcomes: Dict[Any, Outcome] = {}
    scores = {}
    for cell in content["cells"]:
        for run in cell["runs"]:
            name, lost = measure.name, measure.diverged
            pairs = zip(run["epoch"], [lost if v is None else float(v) for v in run[name]])
            rows = [{"epoch": str(int(epoch)), name: repr(value)} for epoch, value in pairs]
            outcomes[StoredRun(int(run["seed"]), str(run["identity"]))] = Outcome(
                str(run["state"]), rows=rows
            )
        runs = tuple(StoredRun(int(run["seed"]), str(run["identity"])) for run in cell["runs"])
        ended = [outcomes[run] for run in runs if has_ended(outcomes[run])]
        shares = {name: math.nan if cell[name] is None else float(cell[name]) for name in SHARES}
        pair = str(cell["rule"]), str(cell["attack"])
        scores[pair] = Score(
            Cell(*pair, runs, str(cell["empty_because"] or "")),
            **ends_of(ended, measure),
            **shares,
        )
    rules, columns = (tuple(dict.fromkeys(names)) for names in zip(*scores))
    if CLEAN not in columns or len(scores) != len(rules) * len(columns):
        raise ValueError("a board lacks cells")
    return Board(setting, rules, columns, scores, outcomes, workload, measure)
