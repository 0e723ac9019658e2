"""What colluding attackers see: the honest pushes of the epoch and x_{t-1}, nothing later.

Attacks that need only one coordinate at a time see a ``Collusion`` for a part of the coordinates.
Attacks that need lengths and distances see ``Products``: inner products of the updates, which the
servers compute block by block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Callable, List, Mapping, Optional, Sequence

import numpy as np

from slsgd_mx.registry import Value


@dataclass(frozen=True)
class Facts:
    """What the attackers know about the epoch."""

    t: int
    k: int
    q: int  # poisoned pushes in this epoch
    b: int
    rule: str
    parameters: Mapping[str, Value]
    rng: np.random.Generator  # a stream for this epoch and block of coordinates


@dataclass(frozen=True)
class Collusion(Facts):
    """What the attackers see on a part of the coordinates; all arrays are float32 (d,)."""

    honest: List[np.ndarray]  # the finite honest pushes that arrived
    previous: np.ndarray  # x_{t-1}
    own: List[np.ndarray] = field(default_factory=list)  # what the q trained, if asked for
    start: List[np.ndarray] = field(default_factory=list)  # what they started from, if asked for
    target: Optional[np.ndarray] = None  # the task's, if asked for
    places: Mapping[str, slice] = field(default_factory=dict)  # the parameters on this part
    aggregate: Optional[Callable[[Sequence[np.ndarray]], np.ndarray]] = None  # q pushes -> x'_t

    @cached_property
    def mu(self) -> np.ndarray:
        """The mean of the honest pushes, float64 (d,)."""
        return mean_of(self.honest)

    @cached_property
    def sigma(self) -> np.ndarray:
        """The standard deviation of the honest pushes (divisor k-q-1), float64 (d,)."""
        return deviation_of(self.honest, self.mu)


def mean_of(rows: Sequence[np.ndarray]) -> np.ndarray:
    """The mean of rows in float64, summed in their order."""
    total = np.zeros(rows[0].shape)
    for row in rows:
        total += row
    return total / len(rows)


def deviation_of(rows: Sequence[np.ndarray], mean: np.ndarray) -> np.ndarray:
    """The standard deviation of two or more rows in float64; 0 for one."""
    total = np.zeros(mean.shape)
    for row in rows:
        total += (row - mean) ** 2
    return np.sqrt(total / max(1, len(rows) - 1))


class Products:
    """Inner products of what colluding attackers see, and vectors as coefficients of it.

    ``honest`` and ``own`` are lists of vectors, ``mu`` and ``sigma`` vectors.  A vector is an array
    of coefficients, so vectors can be added and scaled; all but ``sigma`` are updates, relative to
    x_{t-1}, which is therefore the zero vector ``previous``.

    >>> gram = np.array([[4.0, 0, 2, 0], [0, 1, 0.5, 0], [2, 0.5, 1.25, 0], [0, 0, 0, 0]])
    >>> seen = Products(gram, honest=2)
    >>> seen.square(seen.honest[0] - seen.honest[1])
    5.0
    """

    def __init__(self, gram: np.ndarray, honest: int, own: int = 0) -> None:
        units = np.eye(len(gram))
        self.gram = gram
        self.honest, self.own = list(units[:honest]), list(units[honest : honest + own])
        self.mu, self.sigma = units[honest + own], units[honest + own + 1]
        self.previous = np.zeros(len(gram))

    def dot(self, a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ self.gram @ b)

    def square(self, a: np.ndarray) -> float:
        """|a|^2, at least 0 whatever the rounding."""
        return max(0.0, self.dot(a, a))


def seen_rows(honest: Sequence[np.ndarray], own: Sequence[np.ndarray]) -> List[np.ndarray]:
    """The rows that coefficients refer to, without sigma: honest, own, mu."""
    return [*honest, *own, mean_of(honest)]
