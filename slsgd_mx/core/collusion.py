"""Colluding attacks on a shard: read the honest pushes in its slots, write the poisoned ones.

The attack is computed where the slots are, after the honest pushes and before aggregation, so that
one process and any number of servers compute the same.
"""

from __future__ import annotations

from typing import Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.attacks import Attack, Facts, Products, find_attack
from slsgd_mx.attacks.engine import (
    Seen,
    attack_block,
    block_products,
    check_coefficients,
    combined_block,
)
from slsgd_mx.core.flat_model import Range, Shard
from slsgd_mx.randomness import stream
from slsgd_mx.registry import Choice
from slsgd_mx.rules.pipeline import find_rule


class Settings(NamedTuple):
    """How a server aggregates, and what its poisoned workers do together, if anything."""

    k: int
    b: int = 0
    rule: str = "trimmed-mean"
    nonfinite: str = "reject"
    attack: Optional[str] = None  # a colluding one
    seed: int = 0


class Plot(NamedTuple):
    """Who colludes in an epoch: the poisoned slots, and the finite honest pushes that they see."""

    t: int
    poisoned: Tuple[int, ...]
    honest: Tuple[int, ...]


Places = Mapping[str, Range]  # where each parameter is in the shard


def products(shard: Shard, settings: Settings, plot: Plot) -> Iterator[np.ndarray]:
    """For each block, the inner products of what the attackers see."""
    attack = find_attack(settings.attack)
    for block in shard.blocks:
        yield block_products(_look(shard, attack, plot, block, {}))


def coefficients(gram: np.ndarray, settings: Settings, plot: Plot) -> np.ndarray:
    """The poisoned pushes as linear combinations of what the attackers see, (q, rows)."""
    attack = find_attack(settings.attack)
    own = len(plot.poisoned) if "own" in attack.entry.needs else 0
    seen = Products(gram, len(plot.honest), own)
    found = attack.entry.combine(seen, _facts(settings, plot, attack, 0))
    return check_coefficients(attack.name, found, len(plot.poisoned), len(gram))


def collude(
    shard: Shard,
    settings: Settings,
    plot: Plot,
    places: Places,
    combination: Optional[np.ndarray] = None,
) -> None:
    """Write what the attackers push into their slots."""
    attack = find_attack(settings.attack)
    ranges = [(0, shard.value.size)] if attack.entry.whole else shard.blocks
    for number, block in enumerate(ranges, start=shard.first):
        seen = _look(shard, attack, plot, block, places)
        if combination is not None:
            pushed = combined_block(combination, seen)
        else:
            facts = _facts(settings, plot, attack, number)
            aggregate = _aggregation(shard, settings, plot) if attack.entry.whole else None
            pushed = attack_block(attack, facts, seen, aggregate)
        for slot, push in zip(plot.poisoned, pushed):
            shard.row(slot)[slice(*block)] = push


def _facts(settings: Settings, plot: Plot, attack: Choice[Attack], block: int) -> Facts:
    rng = stream(settings.seed, "collude", plot.t, block)
    q = len(plot.poisoned)
    return Facts(plot.t, settings.k, q, settings.b, settings.rule, attack.parameters, rng)


def _look(shard: Shard, attack: Choice[Attack], plot: Plot, block: Range, places: Places) -> Seen:
    """What the attackers see on a block."""
    needs, k, poisoned = attack.entry.needs, shard.k, plot.poisoned
    start, stop = block
    inside = {
        name: slice(max(low, start) - start, min(high, stop) - start)
        for name, (low, high) in places.items()
        if low < stop and start < high
    }
    return Seen(
        shard.parts(plot.honest, block),
        shard.value[start:stop],
        shard.parts(poisoned, block) if "own" in needs else [],
        shard.parts([k + slot for slot in poisoned], block) if "start" in needs else [],
        shard.parts([2 * k], block)[0] if "target" in needs else None,
        inside,
    )


def _aggregation(shard: Shard, settings: Settings, plot: Plot):
    """The function from poisoned pushes to the server's aggregate, for a shard that is all."""
    rule = find_rule(settings.rule)
    slots = sorted([*plot.honest, *plot.poisoned])

    def aggregate(pushes: Sequence[np.ndarray]) -> np.ndarray:
        pushed = dict(zip(plot.poisoned, pushes))
        rows: List[np.ndarray] = [
            np.asarray(pushed[slot], np.float32) if slot in pushed else shard.row(slot)
            for slot in slots
        ]
        return rule.combine(rows, shard.value, settings.b, settings.seed, plot.t)

    return aggregate
