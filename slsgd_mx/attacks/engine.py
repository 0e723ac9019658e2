"""Computes what colluding attackers push, block by block of the flat model."""

from __future__ import annotations

from typing import List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from slsgd_mx.attacks.attack import Attack
from slsgd_mx.attacks.collusion import Collusion, Facts, deviation_of, mean_of
from slsgd_mx.errors import ConfigError
from slsgd_mx.registry import Choice
from slsgd_mx.rules.pipeline import mix_rows


class Seen(NamedTuple):
    """What the attackers see on a block: float32 rows (d,)."""

    honest: List[np.ndarray]
    previous: np.ndarray
    own: List[np.ndarray] = []
    start: List[np.ndarray] = []
    target: Optional[np.ndarray] = None
    places: Mapping[str, slice] = {}


def attack_block(attack: Choice[Attack], facts: Facts, seen: Seen, aggregate=None) -> np.ndarray:
    """What the q attackers push on a block, float32 (q, d), for an attack that ``collude``s."""
    known = {**vars(facts), **seen._asdict()}
    with np.errstate(all="ignore"):  # the attackers may push what they like
        pushed = np.asarray(attack.entry.collude(Collusion(**known, aggregate=aggregate)))
        shape = (facts.q, seen.previous.size)
        if pushed.shape not in (shape, shape[1:]):
            raise ConfigError(
                f"attack {attack.name} returned an array of shape {pushed.shape}, not {shape} or "
                f"{shape[1:]}"
            )
        return np.broadcast_to(pushed, shape).astype(np.float32)


def block_products(seen: Seen) -> np.ndarray:
    """The inner products on a block of honest and own updates, mu's update and sigma; float64."""
    mu = mean_of(seen.honest)
    rows = [row - seen.previous.astype(np.float64) for row in [*seen.honest, *seen.own, mu]]
    vectors = np.array([*rows, deviation_of(seen.honest, mu)])
    with np.errstate(invalid="ignore", over="ignore"):
        return vectors @ vectors.T


def combined_block(coefficients: np.ndarray, seen: Seen) -> np.ndarray:
    """The pushes with these coefficients of what is seen, on a block; float32 (q, d)."""
    mu = mean_of(seen.honest)
    weights = np.array(coefficients, np.float64)
    pushed = np.empty((len(weights), seen.previous.size), np.float32)
    rows = [*seen.honest, *seen.own, mu]
    if not weights[:, -1].any():
        mix_rows(weights[:, :-1], rows, seen.previous, list(pushed))
        return pushed
    sigma = deviation_of(seen.honest, mu)
    for push, row in zip(pushed, weights):
        exact = np.zeros(seen.previous.size)
        mix_rows(row[None, :-1], rows, seen.previous, [exact])
        push[...] = exact + row[-1] * sigma
    return pushed


def check_coefficients(name: str, coefficients: np.ndarray, q: int, size: int) -> np.ndarray:
    """What a ``combine`` returned, as (q, size); a ConfigError if it has another shape."""
    found = np.atleast_2d(np.asarray(coefficients, np.float64))
    if found.shape not in ((q, size), (1, size)) or not np.isfinite(found).all():
        raise ConfigError(
            f"attack {name} returned coefficients of shape {found.shape}: needs finite numbers of "
            f"shape ({q}, {size}) or ({size},)"
        )
    return np.broadcast_to(found, (q, size))


def rows_of(vectors: Sequence[np.ndarray], block: slice) -> List[np.ndarray]:
    """The values of rows on one block."""
    return [row[block] for row in vectors]
