"""Steps before a rule that average pushes: nearest-neighbour mixing and bucketing.

A push that is not finite is left out of every mean.  A row of which nothing is left becomes the
mean of all finite pushes: it replaces a bad push by something harmless.
"""

from __future__ import annotations

from typing import Mapping, Sequence

import numpy as np

from slsgd_mx.registry import Value, whole
from slsgd_mx.rules.gram import finite_pushes, mean_of, squared_distances
from slsgd_mx.rules.rule import RuleContext

BUCKETING = {"s": whole(2)}


def nnm(gram: np.ndarray, context: RuleContext) -> np.ndarray:
    """x_i becomes the mean of its k-b nearest pushes, itself included (Allouah et al. 2023)."""
    squares = squared_distances(gram)
    np.fill_diagonal(squares, -1.0)  # a push is nearer to itself than one equal to it
    nearest = np.argsort(squares, axis=1, kind="stable")[:, : context.k - context.b]
    finite = set(finite_pushes(gram))
    return _means(gram, [row if i in finite else () for i, row in enumerate(nearest)])


def bucketing(gram: np.ndarray, context: RuleContext) -> np.ndarray:
    """Means of random groups of s pushes; the last group may be smaller (Karimireddy 2022)."""
    order, s = context.rng.permutation(context.k), context.parameters["s"]
    return _means(gram, [order[start : start + s] for start in range(0, context.k, s)])


def bucket_count(k: int, parameters: Mapping[str, Value]) -> int:
    """The number of groups, ceil(k/s)."""
    return -(-k // parameters["s"])


def _means(gram: np.ndarray, groups: Sequence[Sequence[int]]) -> np.ndarray:
    """One row of weights for each group."""
    k, finite = len(gram), finite_pushes(gram)
    left = [np.intersect1d(np.asarray(group, np.intp), finite) for group in groups]
    return np.array([mean_of(k, slots if len(slots) else finite) for slots in left])
