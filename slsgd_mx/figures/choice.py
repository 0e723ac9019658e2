"""Some curves of a figure, chosen by their symbols (``--where``); no MXNet."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Dict, List, Mapping, Sequence, Set, Tuple, TypeVar

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.runs.records import Run, planned_run
from slsgd_mx.runs.selection import NUMBER, parse_filter, select, show, varying

L = TypeVar("L")  # a line: it has the runs of one curve
SIGNS = {">=": "-from-", "<=": "-to-", "!=": "-not-", ">": "-above-", "<": "-below-"}


def choose(groups: Mapping[str, List[L]], conditions: Sequence[str]) -> Dict[str, List[L]]:
    """The lines whose runs fulfil all conditions, such as ``q<=2``; a ConfigError if there is none.

    A group that would show nothing but what another one shows is left out: without the attacked
    curves of q=4, its panels repeat the curve without attack.
    """
    if not conditions:
        return dict(groups)
    for text in conditions:
        if parse_filter(text).name in ("status", "epoch"):
            raise ConfigError(f"{text!r} is no condition on curves: name a symbol, such as b or q")
    lines = [line for members in groups.values() for line in members]
    runs = {run: planned_run(run, Path()) for line in lines for run in line.runs}
    chosen = set(map(id, select(list(runs.values()), conditions)))
    fulfil = {run for run, planned in runs.items() if id(planned) in chosen}
    for line in lines:
        if 0 < len(fulfil & set(line.runs)) < len(line.runs):
            raise ConfigError(
                f"{_both(conditions)} holds for some runs of a curve only, and --where chooses "
                "whole curves: --seed and --repeats choose seeds, --alphas the x-axis of Figures 5 "
                "and 6"
            )
    if not fulfil:
        curves = [runs[line.runs[0]] for line in lines]
        raise ConfigError(f"no curve fulfils {_both(conditions)}: {_differences(curves)}")
    left = {
        name: [line for line in each if line.runs[0] in fulfil] for name, each in groups.items()
    }
    return _without_repetitions(left)


def _both(conditions: Sequence[str]) -> str:
    return " and ".join(map(repr, conditions))


def _differences(curves: Sequence[Run]) -> str:
    """In what curves differ, with all values."""
    found = {name: {show(run.symbols.get(name)) for run in curves} for name in varying(curves)}
    return "; ".join(
        f"{n} is {', '.join(sorted(values, key=_order))}" for n, values in found.items()
    )


def _order(text: str) -> Tuple[float, str]:
    """Numbers by their size, then words."""
    return (float(text), "") if NUMBER.fullmatch(text) else (math.inf, text)


def _without_repetitions(groups: Mapping[str, List[L]]) -> Dict[str, List[L]]:
    """The groups that show a run which no other group shows; of equal groups, the first."""
    runs: Dict[str, Set[RunConfig]] = {
        name: {run for line in lines for run in line.runs} for name, lines in groups.items()
    }
    kept: Dict[str, List[L]] = {}
    for name, lines in groups.items():
        repeats = any(runs[name] < other for other in runs.values())
        if not repeats and all(runs[name] != runs[other] for other in kept):
            kept[name] = lines
    return kept


def in_words(condition: str) -> str:
    """A condition as a part of the name of a folder.

    >>> in_words("q<=2"), in_words("b=2"), in_words("attack != alie:z=2")
    ('q-to-2', 'b-2', 'attack-not-alie:z-2')
    """
    for sign, words in SIGNS.items():
        condition = condition.replace(sign, words)
    return condition.replace("=", "-").replace(" ", "")
