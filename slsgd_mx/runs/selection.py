"""Choose runs by their symbols, and find what differs between them; no MXNet."""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple

from slsgd_mx.attacks import ATTACKS
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.frozen import FROZEN, FROZEN_SIZES
from slsgd_mx.runs.records import Run

COMPARISONS: Dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, "!=": operator.ne, "==": operator.eq,
    "=": operator.eq, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
ALIASES = {"T": "epochs", "H": "local_steps"}  # the paper's symbols
CHOICES = ("attack", "rule", "partition", "network")  # NAME:key=value,...
FIRST = ("task", "data", "partition")  # the order in which symbols are shown
DETERMINED_BY = {  # symbols that follow from others, unless they were changed; here not from task
    "attacker_start": ("attack",),
    "attack_scale": ("attack",),
    "sources": ("task", "attack", "rule", "partition", "network"),  # with parameters
}
DIGITS = range(6, 13)  # how many digits of an identity a short name may have
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf", re.IGNORECASE)
WORDS = {"true": "yes", "false": "no", "none": "none"}  # as Python or JSON and ``show`` spell them


def symbol_names(runs: Iterable[Run] = ()) -> List[str]:
    """Every symbol by name, in the order in which tables show them."""
    own = [field.name for field in fields(RunConfig) if field.name != "sizes"]
    sizes = [name for sizes in FROZEN_SIZES.values() for name in sizes]
    stored = [name for run in runs for name in run.symbols]
    return list(dict.fromkeys([*FIRST, *own, *sizes, *stored]))


def varying(runs: Sequence[Run]) -> List[str]:
    """The symbols that are not equal in all runs and say something new.

    What the attack determines (its start and scale), what the task determines (sizes that only it
    has) and plug-ins of which there is one version is left out, and so is the decay epoch of runs
    whose alpha does not decay.
    """
    names = []
    for name in symbol_names(runs):
        idle = name == "alpha_decay_epoch"  # with alpha=1 it has no effect
        among = [run for run in runs if not idle or run.symbols.get("alpha") != 1]
        given = DETERMINED_BY.get(name, ("task",))
        known = {tuple(_key(run, other) for other in given) for run in among}
        values = {_key(run, name) for run in among}
        if len(values) > 1:
            pairs = {tuple(_key(run, other) for other in (*given, name)) for run in among}
            if name in given or len(pairs) > len(known):
                names.append(name)
    return names


def labels(runs: Sequence[Run], but: Sequence[str] = ()) -> List[str]:
    """What distinguishes each run from the others, such as ``q=2, b=2, attack=negation``."""
    names = [name for name in varying(runs) if name not in but]
    return [describe(run, names) for run in runs]


def describe(run: Run, names: Sequence[str]) -> str:
    """Symbols with their values; those without a value are left out.

    An attack is followed by its start and scale where they are not its own.
    """
    found = {name: run.symbols.get(name) for name in names}
    attack = ATTACKS.get(found.get("attack") or "")
    if attack is not None:
        own = {"attacker_start": attack.start, "attack_scale": attack.scale}
        stored = {name: run.symbols.get(name) for name in own}
        found.update({name: stored[name] for name in own if stored[name] != own[name]})
    return ", ".join(f"{name}={brief(value)}" for name, value in found.items() if value is not None)


def in_common(runs: Sequence[Run]) -> Dict[str, Any]:
    """The symbols that are equal in all runs and not at their default, the paper's value."""
    if not runs:
        return {}
    shared = [name for name in symbol_names(runs) if len({_key(run, name) for run in runs}) == 1]
    symbols = runs[0].symbols
    default = {**FROZEN, **FROZEN_SIZES.get(symbols.get("task", ""), {})}
    return {
        name: symbols[name]
        for name in shared
        if name in symbols and (name not in default or show(symbols[name]) != show(default[name]))
    }


def _key(run: Run, name: str) -> str:
    return show(run.symbols[name]) if name in run.symbols else "\0"


