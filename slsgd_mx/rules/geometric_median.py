"""The geometric median by smoothed Weiszfeld iterations (RFA, Pillutla et al. 2022)."""

from __future__ import annotations

import numpy as np

from slsgd_mx.registry import number, whole
from slsgd_mx.rules.gram import finite_pushes, squared_distances_from
from slsgd_mx.rules.rule import RuleContext

EPSILON = np.finfo(np.float64).eps
PARAMETERS = {
    "nu": number(1e-6, least=1e-100),
    "iterations": whole(100),
    "tolerance": number(1e-6, least=0),
}


def geometric_median(gram: np.ndarray, context: RuleContext) -> np.ndarray:
    """The minimiser of sum |z - x_i|, starting from the mean: w_i = 1 / max(nu, |z - x_i|).

    It ends when a step is shorter than ``tolerance`` times the harmonic mean of the distances
    max(nu, |z - x_i|), which is the length of the gradient of the mean distance.  Unlike a step
    relative to |z|, that does not depend on the origin, nor on one push that is far away.  Far
    pushes on opposite sides cancel in a step, whose length then is rounding: it does not end there.
    """
    nu, tolerance = context.parameters["nu"], context.parameters["tolerance"]
    weights, finite = np.zeros(context.k), finite_pushes(gram)
    if not len(finite):
        return weights
    inner = gram[np.ix_(finite, finite)]
    lengths = np.sqrt(np.diag(inner))
    z = np.full(len(finite), 1.0 / len(finite))
    for _ in range(context.parameters["iterations"]):
        pull = 1.0 / np.maximum(nu, np.sqrt(squared_distances_from(inner, z)))
        step = pull / pull.sum() - z
        z = z + step
        rounding = EPSILON * (np.abs(step) @ lengths) ** 2
        moved = np.sqrt(max(0.0, step @ inner @ step) + rounding)
        if moved * pull.mean() < tolerance:
            break
    weights[finite] = z
    return weights
