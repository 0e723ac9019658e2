"""How colluding attacks are computed, on arrays: the servers and ``poison`` call these functions.

A coordinate-wise attack is one call of ``attack_block`` for each block.  A block-sum attack needs

1. ``block_products`` on every block, added in the order of the blocks;
2. ``coefficients_of`` that sum, once;
3. ``pushes_from`` those coefficients, on every block (or on any other part).

A whole-model attack is ``attack_block`` on the whole model, with ``aggregate``.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from slsgd_mx.attacks.attack import Attack
from slsgd_mx.attacks.collusion import Collusion, Facts, Products, deviation_of, seen_rows
from slsgd_mx.errors import ConfigError
from slsgd_mx.randomness import stream
from slsgd_mx.registry import Choice
from slsgd_mx.rules.pipeline import find_rule, mix_rows
from slsgd_mx.rules.rule import Rows, read_only


def attack_block(
    choice: Choice[Attack], facts: Facts, honest: Rows, previous: np.ndarray, **more: Any
) -> np.ndarray:
    """What the q push on a block of w coordinates, by ``collude``; float32 (q, w).

    ``honest`` are the finite honest pushes in the order of their slots; ``more`` are the other
    attributes of ``Collusion``: ``own``, ``start``, ``target``, ``places``, ``aggregate``.  The
    attack cannot change them: they are in the server's memory.
    """
    shown = {name: _guarded(value) for name, value in more.items()}
    seen = Collusion(
        **vars(facts), honest=_guarded(list(honest)), previous=_guarded(previous), **shown
    )
    pushed = np.asarray(choice.entry.collude(seen))
    shape = (facts.q, previous.size)
    if pushed.shape not in (shape, shape[1:]):
        raise ConfigError(
            f"attack {choice.name} returned an array of shape {pushed.shape}: needs {shape} or "
            f"{shape[1:]}"
        )
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite
        return np.ascontiguousarray(np.broadcast_to(pushed, shape), np.float32)


def _guarded(value: Any) -> Any:
    """Arrays that may be read only; what is not an array or a list of arrays as it is."""
    if isinstance(value, list):
        return [read_only(row) for row in value]
    return read_only(value) if isinstance(value, np.ndarray) else value


def block_products(honest: Rows, own: Rows, previous: np.ndarray) -> np.ndarray:
    """The inner products on a block that ``Products`` is made of, float64 (n, n).

    The n rows are the honest and the own updates and mu, all relative to x_{t-1}, and sigma.
    """
    seen, base = seen_rows(honest, own), previous.astype(np.float64)
    rows = np.empty((len(seen) + 1, previous.size))
    for row, model in zip(rows, seen):
        np.subtract(model, base, out=row)
    rows[-1] = deviation_of(honest, seen[-1])
    return rows @ rows.T


def coefficients_of(
    choice: Choice[Attack], facts: Facts, gram: np.ndarray, honest: int, own: int = 0
) -> np.ndarray:
    """What the q push, by ``combine``, as coefficients (q, n) of the rows of ``block_products``."""
    found = np.asarray(choice.entry.combine(Products(gram, honest, own), facts), np.float64)
    shape = (facts.q, len(gram))
    if found.shape not in (shape, shape[1:]) or not np.isfinite(found).all():
        raise ConfigError(
            f"attack {choice.name} returned coefficients of shape {found.shape}: needs finite "
            f"numbers of shape {shape} or {shape[1:]}"
        )
    return np.broadcast_to(found, shape)


def pushes_from(
    coefficients: np.ndarray, honest: Rows, own: Rows, previous: np.ndarray
) -> np.ndarray:
    """x_{t-1} plus the combinations of updates and sigma, on a part; float32 (q, w).

    They are added in float64, for each coordinate in the same way; coefficients (0, .., 1, .., 0)
    copy an honest or own push to the bit.
    """
    seen, of_sigma = seen_rows(honest, own), coefficients[:, -1:]
    out = np.empty((len(coefficients), previous.size))
    mix_rows(coefficients[:, :-1], seen, previous, out)
    if of_sigma.any():
        out += of_sigma * deviation_of(honest, seen[-1])
    with np.errstate(over="ignore"):
        return out.astype(np.float32)


def attack_stream(seed: int, name: str, epoch: int, block: int = 0) -> np.random.Generator:
    """The random stream of a colluding attack in one epoch, on one block."""
    return stream(seed, f"attack-{name}", epoch=epoch, device=block)


def find_obstacle(choice: Choice[Attack], k: int, q: int, b: int, rule: str) -> Optional[str]:
    """Why an attack is illegal for these numbers and this rule, in words; None if it is legal.

    q=0 means that q varies between epochs: then only the rule counts.
    """
    attack, pipeline, needs = choice.entry, find_rule(rule), None
    if attack.by_coordinate and (pipeline.mixes or pipeline.whole):
        needs = f"a rule that treats each coordinate by itself, not {rule}"
    elif q and k - q < attack.least_honest:
        needs = f"k - q >= {attack.least_honest} honest pushes, and k={k}, q={q} leaves {k - q}"
    elif q and attack.legal is not None:
        needs = attack.legal(k, q, b, choice.parameters)
    return f"attack {choice.text} needs {needs}" if needs else None


def find_misfit(choice: Choice[Attack], sizes: Any) -> Optional[str]:
    """Why an attack is impossible on a workload, in words; None if it is possible or unknown."""
    attack, task = choice.entry, sizes.task
    if attack.samples is not None and not sizes.poisons_inputs:
        return (
            f"attack {choice.text} poisons inputs, which task {task} does not support: use a task "
            "with images (cifar or images)"
        )
    if "target" in attack.needs and not sizes.has_target:
        return f"attack {choice.text} needs a target, and task {task} has none (has_target=False)"
    needs = attack.fits and attack.fits(sizes, choice.parameters)
    return f"attack {choice.text} needs {needs}" if needs else None


def require_given(choice: Choice[Attack], given: dict, honest: Sequence[Any]) -> None:
    """Raise a ConfigError if there are too few honest pushes or something else is missing."""
    least = choice.entry.least_honest
    if len(honest) < least:
        raise ConfigError(
            f"attack {choice.name} needs at least {least} finite honest pushes, got {len(honest)}"
        )
    for name in choice.entry.needs:
        if given.get(name) is None:
            raise ConfigError(f"attack {choice.name} needs {name}=: {WHAT[name]}")


WHAT = {
    "own": "what each of the q attackers trained, of shape (q, d)",
    "start": "what each of the q attackers started from, of shape (q, d)",
    "target": "the model to stay away from, of shape (d,)",
}
