"""Arenas found among stored runs: groups of runs that differ in rule, attack and seed; no MXNet."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any, Dict, Iterable, List, Sequence, Tuple

from slsgd_mx.arena import ATTACKS, RULES
from slsgd_mx.arena.grid import CLEAN, Cell, Setting, measure_of, why_illegal
from slsgd_mx.arena.results import Board, read_end, score_cell
from slsgd_mx.attacks import find_attack
from slsgd_mx.config import RunConfig, show_sources
from slsgd_mx.errors import ConfigError, RunError
from slsgd_mx.registry import show
from slsgd_mx.rules.pipeline import find_rule
from slsgd_mx.runs.prefix import prefix_of

MOST_VERSIONS = 1000
TITLED = {"sizes", "sources", "partition", "data"}  # not shown as what distinguishes boards
Group = Dict[Tuple[str, str], List[RunConfig]]  # (rule, attack) -> runs, one for each seed


def find_boards(folders: Dict[RunConfig, Path]) -> List[Board]:
    """A board for each group of two or more rules under one or more attacks, all else equal.

    A rule without b stands on the boards of every b, and a run without plug-ins on those of every
    version of an edited plug-in.  Shared prefixes of other runs are left out.
    """
    prefixes = {(prefix_of(run), run.sources) for run in folders}
    found: Dict[RunConfig, List[RunConfig]] = {}
    for run in folders:
        # ``replace`` looks the plug-ins up anew, so versions are compared with what was stored.
        if (replace(run), run.sources) not in prefixes:
            found.setdefault(_without_factors(run), []).append(run)
    boards, own = [], _differences(list(found))
    for base, every in found.items():
        for version, runs in _versions(every):
            version = ", ".join(filter(None, [own[base], version]))
            trims = sorted({run.b for run in runs if find_rule(run.rule).uses_b}) or [0]
            threats = sorted({_threat(run) for run in runs if run.attacked})
            for (q, poisoned), b in product(threats, trims):
                group = _group(runs, (q, poisoned), b)
                if group:
                    setting = Setting(_partition(base), q, b, base.alpha, poisoned or None)
                    boards.append(_board(base, setting, group, folders, version))
    return boards


def _differences(bases: Sequence[RunConfig]) -> Dict[RunConfig, str]:
    """What distinguishes boards of one size, besides what their titles say."""
    groups: Dict[Tuple[Any, ...], Dict[RunConfig, Dict[str, str]]] = {}
    for base in bases:
        sizes = base.sizes
        title = sizes.task, sizes.amount, _partition(base), base.n, base.k, base.epochs, base.alpha
        values = {**vars(base), **asdict(sizes)}
        shown = {name: show(value) for name, value in values.items() if name not in TITLED}
        groups.setdefault(title, {})[base] = shown
    found = {}
    for members in groups.values():
        pairs = Counter(pair for values in members.values() for pair in values.items())
        for base, values in members.items():
            differ = [pair for pair in values.items() if pairs[pair] < len(members)]
            found[base] = ", ".join(map("=".join, differ))
    return found


def _versions(runs: Sequence[RunConfig]) -> List[Tuple[str, List[RunConfig]]]:
    """The runs with the same version of each plug-in, and the edited plug-ins in words."""
    digests: Dict[str, List[str]] = {}
    for name, digest in sorted({source for run in runs for source in run.sources}):
        digests.setdefault(name, []).append(digest)
    found, many = [], math.prod(map(len, digests.values()))
    if many > MOST_VERSIONS:
        raise RunError(
            f"{len(digests)} plug-ins have {many:,} combinations of versions, more than "
            f"{MOST_VERSIONS}: give a folder with fewer runs"
        )
    for chosen in product(*digests.values()):
        version = dict(zip(digests, chosen))
        same = [run for run in runs if all(version[name] == each for name, each in run.sources)]
        used = {name for run in same for name, _ in run.sources}
        if used == set(version):  # else this combination was never computed
            edited = [(n, d) for n, d in version.items() if len(digests[n]) > 1]
            found.append((show_sources(edited) if edited else "", same))
    return found


def _group(runs: Sequence[RunConfig], threat: Tuple[int, int], b: int) -> Group:
    """The runs of one board by cell; empty if fewer than two rules are attacked."""
    group: Group = {}
    for run in runs:
        same = not run.attacked or _threat(run) == threat
        if same and (run.b == b or not find_rule(run.rule).uses_b):
            group.setdefault((run.rule, attack_name(run)), []).append(run)
    attacked = {rule for rule, attack in group if attack != CLEAN}
    if len(attacked) < 2:
        return {}
    return {cell: each for cell, each in group.items() if cell[0] in attacked}


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
    own["scale"] = run.attack_scale != usual.scale and show(run.attack_scale)
    own["boost"] = run.boost != 1 and show(run.boost)
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
    base: RunConfig,
    setting: Setting,
    group: Group,
    folders: Dict[RunConfig, Path],
    version: str,
) -> Board:
    rules = _in_order(RULES, (rule for rule, _ in group))
    columns = _in_order((CLEAN, *ATTACKS), [CLEAN, *(attack for _, attack in group)])
    outcomes = {run: read_end(folders[run], run) for runs in group.values() for run in runs}
    scores, measure = {}, measure_of(base.sizes.metrics)
    for rule in rules:
        for attack in columns:
            runs = sorted(group.get((rule, attack), []), key=lambda run: run.seed)
            why = "" if runs else _why_empty(base, setting, rule, attack)
            cell = Cell(rule, attack, tuple(runs), why)
            scores[rule, attack] = score_cell(cell, outcomes, folders, measure)
    sizes = f"n={base.n}, k={base.k}, T={base.epochs}, {base.sizes.amount}"
    workload = ", ".join(filter(None, [base.sizes.task, sizes, version]))
    found = (setting, tuple(rules), tuple(columns), scores, outcomes, workload, measure)
    return Board(*found, data=base.sizes.data)


def _why_empty(base: RunConfig, setting: Setting, rule: str, attack: str) -> str:
    try:
        return why_illegal(base, setting, rule, attack) or ""
    except ConfigError:
        return ""


def _in_order(usual: Sequence[str], found: Iterable[str]) -> List[str]:
    """Names without repetitions, those of the default arena first and in its order."""
    names = dict.fromkeys(found)
    return [name for name in usual if name in names] + sorted(set(names) - set(usual))
