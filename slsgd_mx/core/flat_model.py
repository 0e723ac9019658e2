"""The flat model, its shards, and lines 14 and 15 of Algorithm 1 on them.

Flat model: all parameters in one vector.  Slot: a worker's position in S_t.  Shard: the part of the
flat model that one server holds, with k slots for what the workers push to it.  In one process
there is one shard, the whole model.  Both lines work coordinate by coordinate, or with sums over
fixed blocks of coordinates, so any number of shards gives the same bits.
"""

from __future__ import annotations

import functools
from typing import (
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.rules.pipeline import block_gram, find_rule
from slsgd_mx.rules.pipeline import blocks as divide
from slsgd_mx.system.slot_memory import SlotMemory

T = TypeVar("T")
Range = Tuple[int, int]  # [start, stop) of the flat model
Stream = Callable[[int], np.random.Generator]  # of a block, by its number
RESIDENT = 1 << 27  # bytes of pushes that are aggregated at a time if they are in a file


class Place(NamedTuple):
    """Where a parameter is in the flat model."""

    start: int
    stop: int
    shape: Tuple[int, ...]
    moving_average: bool  # False: the aggregate replaces the old value (line 15 with alpha = 1)


class FlatModel:
    """All parameters, by name, in one vector; no parameter can be added once it has been read.

    >>> model = FlatModel()
    >>> model.add("w", np.zeros((2, 3)))
    >>> model.add("mean", np.ones(3), moving_average=False)
    >>> model.vector
    array([0., 0., 0., 0., 0., 0., 1., 1., 1.], dtype=float32)
    >>> model.places["mean"][:2], model.replaced
    ((6, 9), [(6, 9)])
    """

    def __init__(self) -> None:
        self.places: Dict[str, Place] = {}
        self.size = 0
        self._initial: List[np.ndarray] = []

    def add(self, key: str, value: np.ndarray, moving_average: bool = True) -> None:
        """Append a copy of a parameter's initial value."""
        if key in self.places:
            raise ConfigError(f"key {key!r} is initialised already")
        if "vector" in vars(self):
            raise ConfigError(f"key {key!r} comes too late: the server is in use already")
        start, self.size = self.size, self.size + value.size
        self.places[key] = Place(start, self.size, value.shape, moving_average)
        self._initial.append(np.array(value, np.float32).reshape(-1))

    @functools.cached_property
    def vector(self) -> np.ndarray:
        """The values, (size,) float32; at first the initial ones."""
        initial, self._initial = self._initial, []
        return np.concatenate([np.empty(0, np.float32), *initial])

    @property
    def replaced(self) -> List[Range]:
        """The ranges in which the aggregate replaces the old value."""
        return [(p.start, p.stop) for p in self.places.values() if not p.moving_average]

    def check_key(self, key: str) -> None:
        if key not in self.places:
            known = ", ".join(sorted(self.places)) or "none yet"
            raise ConfigError(f"key {key!r} was not initialised; known: {known}")

    def split(self, vector: np.ndarray) -> Dict[str, np.ndarray]:
        """The parameters in a vector of this model's size, as views of its memory."""
        return {key: vector[p.start : p.stop].reshape(p.shape) for key, p in self.places.items()}


def moving_average(x: np.ndarray, aggregate: np.ndarray, alpha: float) -> None:
    """Line 15, in place: ``x_t = (1 - alpha) x_{t-1} + alpha x'_t``; overwrites ``aggregate``."""
    if alpha == 1.0:  # exactly x'_t, even where x_{t-1} is not finite
        x[...] = aggregate
        return
    np.multiply(x, np.float32(1.0 - alpha), out=x)
    np.multiply(aggregate, np.float32(alpha), out=aggregate)
    np.add(x, aggregate, out=x)


def all_finite(array: np.ndarray) -> bool:
    """Whether there is no NaN and no infinity (either would show in the minimum or maximum)."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


class Shard:
    """The part of the flat model that one server holds, with k slots for pushes to it.

    ``value``, (d,) float32, is updated in place; in the ranges ``replaced`` whatever alpha is.  It
    consists of whole blocks of the flat model, from block ``first`` and coordinate ``offset`` on.
    Besides the k slots there are ``extra`` rows for what colluding attackers ask for: slot k + s is
    what the worker of slot s started from, slot 2k is the task's target.  If the rows are in a
    file, they are visited block by block, so that only a part of them is in memory.
    """

    def __init__(
        self,
        value: np.ndarray,
        k: int,
        replaced: Sequence[Range] = (),
        blocks: Optional[Sequence[Range]] = None,
        first: int = 0,
        offset: int = 0,
        memory: Optional[SlotMemory] = None,
        extra: int = 0,
    ) -> None:
        self.value, self.replaced, self.k, self.offset = value, list(replaced), k, offset
        self.blocks = divide(value.size) if blocks is None else list(blocks)
        self.first = first
        self._memory = memory or SlotMemory()
        self.slots = self._memory.zeros(k, value.size)  # (k, d)
        self._extra = self._memory.zeros(extra, value.size)

    def row(self, slot: int) -> np.ndarray:
        """The memory of a slot, (d,)."""
        return self.slots[slot] if slot < self.k else self._extra[slot - self.k]

    def release(self) -> None:
        """Take rows that are in a file out of this process's memory."""
        self._memory.release()

    def visit(self, parts: Iterable[T]) -> Iterator[T]:
        """Yield parts of the work one by one; rows in a file leave the memory after each."""
        for part in parts:
            yield part
            self.release()

    def is_finite(self, slot: int) -> bool:
        (row,) = self.parts([slot], (0, self.value.size))
        finite = all_finite(row)
        self.release()
        return finite

    def parts(self, slots: Sequence[int], block: Range) -> List[np.ndarray]:
        """The values of slots on one block, as views."""
        parts = [self.row(slot)[slice(*block)] for slot in slots]
        self._memory.read_ahead(parts)
        return parts

    def grams(self, slots: Sequence[int]) -> Iterator[np.ndarray]:
        """For each block, the inner products of the updates in these slots; float64 (k, k)."""
        for block in self.visit(self.blocks):
            yield block_gram(self.parts(slots, block), self.value[slice(*block)])

    def kept(
        self, slots: Sequence[int], rule: str, b: int, matrix: Optional[np.ndarray], stride: int
    ) -> Iterator[np.ndarray]:
        """For each block, how many of its sampled coordinates the rule used, and of each push.

        float64 (1 + rows,); every ``stride``-th coordinate of the flat model is sampled.
        """
        chosen = find_rule(rule)
        for start, stop in self.visit(self.blocks):
            part = slice(-(self.offset + start) % stride, None, stride)
            rows = [row[part] for row in self.parts(slots, (start, stop))]
            size, previous = rows[0].size, self.value[start:stop][part]
            used = chosen.kept(rows, previous, b, matrix) if size else 0.0
            known = np.zeros(1 + (len(slots) if matrix is None else len(matrix)))
            known[0], known[1:] = size, used
            yield known

    def update(
        self,
        accepted: Sequence[int],
        rule: str,
        b: int,
        alpha: float,
        matrix: Optional[np.ndarray] = None,
        stream: Optional[Stream] = None,
    ) -> None:
        """Aggregate the accepted slots (line 14) and apply the moving average (line 15).

        ``matrix`` mixes the pushes first; ``stream(block)`` is the rule's random stream.
        """
        aggregate, chosen = np.empty(self.value.size, np.float32), find_rule(rule)
        draws = stream is not None and chosen.rule.entry.random
        if chosen.whole:
            parts = [(0, self.value.size)]
        else:
            parts = self.blocks if draws else self._ranges(len(accepted))
        for number, block in enumerate(self.visit(parts), start=self.first):
            part, rng = slice(*block), stream(number) if draws else None
            rows = self.parts(accepted, block)
            chosen.aggregate(rows, self.value[part], b, aggregate[part], matrix, rng)
        kept = [(start, stop, aggregate[start:stop].copy()) for start, stop in self.replaced]
        moving_average(self.value, aggregate, alpha)
        for start, stop, replacement in kept:
            self.value[start:stop] = replacement

    def _ranges(self, rows: int) -> List[Range]:
        """The whole shard; if rows are in a file, ranges of which ``rows`` rows fit into memory."""
        size = self.value.size
        width = max(64, RESIDENT // (4 * rows)) if self._memory.mapped else max(1, size)
        return [(start, min(start + width, size)) for start in range(0, size, width)]


def cut(ranges: Sequence[Range], within: Range) -> List[Range]:
    """The parts of ranges that lie inside another range, relative to its start.

    >>> cut([(0, 4), (6, 9)], within=(3, 7))
    [(0, 1), (3, 4)]
    """
    low, high = within
    parts = [(max(start, low) - low, min(stop, high) - low) for start, stop in ranges]
    return [(start, stop) for start, stop in parts if start < stop]
