"""Colluding attacks on a shard: read the honest pushes in its slots, write the poisoned ones.

The attack is computed where the slots are, after the honest pushes and before aggregation, so that
one process and any number of servers compute the same.
"""

from __future__ import annotations

from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from slsgd_mx.attacks import Attack, Facts, find_attack
from slsgd_mx.attacks.engine import (
    attack_block,
    attack_stream,
    block_products,
    coefficients_of,
    pushes_from,
)
from slsgd_mx.core.flat_model import Range, Shard
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

    @property
    def extra(self) -> int:
        """Rows for what the attackers ask for besides the k pushes: see ``Shard``."""
        needs = () if self.attack is None else find_attack(self.attack).entry.needs
        return self.k + 1 if {"start", "target"} & {*needs} else 0


class Plot(NamedTuple):
    """Who colludes in an epoch: the poisoned slots, and the finite honest pushes that they see."""

    t: int
    poisoned: Tuple[int, ...]
    honest: Tuple[int, ...]


Places = Mapping[str, Range]  # where each parameter is in the shard


def products(shard: Shard, settings: Settings, plot: Plot) -> Iterator[np.ndarray]:
    """For each block, the inner products of what the attackers see."""
    own = _own(find_attack(settings.attack), plot)
    for block in shard.visit(shard.blocks):
        rows = shard.parts(plot.honest, block), shard.parts(own, block)
        yield block_products(*rows, shard.value[slice(*block)])


def coefficients(gram: np.ndarray, settings: Settings, plot: Plot) -> np.ndarray:
    """The poisoned pushes as linear combinations of what the attackers see, (q, rows)."""
    attack = find_attack(settings.attack)
    facts = _facts(settings, plot, attack, 0)
    return coefficients_of(attack, facts, gram, len(plot.honest), len(_own(attack, plot)))


def collude(
    shard: Shard,
    settings: Settings,
    plot: Plot,
    places: Places,
    combination: Optional[np.ndarray] = None,
) -> None:
    """Write what the attackers push into their slots."""
    attack = find_attack(settings.attack)
    own = _own(attack, plot)
    ranges = [(0, shard.value.size)] if attack.entry.whole else shard.blocks
    for number, block in enumerate(shard.visit(ranges), start=shard.first):
        honest, previous = shard.parts(plot.honest, block), shard.value[slice(*block)]
        if combination is not None:
            pushed = pushes_from(combination, honest, shard.parts(own, block), previous)
        else:
            facts = _facts(settings, plot, attack, number)
            more = _more(shard, settings, plot, attack, block, places)
            pushed = attack_block(attack, facts, honest, previous, **more)
        for slot, push in zip(plot.poisoned, pushed):
            shard.row(slot)[slice(*block)] = push


def _own(attack: Choice[Attack], plot: Plot) -> Tuple[int, ...]:
    """The slots with what the attackers trained, if the attack needs it."""
    return plot.poisoned if "own" in attack.entry.needs else ()


def _facts(settings: Settings, plot: Plot, attack: Choice[Attack], block: int) -> Facts:
    rng = attack_stream(settings.seed, attack.name, plot.t, block)
    q = len(plot.poisoned)
    return Facts(plot.t, settings.k, q, settings.b, settings.rule, attack.parameters, rng)


def _more(
    shard: Shard,
    settings: Settings,
    plot: Plot,
    attack: Choice[Attack],
    block: Range,
    places: Places,
) -> Dict[str, Any]:
    """What the attackers see on a block besides the honest pushes and x_{t-1}."""
    needs, k, (start, stop) = attack.entry.needs, shard.k, block
    inside = {
        name: slice(max(low, start) - start, min(high, stop) - start)
        for name, (low, high) in places.items()
        if low < stop and start < high
    }
    more: Dict[str, Any] = {"places": inside, "own": shard.parts(_own(attack, plot), block)}
    if "start" in needs:
        more["start"] = shard.parts([k + slot for slot in plot.poisoned], block)
    if "target" in needs:
        more["target"] = shard.parts([2 * k], block)[0]
    if attack.entry.whole:
        more["aggregate"] = _aggregation(shard, settings, plot)
    return more


def _aggregation(
    shard: Shard, settings: Settings, plot: Plot
) -> Callable[[Sequence[np.ndarray]], np.ndarray]:
    """The function from poisoned pushes to the server's aggregate, for a shard that is all."""
    rule = find_rule(settings.rule)
    slots = sorted([*plot.honest, *plot.poisoned])

    def aggregate(pushes: Sequence[np.ndarray]) -> np.ndarray:
        if rule.obstacle(len(slots), settings.b):  # then the server keeps x_{t-1}
            return shard.value.copy()
        pushed = dict(zip(plot.poisoned, pushes))
        rows: List[np.ndarray] = [
            np.asarray(pushed[slot], np.float32) if slot in pushed else shard.row(slot)
            for slot in slots
        ]
        return rule.combine(rows, shard.value, settings.b, settings.seed, plot.t)

    return aggregate
