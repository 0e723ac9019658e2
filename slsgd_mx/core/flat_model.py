"""The flat model, or a stretch of it, with the k pushes to it: lines 14 and 15 of Algorithm 1.

The server of one process holds one shard, the whole model; a parameter server on several machines
holds one on each.  Both run the code below, coordinate by coordinate, so they agree to the bit.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from slsgd_mx.rules import RULES

Range = Tuple[int, int]  # [start, stop) of the flat model


class Place(NamedTuple):
    """Where a parameter stands in the flat model."""

    start: int
    stop: int
    shape: Tuple[int, ...]
    averaged: bool  # whether alpha applies to it


class Layout:
    """Named parameters one after the other in one flat model.

    >>> layout = Layout()
    >>> layout.add("w", (2, 3)), layout.add("mean", (3,), averaged=False)
    (None, None)
    >>> layout.size, layout.places["mean"][:2], layout.plain
    (9, (6, 9), [(6, 9)])
    """

    def __init__(self) -> None:
        self.places: Dict[str, Place] = {}
        self.size = 0

    def add(self, key: str, shape: Tuple[int, ...], averaged: bool = True) -> None:
        start = self.size
        self.size += int(np.prod(shape, dtype=np.int64))
        self.places[key] = Place(start, self.size, tuple(shape), averaged)

    @property
    def plain(self) -> List[Range]:
        """Stretches that alpha is kept off."""
        return [(p.start, p.stop) for p in self.places.values() if not p.averaged]

    def view(self, flat: np.ndarray, key: str) -> np.ndarray:
        """A parameter in a flat model, the same memory."""
        place = self.places[key]
        return flat[place.start : place.stop].reshape(place.shape)


def moving_average(x: np.ndarray, aggregate: np.ndarray, alpha: float) -> None:
    """Line 15, in place: ``x_t = (1 - alpha) x_{t-1} + alpha x'_t``."""
    if alpha == 1.0:  # exactly x'_t, even where x_{t-1} is not finite
        x[...] = aggregate
        return
    np.multiply(x, np.float32(1.0 - alpha), out=x)
    np.multiply(aggregate, np.float32(alpha), out=aggregate)
    np.add(x, aggregate, out=x)


def all_finite(array: np.ndarray) -> bool:
    """No NaN, no infinity: minimum and maximum let neither pass, and need no third array."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


class Shard:
    """Values of a stretch of the model, and k slots for what is pushed to it.

    Parameters
    ----------
    value : (d,) float32, changed in place
    k : int
    plain : stretches of ``value`` that alpha is kept off
    """

    def __init__(self, value: np.ndarray, k: int, plain: Sequence[Range] = ()) -> None:
        self.value, self.plain = value, list(plain)
        self.slots = np.zeros((k, value.size), np.float32)  # (k, d)

    def is_finite(self, slot: int) -> bool:
        return all_finite(self.slots[slot])

    def update(self, accepted: Sequence[int], rule: str, b: int, alpha: float) -> None:
        """Aggregate the accepted slots and apply the moving average (lines 14-15)."""
        aggregate = np.empty(self.value.size, np.float32)
        RULES[rule].aggregate([self.slots[slot] for slot in accepted], b, aggregate)
        plain = [(start, stop, aggregate[start:stop].copy()) for start, stop in self.plain]
        moving_average(self.value, aggregate, alpha)
        for start, stop, untouched in plain:
            self.value[start:stop] = untouched


def cut(ranges: Sequence[Range], within: Range) -> List[Range]:
    """The parts of ranges inside another one, counted from its start.

    >>> cut([(0, 4), (6, 9)], within=(3, 7))
    [(0, 1), (3, 4)]
    """
    low, high = within
    parts = [(max(start, low) - low, min(stop, high) - low) for start, stop in ranges]
    return [(start, stop) for start, stop in parts if start < stop]
