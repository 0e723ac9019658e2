"""Krum (Blanchard et al. 2017), Multi-Krum, and Bulyan (El Mhamdi et al. 2018) on Krum."""

from __future__ import annotations

from typing import Mapping, Optional

import numpy as np

from slsgd_mx.registry import Value
from slsgd_mx.rules.gram import finite_pushes, mean_of, squared_distances
from slsgd_mx.rules.medians import kept_near, mean_nearest
from slsgd_mx.rules.rule import Rows, RuleContext


def needs_krum(k: int, b: int, parameters: Mapping[str, Value]) -> Optional[str]:
    """2b+2 < k.

    >>> needs_krum(10, 4, {})
    '2b + 2 < k, so 0 <= b <= 3'
    """
    if 2 * b + 2 < k:
        return None
    return f"2b + 2 < k, so 0 <= b <= {(k - 3) // 2}" if k >= 3 else "2b + 2 < k, so k >= 3"


def needs_multi_krum(k: int, b: int, parameters: Mapping[str, Value]) -> Optional[str]:
    """2b+2 < k and 1 <= m <= k-b.

    >>> needs_multi_krum(10, 2, {"m": 9})
    '1 <= m <= k - b = 8'
    """
    m = parameters["m"]
    if 2 * b + 2 < k and m is not None and m > k - b:
        return f"1 <= m <= k - b = {k - b}"
    return needs_krum(k, b, parameters)


def needs_bulyan(k: int, b: int, parameters: Mapping[str, Value]) -> Optional[str]:
    """k >= 4b+3.

    >>> needs_bulyan(10, 2, {})
    'k >= 4b + 3, so 0 <= b <= 1'
    """
    if k >= 4 * b + 3:
        return None
    return f"k >= 4b + 3, so 0 <= b <= {(k - 3) // 4}" if k >= 3 else "k >= 4b + 3, so k >= 3"


def krum_scores(squares: np.ndarray, neighbours: int) -> np.ndarray:
    """The sum of the squared distances of each push to its nearest others; (k, k) -> (k,).

    >>> krum_scores(np.array([[0.0, 1, 9], [1, 0, 4], [9, 4, 0]]), 1)
    array([1., 1., 4.])
    """
    others = squares.copy()
    np.fill_diagonal(others, np.inf)
    return np.sort(others, axis=1)[:, :neighbours].sum(axis=1)  # in the order of their size


def krum(gram: np.ndarray, context: RuleContext) -> np.ndarray:
    """The push with the smallest sum of squared distances to its k-b-2 nearest others."""
    return _best(gram, context.b, 1)


def multi_krum(gram: np.ndarray, context: RuleContext) -> np.ndarray:
    """The mean of the m pushes with the smallest Krum scores."""
    return _best(gram, context.b, context.parameters["m"] or context.k - context.b)


def _best(gram: np.ndarray, b: int, m: int) -> np.ndarray:
    """The mean of the m finite pushes with the smallest scores; ties go to the lowest slot."""
    k, finite = len(gram), finite_pushes(gram)
    scores = krum_scores(squared_distances(gram), k - b - 2)[finite]
    return mean_of(k, finite[np.argsort(scores, kind="stable")[:m]])


def bulyan_picks(gram: np.ndarray, context: RuleContext) -> np.ndarray:
    """k-2b picks by repeated Krum among the r remaining pushes, as rows (k-2b, k) of 0 and 1.

    Krum's r-b-2 neighbours are at least 1 and at most r-1.
    """
    k, b = context.k, context.b
    squares, finite = squared_distances(gram), set(finite_pushes(gram))
    remaining, picks = list(range(k)), []
    while len(picks) < k - 2 * b and finite:
        r = len(remaining)
        neighbours = min(max(1, r - b - 2), r - 1)
        scores = krum_scores(squares[np.ix_(remaining, remaining)], neighbours)
        legal = [place for place, slot in enumerate(remaining) if slot in finite]
        picked = remaining.pop(min(legal, key=scores.__getitem__))  # the first of equal scores
        finite.remove(picked)
        picks.append(mean_of(k, [picked]))
    return np.array(picks) if picks else np.zeros((1, k))


def kept_by_bulyan(rows: Rows, context: RuleContext) -> np.ndarray:
    theta = len(rows)
    return kept_near(rows, (theta - 1) // 2, max(1, theta - 2 * context.b))


def bulyan(rows: Rows, context: RuleContext, out: np.ndarray) -> None:
    """Per coordinate, the mean of the theta-2b values nearest to the median of theta picks."""
    theta = len(rows)
    mean_nearest(rows, (theta - 1) // 2, max(1, theta - 2 * context.b), out)