def show(value: Any) -> str:
    """A value as tables and filters spell it.

    >>> show(0.1), show([5, 15]), show(None), show(True), show("median")
    ('0.1', '5:15', 'none', 'yes', 'median')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return ":".join(map(show, value)) if isinstance(value, (list, tuple)) else str(value)


def brief(value: Any) -> str:
    """A value as a person reads it: as ``show`` spells it, with the beginning of a SHA-256.

    >>> brief([["mine.py", 32 * "1f"]])
    'mine.py:1f1f1f1f1f1f'
    """
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1", show(value))


def parse_filter(text: str) -> Callable[[Run], bool]:
    """A condition such as ``b=2``, ``attack!=label-flip``, ``q>=2`` or ``test_accuracy>0.4``.

    The name is that of a symbol, ``status``, ``epoch`` or a metric (its last value). A run that
    has no such symbol, because it is of another task, does not fulfil the condition.  A bare name
    of an attack, a rule, a partition or a network stands for all of its parameters.

    >>> parse_filter("b~2")
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.ConfigError: 'b~2' is not a condition: write NAME=VALUE, or NAME with one of \
>=, <=, !=, ==, >, <
    """
    signs = "|".join(map(re.escape, COMPARISONS))
    found = re.fullmatch(rf"\s*(\w+)\s*({signs})\s*(.*?)\s*", text)
    if found is None:
        others = ", ".join(sign for sign in COMPARISONS if sign != "=")
        raise ConfigError(
            f"{text!r} is not a condition: write NAME=VALUE, or NAME with one of {others}"
        )
    name, sign, wanted = found.groups()
    ordered = sign in (">=", "<=", ">", "<")
    if ordered and not NUMBER.fullmatch(wanted):
        raise ConfigError(f"{text!r} is not a condition: {sign} needs a number, not {wanted!r}")

    def holds(run: Run) -> bool:
        values = _values(run)
        own = name if name in values else ALIASES.get(name, name)
        if own not in values:
            return False
        value = values[own]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if wanted.lower() == "nan":  # which equals nothing, not even itself
                return COMPARISONS[sign](math.isnan(value), True)
            if NUMBER.fullmatch(wanted):
                return COMPARISONS[sign](float(value), float(wanted))
            return sign == "!="
        same = WORDS.get(wanted.lower(), wanted)
        shown = show(value)
        if name in CHOICES and ":" not in wanted:  # whatever the parameters are
            shown = re.sub(r":[^+]*", "", shown)
        return not ordered and COMPARISONS[sign](shown, same)

    holds.name = name  # type: ignore[attr-defined]
    return holds


def select(runs: Sequence[Run], conditions: Sequence[str]) -> List[Run]:
    """The runs that fulfil all conditions; a ConfigError lists the names that exist."""
    filters = [parse_filter(text) for text in conditions]
    metrics = list(dict.fromkeys(name for run in runs for name in run.metrics))
    legal = [*symbol_names(runs), *ALIASES, "status", "epoch", *metrics]
    for text, condition in zip(conditions, filters):
        if condition.name not in legal:
            raise ConfigError(f"{text!r} names no symbol: choose one of {', '.join(legal)}")
    return [run for run in runs if all(condition(run) for condition in filters)]


def _values(run: Run) -> Dict[str, Any]:
    return {**run.symbols, "status": run.status, "epoch": run.epoch, **run.last}


def short_names(paths: Iterable[Path], home: Path) -> Dict[Path, str]:
    """A name of each run folder that ``find_run`` knows: its folder, or part of its identity.

    Folder names end in the identity of the run, twelve digits of which six or more are shown;
    those of repeats in that identity and the seed.
    """
    folders = {path: _relative(path, home) for path in paths}
    ends = {path: _end(name) for path, name in folders.items() if len(name) > 20}

    starts = Counter((digits[:d], seed) for digits, seed in ends.values() for d in DIGITS)

    def shorten(path: Path) -> str:
        digits, seed = ends.get(path, ("", ""))
        unique = [digits[:d] for d in DIGITS if digits and starts[digits[:d], seed] == 1]
        if not unique:
            return folders[path]  # it may be there twice
        return "/".join(filter(None, [unique[0], seed]))

    return {path: shorten(path) for path in folders}


def _end(folder: str) -> Tuple[str, str]:
    """The digits at the end of a folder's name, and the seed of a repeat.

    >>> _end("cifar-b2-0123456789ab-repeats/seed3"), _end("cifar-b2-0123456789ab"), _end("mine")
    (('0123456789ab', 'seed3'), ('0123456789ab', ''), ('', ''))
    """
    found = re.search(r"-([0-9a-f]{12})(?:-repeats/(seed\d+))?$", folder)
    return (found[1], found[2] or "") if found else ("", "")


def _is_end(folder: str, text: str) -> bool:
    """Whether a text is the beginning of a folder's digits, followed by the seed of a repeat."""
    digits, seed = _end(folder)
    given, _, of = text.partition("/")
    return bool(given) and digits.startswith(given) and seed == of


def find_run(text: str, runs: Sequence[Run], home: Path) -> Path:
    """The folder that a user means: a path, a name below ``home``, or a unique part of one."""
    if (Path(text) / "config.json").exists():
        return Path(text)
    folders = {run.path: _relative(run.path, home) for run in runs}
    for fits in (
        lambda name: name == text,
        lambda name: _is_end(name, text),
        lambda name: text in name,
    ):
        found = [run for run in runs if fits(folders[run.path])]
        begun = [run for run in found if run.epoch or run.status != "interrupted"]
        for few in (found, begun):  # others have computed nothing
            if len(few) == 1:
                return few[0].path
        if found:
            shown = ", ".join(str(run.path) for run in found[:4])
            more = f" and {len(found) - 4} more" if len(found) > 4 else ""
            raise ConfigError(f"{text!r} is part of {len(found)} runs ({shown}{more}): name one")
    raise ConfigError(f"{text!r} is no run folder, nor part of the name of one below {home}")


def _relative(path: Path, home: Path) -> str:
    return path.name if path == home else str(path.relative_to(home))
