"""Clipping of updates u_i = x_i - x_{t-1}: centered clipping, and clip and arc before a rule.

An update that is not finite has no direction: it counts as the zero update.
"""

from __future__ import annotations

import numpy as np

from slsgd_mx.registry import number, whole
from slsgd_mx.rules.gram import finite_pushes, lengths, squared_distances_from
from slsgd_mx.rules.rule import RuleContext

CENTERED = {"tau": number(10.0, above=0), "iterations": whole(1)}
CLIP = {"c": number(2.0, above=0)}


def centered_clipping(gram: np.ndarray, context: RuleContext) -> np.ndarray:
    """v = x_{t-1}; ``iterations`` times v += mean of (x_i - v) min(1, tau / |x_i - v|).

    (Karimireddy et al. 2021.)  v - x_{t-1} is a weighted sum of updates all along.
    """
    weights, finite = np.zeros(context.k), finite_pushes(gram)
    inner, v = gram[np.ix_(finite, finite)], np.zeros(len(finite))
    for _ in range(context.parameters["iterations"]):
        factors = scale_down(np.sqrt(squared_distances_from(inner, v)), context.parameters["tau"])
        v = v + (factors - factors.sum() * v) / context.k
    weights[finite] = v
    return weights


def clip(gram: np.ndarray, context: RuleContext) -> np.ndarray:
    """Updates longer than c are scaled down to length c."""
    return np.diag(scale_down(lengths(gram), context.parameters["c"]))


def arc(gram: np.ndarray, context: RuleContext) -> np.ndarray:
    """The floor(2b(k-b)/k) longest updates are scaled down to the next longest (Allouah 2024)."""
    k, b, norms = context.k, context.b, lengths(gram)
    cut = 2 * b * (k - b) // k
    return np.diag(scale_down(norms, np.sort(norms)[k - cut - 1]))


def scale_down(norms: np.ndarray, most: float) -> np.ndarray:
    """Factors that make lengths at most ``most``; 0 for infinite ones.

    >>> scale_down(np.array([0.0, 1.0, 4.0, np.inf]), 2.0)
    array([1. , 1. , 0.5, 0. ])
    """
    finite = np.isfinite(norms)
    factors = finite.astype(np.float64)
    longer = finite & (norms > most)
    factors[longer] = most / norms[longer]
    return factors
