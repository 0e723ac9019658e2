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

CHUNK = 16384  # coordinates at a time: what is converted to float64 stays in the cache


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
        return bool(self.before) or self.rule.entry.uses_b

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
                name = choice.name.replace("-", " ")
                which = f"k={k}" if rows == k else f"the {rows} rows that are left of k={k}"
                return f"b={b} is out of range for {which}: {name} needs {needs}"
            if isinstance(choice.entry, PreAggregation):
                rows = choice.entry.rows(rows, choice.parameters)
        return None

    def check(self, k: int, b: int) -> None:
        """Raise a ConfigError if it cannot aggregate k pushes with this b."""
        if k < 1:
            raise ConfigError(f"k={k} is out of range: needs at least 1 model")
        if isinstance(b, bool) or not isinstance(b, (int, np.integer)) or b < 0:
            raise ConfigError(f"b={b!r} must be an integer count with 0 <= b <= {(k - 1) // 2}")
        reason = self.obstacle(k, b)
        if reason:
            raise ConfigError(reason)

    def mixing(self, gram: np.ndarray, b: int, seed: int, t: int) -> np.ndarray:
        """The matrix M (m, k) that mixes the pushes of epoch t."""
        gram = mark_nonfinite(gram)
        matrix = np.eye(len(gram))
        for place, choice in enumerate((*self.before, self.rule)):
            if choice.entry.mix is None:
                break
            rng = stream(seed, f"rule-{place}", t)
            context = RuleContext(len(matrix), b, choice.parameters, rng=rng)
            mixed = mark_nonfinite(_gram_of(matrix, gram))
            step = np.atleast_2d(choice.entry.mix(mixed, context)).astype(np.float64)
            if step.ndim != 2 or step.shape[1] != len(matrix) or not np.isfinite(step).all():
                raise ConfigError(
                    f"{choice.name} returned weights of shape {step.shape}: needs finite numbers "
                    f"of shape (m, {len(matrix)})"
                )
            matrix = step @ matrix
        return matrix

    def combine(
        self, rows: Rows, previous: np.ndarray, b: int, seed: int = 0, t: int = 0
    ) -> np.ndarray:
        """The aggregate of whole models (d,), exactly as a server computes it."""
        matrix = None
        if self.mixes:
            grams = (
                block_gram([row[start:stop] for row in rows], previous[start:stop])
                for start, stop in blocks(previous.size)
            )
            matrix = self.mixing(add_in_order(grams), b, seed, t)
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
        if matrix is not None and entry.aggregate is None:
            mix_rows(matrix, rows, previous, [out])
            return
        if matrix is not None:
            mixed = np.empty((len(matrix), out.size), np.float32)
            mix_rows(matrix, rows, previous, mixed)
            rows = list(mixed)
        context = RuleContext(len(rows), b, self.rule.parameters, previous, rng)
        entry.aggregate(rows, context, out)


def find_rule(text: str) -> Pipeline:
    """The rule that a text names, with its pre-aggregations; a ConfigError if there is none.

    >>> find_rule("trimmed-mean").text
    'trimmed-mean'
    """
    if not isinstance(text, str):
        raise ConfigError(f"rule={text!r} is not a text: write NAME:key=value,...")
    *before, last = text.split("+")
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
            np.subtract(row, base, out=update)
        return updates @ updates.T


def mix_rows(matrix: np.ndarray, rows: Rows, previous: np.ndarray, out: Rows) -> None:
    """Write the rows ``M x + (1 - sum of M's row) x_{t-1}`` into ``out``, summed in float64.

    A weight of 0 excludes a push, whatever its values are; weights (0, .., 1, .., 0) copy one.
    """
    size = previous.size
    total, term = np.empty(min(CHUNK, size)), np.empty(min(CHUNK, size))
    for weights, target in zip(matrix, out):
        rest = 1.0 - weights.sum()
        terms = [(w, row) for w, row in zip(weights, rows) if w != 0.0]
        terms += [(rest, previous)] if abs(rest) > 1e-12 else []
        for start in range(0, size, CHUNK):
            part = slice(start, min(start + CHUNK, size))
            n = part.stop - part.start
            total[:n] = 0.0
            for weight, row in terms:
                np.multiply(row[part], weight, out=term[:n])
                np.add(total[:n], term[:n], out=total[:n])
            target[part] = total[:n]


def _gram_of(matrix: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """M G M^T; a mixed row is marked as not finite if it contains a push that is not."""
    bad = np.isnan(np.diag(gram))
    clean = np.where(np.isnan(gram), 0.0, gram)
    mixed = matrix @ clean @ matrix.T
    touched = (matrix[:, bad] != 0).any(axis=1)
    mixed[touched] = mixed[:, touched] = np.nan
    return mixed
