"""Coordinate-wise rules that average the values nearest to a centre (Xie et al. 2018).

The k values of a coordinate are sorted by the trimmed mean's comparator network.  The m values
nearest to a centre c are then consecutive ranks s, ..., s+m-1: rank s+m replaces rank s as long as
it is nearer to c, ``u_{s+m} - c < c - u_s``.  Ties keep the smaller value.
"""

from __future__ import annotations

from typing import List

import numpy as np

from slsgd_mx.rules.compiled import mean_of_ranks
from slsgd_mx.rules.rule import Rows, RuleContext
from slsgd_mx.rules.trimmed_mean import (
    by_chunks,
    kept_between,
    mean_in_order,
    rank_chunk,
    sum_in_order,
)


def mean_around_median(rows: Rows, context: RuleContext, out: np.ndarray) -> None:
    """Per coordinate, the mean of the k-b values nearest to the median."""
    k = len(rows)
    mean_nearest(rows, (k - 1) // 2, k - context.b, out)


def phocas(rows: Rows, context: RuleContext, out: np.ndarray) -> None:
    """Per coordinate, the mean of the k-b values nearest to Trmean_b."""
    mean_nearest(rows, context.b, len(rows) - context.b, out)


def kept_around_median(rows: Rows, context: RuleContext) -> np.ndarray:
    k = len(rows)
    return kept_near(rows, (k - 1) // 2, k - context.b)


def kept_by_phocas(rows: Rows, context: RuleContext) -> np.ndarray:
    return kept_near(rows, context.b, len(rows) - context.b)


def kept_near(rows: Rows, trimmed: int, m: int) -> np.ndarray:
    """On how many coordinates each row is among the m values nearest to Trmean_trimmed, (k,).

    >>> kept_near([np.array([x], np.float32) for x in (0, 1, 2, 9)], 1, 3).tolist()
    [1.0, 1.0, 1.0, 0.0]
    """
    ranked = np.array([np.where(np.isnan(row), np.inf, row) for row in rows], np.float64)
    ranked.sort(axis=0)
    k = len(ranked)
    with np.errstate(invalid="ignore"):  # inf - inf, where it is not decided anyway
        twice = 2.0 * ranked[trimmed : k - trimmed].mean(axis=0)
        start = sum((ranked[s] + ranked[s + m] < twice).astype(int) for s in range(k - m))
    return kept_between(rows, start, start + m)


def mean_nearest(rows: Rows, trimmed: int, m: int, out: np.ndarray) -> None:
    """Write the mean of the m values nearest to Trmean_trimmed into ``out``, by coordinate.

    >>> out = np.empty(1, np.float32)
    >>> mean_nearest([np.array([x], np.float32) for x in (0, 1, 2, 9)], 1, 3, out)
    >>> out  # the centre is 1.5, and 9 is the farthest value
    array([1.], dtype=float32)
    """
    if m > 0 and mean_of_ranks(rows, trimmed, m, out):
        return

    def near_chunk(part: List[np.ndarray], scratch: np.ndarray) -> np.ndarray:
        return mean_in_order(_nearest(rank_chunk(part, 0, scratch), trimmed, m))

    by_chunks(rows, out, near_chunk)


def _nearest(ranked: List[np.ndarray], trimmed: int, m: int) -> List[np.ndarray]:
    """The m values nearest to the centre; the sorted chunks are overwritten.

    ``u_s + u_{s+m} < 2c`` holds for the first few s only, because the left side grows with s.  Both
    sides are multiplied by the number of values that c averages, so that sums of float32 values are
    compared: float64 holds them exactly unless they differ by nine orders of magnitude.
    """
    k, count = len(ranked), len(ranked) - 2 * trimmed
    twice = sum_in_order(ranked[trimmed : k - trimmed])
    twice *= 2.0
    pair = np.empty_like(twice)
    for s in range(k - m):
        np.add(ranked[s], ranked[s + m], out=pair, dtype=np.float64)
        pair *= count
        np.copyto(ranked[s % m], ranked[s + m], where=pair < twice)
    return ranked[:m]
