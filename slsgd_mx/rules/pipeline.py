"""A chosen rule with what comes before it, such as ``bucketing:s=2+nnm+krum``.

Pre-aggregations, and rules of the mixing kind, are matrices M (m, k) that follow from the Gram
matrix G of the updates; the mixed rows have the Gram matrix M G M^T, so the steps compose without
touching the vectors.  The vectors are read once to compute G and once to mix them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, List, Optional, Tuple

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.plugins import Source
from slsgd_mx.randomness import stream
from slsgd_mx.registry import Choice
from slsgd_mx.rules import PRE_AGGREGATIONS, RULES
from slsgd_mx.rules.rule import PreAggregation, Rows, Rule, RuleContext

CHUNK = 16384  # mixed coordinates that a rule is given at a time
SAMPLE = 65536  # coordinates on which it is recorded whose values a rule used


def sampled(size: int, k: int) -> int:
    """The distance between two sampled coordinates of a flat model; fewer for very many pushes."""
    return max(1, -(-size // min(SAMPLE, max(64, 10**9 // (k * k)))))


@dataclass(frozen=True)
class Pipeline:
    """Pre-aggregations and the rule that follows them."""

    before: Tuple[Choice[PreAggregation], ...]
    rule: Choice[Rule]

    @property
    def text(self) -> str:
        """The canonical form, which configurations contain."""
        return "+".join(choice.text for choice in (*self.before, self.rule))

    @property
    def sources(self) -> List[Source]:
        """The plug-ins that it comes from."""
        return [c.source for c in (*self.before, self.rule) if c.source is not None]

    @property
    def uses_b(self) -> bool:
        return any(choice.entry.uses_b for choice in (*self.before, self.rule))

    @property
    def uses_previous(self) -> bool:
        """Whether the result depends on x_{t-1}, and not on the pushes alone."""
        return any(choice.entry.uses_previous for choice in (*self.before, self.rule))

    @property
    def mixes(self) -> bool:
        """Whether it needs the Gram matrix of the updates."""
        return bool(self.before) or self.rule.entry.mix is not None

    @property
    def whole(self) -> bool:
        """Whether it needs whole models."""
        return self.rule.entry.whole

    def obstacle(self, k: int, b: int) -> Optional[str]:
        """Why it cannot aggregate k pushes with this b; None if it can."""
        rows = k
        for choice in (*self.before, self.rule):
            needs = "at least 1 push" if k < 1 else choice.entry.legal(rows, b, choice.parameters)
            if needs is not None:
                name, given = choice.name.replace("-", " "), choice.text.partition(":")[2]
                what = f"{given}, b={b}" if given else f"b={b}"
                which = f"k={k}" if rows == k else f"the {rows} rows that are left of k={k}"
                return f"{what} is out of range for {which}: {name} needs {needs}"
            if isinstance(choice.entry, PreAggregation):
                rows = choice.entry.rows(rows, choice.parameters)
        return None

    def check(self, k: int, b: int) -> None:
        """Raise a ConfigError if it cannot aggregate k pushes with this b."""
        if k < 1:
            raise ConfigError(f"k={k} is out of range: needs at least 1 model")
        if isinstance(b, bool) or not isinstance(b, (int, np.integer)) or b < 0:
            raise ConfigError(f"b={b!r} must be an integer count, at least 0")
        reason = self.obstacle(k, b)
        if reason:
            raise ConfigError(reason)

    def mixing(self, gram: np.ndarray, b: int, seed: int, t: int) -> np.ndarray:
        """The matrix M (m, k) that mixes the pushes of epoch t."""
        gram = mark_nonfinite(gram)
        matrix, mixed = np.eye(len(gram)), gram
        for place, choice in enumerate((*self.before, self.rule)):
            if choice.entry.mix is None:
                break
            rng = stream(seed, f"rule-{place}", t)
            context = RuleContext(len(matrix), b, choice.parameters, rng=rng)
            if place:
                mixed = mark_nonfinite(_gram_of(matrix, gram))
            step = np.atleast_2d(choice.entry.mix(mixed, context)).astype(np.float64)
            is_last = choice is self.rule and self.rule.entry.aggregate is None
            m = 1 if is_last else len(step)
            if step.shape != (m, len(matrix)) or not np.isfinite(step).all():
                finite = "" if np.isfinite(step).all() else " that are not all finite"
                raise ConfigError(
                    f"{choice.name} returned weights of shape {step.shape}{finite}: needs finite "
                    f"numbers of shape ({1 if is_last else 'm'}, {len(matrix)})"
                )
            matrix = step @ matrix
        return matrix

    def combine(
        self, rows: Rows, previous: np.ndarray, b: int, seed: int = 0, t: int = 0
    ) -> np.ndarray:
        """The aggregate of whole models (d,), exactly as a server computes it."""
        matrix = None
        if self.mixes:
            matrix = self.mixing(gram_of(rows, previous), b, seed, t)
        out = np.empty(previous.size, np.float32)
        entry = self.rule.entry
        parts = blocks(out.size) if entry.random and not entry.whole else [(0, out.size)]
        for number, (start, stop) in enumerate(parts):
            rng = stream(seed, "rule", t, number) if entry.random else None
            part = [row[start:stop] for row in rows]
            self.aggregate(part, previous[start:stop], b, out[start:stop], matrix, rng)
        return out

    @property
    def tells_kept(self) -> bool:
        """Whether it is known what share of each push it used."""
        return self.rule.entry.aggregate is None or self.rule.entry.kept is not None

    def kept(
        self, rows: Rows, previous: np.ndarray, b: int, matrix: Optional[np.ndarray] = None
    ) -> np.ndarray:
        """On how many coordinates each row, or each mixed row, was used; float64."""
        if matrix is not None:
            mixed = np.empty((len(matrix), previous.size), np.float32)
            mix_rows(matrix, rows, previous, mixed)
            rows = list(mixed)
        context = RuleContext(len(rows), b, self.rule.parameters, previous)
        return self.rule.entry.kept(rows, context)

    def shares(
        self, kept: Optional[np.ndarray], count: int, matrix: Optional[np.ndarray]
    ) -> np.ndarray:
        """How much of each push was used, (k,), from how often in ``count`` coordinates.

        Without mixing, the share of its coordinates; with mixing, its weight relative to the
        largest one.
        """
        if matrix is None:
            return kept / count
        used = np.ones(len(matrix)) if kept is None else kept
        weights = used @ np.abs(matrix)
        return weights / max(weights.max(), 1e-300)

    def aggregate(
        self,
        rows: Rows,
        previous: np.ndarray,
        b: int,
        out: np.ndarray,
        matrix: Optional[np.ndarray] = None,
        rng: Optional[np.random.Generator] = None,
    ) -> None:
        """Write the aggregate of the rows (d,) into ``out`` (d,)."""
        entry = self.rule.entry
        if matrix is not None and entry.aggregate is not None and is_choice(matrix):
            rows, matrix = [rows[i] for i in matrix.argmax(axis=1)], None
        if matrix is None:
            context = RuleContext(len(rows), b, self.rule.parameters, previous, rng)
            entry.aggregate(rows, context, out)
        elif entry.aggregate is None:
            mix_rows(matrix, rows, previous, [out])
        else:
            width = max(1, out.size) if entry.whole or entry.random else CHUNK
            mixed = np.empty((len(matrix), min(width, out.size)), np.float32)
            for start in range(0, out.size, width):
                part = slice(start, min(start + width, out.size))
                few, base = list(mixed[:, : part.stop - start]), previous[part]
                mix_rows(matrix, [row[part] for row in rows], base, few)
                context = RuleContext(len(few), b, self.rule.parameters, base, rng)
                entry.aggregate(few, context, out[part])


def find_rule(text: str) -> Pipeline:
    """The rule that a text names, with its pre-aggregations; a ConfigError if there is none.

    >>> find_rule("trimmed-mean").text
    'trimmed-mean'
    """
    if not isinstance(text, str):
        raise ConfigError(f"rule={text!r} is not a text: write NAME:key=value,...")
    *before, last = text.split("+")
    if last.partition(":")[0] in PRE_AGGREGATIONS or (before and not last):
        after = text.rstrip("+")
        raise ConfigError(f"rule={text!r} lacks the rule after pre-aggregation: write {after}+RULE")
    return Pipeline(tuple(map(PRE_AGGREGATIONS.choose, before)), RULES.choose(last))


def blocks(size: int) -> List[Tuple[int, int]]:
    """The ranges into which a flat model is divided: at most 1024, however many servers there are.

    Sums over coordinates, such as Gram matrices, are computed for each block and added in their
    order, so that any number of servers, which hold whole blocks, gives the same bits.

    >>> blocks(3), len(blocks(2_600_000)), len(blocks(10**9))
    ([(0, 1), (1, 2), (2, 3)], 159, 1024)
    """
    width = max(-(-size // 1024), min(CHUNK, -(-size // 64)), 1)
    return [(start, min(start + width, size)) for start in range(0, size, width)]


def add_in_order(parts: Iterable[np.ndarray]) -> np.ndarray:
    """The sum of arrays, added one after the other."""
    total: Optional[np.ndarray] = None
    with np.errstate(invalid="ignore"):
        for part in parts:
            total = np.array(part, np.float64) if total is None else np.add(total, part, out=total)
    return total


def mark_nonfinite(gram: np.ndarray) -> np.ndarray:
    """A Gram matrix with NaN in the row and column of every push that is not finite."""
    bad = ~np.isfinite(np.diag(gram))
    if not bad.any():
        return gram
    marked = gram.copy()
    marked[bad] = marked[:, bad] = np.nan
    return marked


def block_gram(rows: Rows, previous: np.ndarray) -> np.ndarray:
    """The inner products of the updates x_i - x_{t-1} on one block, float64 (k, k)."""
    updates = np.empty((len(rows), previous.size))
    base = previous.astype(np.float64)
    with np.errstate(invalid="ignore"):
        for update, row in zip(updates, rows):
            update[:] = row  # converted first, which is faster than subtracting mixed types
            update -= base
        return updates @ updates.T


def gram_of(rows: Rows, previous: np.ndarray) -> np.ndarray:
    """The Gram matrix of whole updates: the sum of those of the blocks, in their order."""
    parts = [slice(*block) for block in blocks(previous.size)]
    return add_in_order(block_gram([row[p] for row in rows], previous[p]) for p in parts)


def mix_rows(matrix: np.ndarray, rows: Rows, previous: np.ndarray, out: Rows) -> None:
    """Write the rows ``M x + (1 - sum of M's row) x_{t-1}`` into ``out``, summed in float64.

    A weight of 0 excludes a push, whatever its values are; weights (0, .., 1, .., 0) copy one.
    Every coordinate is computed in the same way, so the bits do not depend on how a model is
    divided into parts (a matrix product would not promise that).
    """
    rest = 1.0 - matrix.sum(axis=1)
    rest[np.abs(rest) <= 1e-12] = 0.0
    weights = np.column_stack([matrix, rest])
    used = np.flatnonzero(weights.any(axis=0))
    sources, weights = [[*rows, previous][i] for i in used], weights[:, used]
    width = max(2048, 2**17 // (len(used) + 1))
    held = np.empty((len(used), min(width, previous.size)))  # float64
    for start in range(0, previous.size, width):
        part = slice(start, min(start + width, previous.size))
        chunk = held[:, : part.stop - start]
        for copy, source in zip(chunk, sources):
            copy[:] = source[part]
        for row, target in zip(weights, out):
            target[part] = _weighted_sum(row, chunk)


def is_choice(matrix: np.ndarray) -> bool:
    """Whether every mixed row is one of the pushes."""
    return bool(np.isin(matrix, (0.0, 1.0)).all() and (matrix.sum(axis=1) == 1.0).all())


def _weighted_sum(weights: np.ndarray, chunk: np.ndarray) -> np.ndarray:
    """The sum of w_i chunk_i in the order of i, over the weights that are not 0."""
    places = np.flatnonzero(weights)
    if not len(places):
        return np.zeros(chunk.shape[1])
    first, *others = places
    if (weights[places] == weights[first]).all():  # a mean: add first, then multiply once
        total = chunk[first].copy() if others else chunk[first] * weights[first]
        for i in others:
            total += chunk[i]
        return total * weights[first] if others else total
    total = chunk[first] * weights[first]
    term = np.empty_like(total)
    for i in others:
        np.multiply(chunk[i], weights[i], out=term)
        total += term
    return total


def _gram_of(matrix: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """M G M^T; a mixed row is marked as not finite if it contains a push that is not."""
    bad = np.isnan(np.diag(gram))
    clean = np.where(np.isnan(gram), 0.0, gram)
    rows, places = np.unique(matrix, axis=0, return_inverse=True)  # equal rows: equal products
    products, places = rows @ clean @ rows.T, places.ravel()
    mixed = (0.5 * (products + products.T))[np.ix_(places, places)]
    touched = (matrix[:, bad] != 0).any(axis=1)
    mixed[touched] = mixed[:, touched] = np.nan
    return mixed
