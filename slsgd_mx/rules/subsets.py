"""Rules that choose the best of all subsets of k-b pushes: minimum diameter, minimum variance."""

from __future__ import annotations

import math
from itertools import combinations, islice
from typing import Callable, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from slsgd_mx.registry import Value
from slsgd_mx.rules.gram import centred, finite_pushes, mean_of, squared_distances
from slsgd_mx.rules.rule import RuleContext, needs_majority

MOST = 10**6  # subsets
BATCH = 2048  # subsets at a time, at most
CELLS = 2**22  # of their matrices, at most


def needs_few_subsets(k: int, b: int, parameters: Mapping[str, Value]) -> Optional[str]:
    """2b < k, and no more than a million subsets.

    >>> needs_few_subsets(24, 11, {})
    'at most 1,000,000 subsets of k-b pushes, and there are 2,496,144'
    """
    count = math.comb(k, b)
    if 2 * b < k and count > MOST:
        return f"at most {MOST:,} subsets of k-b pushes, and there are {count:,}"
    return needs_majority(k, b, parameters)


def mda(gram: np.ndarray, context: RuleContext) -> np.ndarray:
    """The mean of the (k-b)-subset with the smallest diameter."""
    squares = squared_distances(gram)

    def diameters(subsets: np.ndarray) -> np.ndarray:
        return squares[subsets[:, :, None], subsets[:, None, :]].max(axis=(1, 2))

    return _best_subset(gram, context, diameters)


def smea(gram: np.ndarray, context: RuleContext) -> np.ndarray:
    """The mean of the (k-b)-subset whose covariance has the smallest largest eigenvalue.

    Eigenvalues that differ by less than a billionth are equal but for rounding.
    """

    def variances(subsets: np.ndarray) -> np.ndarray:
        inner = gram[subsets[:, :, None], subsets[:, None, :]]
        largest = np.linalg.eigvalsh(centred(inner))[:, -1]  # the covariance's, times k-b
        return np.maximum(largest, 0.0)  # rounding may make it negative

    return _best_subset(gram, context, variances, slack=1e-9)


def _best_subset(
    gram: np.ndarray,
    context: RuleContext,
    measure: Callable[[np.ndarray], np.ndarray],
    slack: float = 0.0,
) -> np.ndarray:
    """The mean of the finite subset of least measure; ties go to the lexicographically first.

    ``slack`` is the largest relative difference of two measures that count as equal.
    """
    finite, size = finite_pushes(gram), context.k - context.b
    if len(finite) <= size:
        return mean_of(context.k, finite)
    records: List[Tuple[float, np.ndarray]] = []  # subsets that are better than all before them
    for subsets in _subsets(finite, size):
        measures = measure(subsets)
        before = np.minimum.accumulate([records[-1][0] if records else np.inf, *measures])[:-1]
        records += [(measures[i], subsets[i]) for i in np.flatnonzero(measures < before)]
    limit = records[-1][0] * (1 + slack)
    return mean_of(context.k, next(subset for found, subset in records if found <= limit))


def _subsets(slots: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """All subsets of a size in lexicographic order, as arrays (n, size)."""
    every, most = combinations(slots.tolist(), size), max(1, min(BATCH, CELLS // size**2))
    while True:
        batch = np.array(list(islice(every, most)), np.intp)
        if not len(batch):
            return
        yield batch
