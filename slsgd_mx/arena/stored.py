"""Arenas found among stored runs: groups of runs that differ in rule, attack and seed; no MXNet."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Dict, Iterable, List, Sequence, Tuple

from slsgd_mx.arena.grid import ATTACKS, CLEAN, RULES, Cell, Setting, why_illegal
from slsgd_mx.arena.results import METRIC, Board, score_cell
from slsgd_mx.attacks import find_attack
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.rules.pipeline import find_rule
from slsgd_mx.runs.prefix import prefix_of
from slsgd_mx.runs.status import read_outcome

Group = Dict[Tuple[str, str], List[RunConfig]]  # (rule, attack) -> runs, one for each seed


def find_boards(folders: Dict[RunConfig, Path]) -> List[Board]:
    """A board for each group of two or more rules under one or more attacks, all else equal.

    A rule without b stands on the boards of every b.  Shared prefixes of other runs are left out.
    """
    prefixes = {prefix_of(run) for run in folders}
    found: Dict[RunConfig, List[RunConfig]] = {}
    for run in folders:
        if METRIC in run.sizes.metrics and run not in prefixes:
            found.setdefault(_without_factors(run), []).append(run)
    boards = []
    for base, runs in found.items():
        trims = sorted({run.b for run in runs if find_rule(run.rule).uses_b}) or [0]
        threats = sorted({_threat(run) for run in runs if run.attacked})
        for (q, poisoned), b in product(threats, trims):
            group: Group = {}
            for run in runs:
                same = not run.attacked or _threat(run) == (q, poisoned)
                if same and (run.b == b or not find_rule(run.rule).uses_b):
                    group.setdefault((run.rule, attack_name(run)), []).append(run)
            attacked = {rule for rule, attack in group if attack != CLEAN}
            if len(attacked) > 1:
                group = {cell: each for cell, each in group.items() if cell[0] in attacked}
                setting = Setting(_partition(base), q, b, base.alpha, poisoned or None)
                boards.append(_board(base, setting, group, folders))
    return boards


def _threat(run: RunConfig) -> Tuple[int, int]:
    """How many are poisoned: q, or so many devices instead."""
    return run.q, run.poisoned_devices or 0


def _partition(base: RunConfig) -> str:
    return str(getattr(base.sizes, "partition", ""))


def attack_name(run: RunConfig) -> str:
    """The attack of a run as the arena spells it: ``label-flip:start=pulled``."""
    if not run.attacked:
        return CLEAN
    usual = find_attack(run.attack).entry
    own = {"start": run.attacker_start != usual.start and run.attacker_start}
    own["scale"] = run.attack_scale != usual.scale and f"{run.attack_scale:g}"
    own["boost"] = run.boost != 1 and f"{run.boost:g}"
    words = [f"{name}={value}" for name, value in sorted(own.items()) if value]
    sign = "," if ":" in run.attack else ":"
    return sign.join([run.attack, *[",".join(words)] * bool(words)])


def _without_factors(run: RunConfig) -> RunConfig:
    """The configuration without what the cells of boards vary; the mean has no b."""
    plain: Dict[str, Any] = dict(
        q=0, poisoned_devices=None, attack=None, attacker_start=None, attack_scale=None, boost=1.0
    )
    return replace(run, rule="mean", seed=0, **plain)


def _board(
    base: RunConfig, setting: Setting, group: Group, folders: Dict[RunConfig, Path]
) -> Board:
    rules = _in_order(RULES, (rule for rule, _ in group))
    columns = _in_order((CLEAN, *ATTACKS), [CLEAN, *(attack for _, attack in group)])
    outcomes = {run: read_outcome(folders[run], run) for runs in group.values() for run in runs}
    scores = {}
    for rule in rules:
        for attack in columns:
            runs = sorted(group.get((rule, attack), []), key=lambda run: run.seed)
            why = "" if runs else _why_empty(base, setting, rule, attack)
            cell = Cell(rule, attack, tuple(runs), why)
            scores[rule, attack] = score_cell(cell, outcomes, folders)
    sizes = f"n={base.n}, k={base.k}, T={base.epochs}, {base.sizes.amount}"
    workload = f"{base.sizes.task}, {sizes}"
    return Board(setting, tuple(rules), tuple(columns), scores, outcomes, workload)


def _why_empty(base: RunConfig, setting: Setting, rule: str, attack: str) -> str:
    try:
        return why_illegal(base, setting, rule, attack) or ""
    except ConfigError:
        return ""


def _in_order(usual: Sequence[str], found: Iterable[str]) -> List[str]:
    """Names without repetitions, those of the default arena first and in its order."""
    names = dict.fromkeys(found)
    return [name for name in usual if name in names] + sorted(set(names) - set(usual))
