"""The covariance-bound agnostic filter (Allouah et al. 2025)."""

from __future__ import annotations

from typing import Tuple

import numpy as np

from slsgd_mx.rules.gram import centred, finite_pushes, mean_of
from slsgd_mx.rules.rule import RuleContext

SAME = 1e-9  # relative difference of projections that are equal but for rounding


def caf(gram: np.ndarray, context: RuleContext) -> np.ndarray:
    """Down-weight pushes along the direction of largest variance; keep the mean of least variance.

    While sum c > k-2b, and at least once: c_i *= 1 - tau_i / max tau, where tau_i is the squared
    projection of x_i minus the weighted mean on the top eigenvector of the weighted covariance.
    Projections that differ by rounding, as those of equal pushes do, are equal to the largest.
    """
    k, b, finite = context.k, context.b, finite_pushes(gram)
    c = np.zeros(k)
    c[finite] = 1.0
    least, best = np.inf, mean_of(k, finite)
    while c.any():
        left = np.flatnonzero(c)
        weights = c[left] / c[left].sum()
        variance, tau = top_direction(gram[np.ix_(left, left)], weights)
        if variance < least:
            least, best = variance, np.zeros(k)
            best[left] = weights
        if variance <= 0.0:
            break
        share = tau / tau.max()
        c[left] *= np.where(share > 1.0 - SAME, 0.0, 1.0 - share)
        if c.sum() <= k - 2 * b:
            break
    return best


def top_direction(gram: np.ndarray, weights: np.ndarray) -> Tuple[float, np.ndarray]:
    """The largest eigenvalue of the weighted covariance, and the squared projections on its vector.

    With C the centred Gram matrix and W the diagonal matrix of the weights, the eigenvalues of the
    covariance are those of W^(1/2) C W^(1/2); if v is a unit eigenvector of it with the eigenvalue
    lambda, the squared projection of x_i minus the mean is ``lambda v_i^2 / w_i``.

    >>> variance, squares = top_direction(np.diag([4.0, 0.0]), np.array([0.5, 0.5]))
    >>> round(variance, 9), squares.round(9)  # of (2, 0) and (0, 0)
    (1.0, array([1., 1.]))
    """
    roots = np.sqrt(weights)
    values, vectors = np.linalg.eigh(roots[:, None] * centred(gram, weights) * roots)
    return float(values[-1]), values[-1] * (vectors[:, -1] / roots) ** 2
