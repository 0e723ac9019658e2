"""What follows from the Gram matrix G of the updates: lengths, distances and weights of means.

NaN in a row and column of G marks a push that is not finite: it is infinitely far from every other
push and gets weight 0.
"""

from __future__ import annotations

from typing import Optional, Sequence

import numpy as np


def finite_pushes(gram: np.ndarray) -> np.ndarray:
    """The slots of the finite pushes, ascending."""
    return np.flatnonzero(~np.isnan(np.diag(gram)))


def squared_distances(gram: np.ndarray) -> np.ndarray:
    """``|x_i - x_j|^2 = G_ii + G_jj - 2 G_ij``, at least 0; infinite if i or j is not finite.

    >>> squared_distances(np.array([[4.0, 2, np.nan], [2, 1, np.nan], [np.nan] * 3]))
    array([[ 0.,  1., inf],
           [ 1.,  0., inf],
           [inf, inf, inf]])
    """
    lengths = np.diag(gram)
    squares = np.maximum(lengths[:, None] + lengths[None, :] - 2.0 * gram, 0.0)
    return np.where(np.isnan(squares), np.inf, squares)


def squared_distances_from(gram: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``|u_i - sum_j w_j u_j|^2`` of the finite updates u_i, from their Gram matrix; (k,)."""
    towards = gram @ weights
    return np.maximum(np.diag(gram) - 2.0 * towards + weights @ towards, 0.0)


def lengths(gram: np.ndarray) -> np.ndarray:
    """The lengths of the updates; infinite where a push is not finite."""
    squares = np.diag(gram)
    return np.sqrt(np.where(np.isnan(squares), np.inf, np.maximum(squares, 0.0)))


def centred(gram: np.ndarray, weights: Optional[np.ndarray] = None) -> np.ndarray:
    """Inner products of the differences from the (weighted) mean; (..., n, n).

    >>> centred(np.array([[4.0, 2], [2, 1]]))
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    if weights is None:
        weights = np.full(gram.shape[-1], 1.0 / gram.shape[-1])
    rows = gram @ weights
    return gram - rows[..., :, None] - rows[..., None, :] + (rows @ weights)[..., None, None]


def mean_of(k: int, chosen: Sequence[int]) -> np.ndarray:
    """The weights (k,) of the mean of some pushes; all 0, which leaves x_{t-1}, if there are none.

    >>> mean_of(4, [0, 2])
    array([0.5, 0. , 0.5, 0. ])
    """
    weights = np.zeros(k)
    if len(chosen):
        weights[np.asarray(chosen)] = 1.0 / len(chosen)
    return weights
