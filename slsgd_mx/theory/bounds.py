"""The paper's bounds as functions, and the constants its O() hides, worked out from the proof.

Symbols are the paper's.  ``V_2`` here is the largest ``|x_{t,h}^i - x_*|^2`` including the pushes
(h = H): the proof uses them, although the paper's definition of V_2 leaves them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

import numpy as np


def contraction(gamma: float, steps: int) -> float:
    """``(1 - gamma/2)^H``: the share of the error that H local steps leave, apart from the floor.

    >>> contraction(0.5, 2)
    0.5625
    """
    return (1.0 - gamma / 2.0) ** steps


def rate(alpha: float, gamma: float, h_min: int) -> float:
    """``1 - alpha + alpha (1 - gamma/2)^H_min``, the factor of one epoch.

    >>> rate(0.5, 0.5, 2)
    0.78125
    """
    return 1.0 - alpha + alpha * contraction(gamma, h_min)


def decay(alphas: Sequence[float], gamma: float, h_min: int) -> np.ndarray:
    """The product of the rates of epochs 1..t, for t = 0..T; (T+1,).

    >>> decay([1.0, 0.5], 0.5, 2).tolist()
    [1.0, 0.5625, 0.439453125]
    """
    rates = [rate(alpha, gamma, h_min) for alpha in alphas]
    return np.concatenate([[1.0], np.cumprod(rates)])


def bound(first: float, floor: float, left: np.ndarray) -> np.ndarray:
    """``left [F(x_0) - F(x_*)] + (1 - left) floor``: Theorems 1 and 2.

    >>> bound(8.0, 2.0, np.array([1.0, 0.5, 0.0])).tolist()
    [8.0, 5.0, 2.0]
    """
    return left * first + (1.0 - left) * floor


def fitted_floor(errors: Sequence[float], left: np.ndarray) -> float:
    """The least floor with which the bound holds: ``max_t (e_t - left_t e_0) / (1 - left_t)``.

    >>> fitted_floor([8.0, 5.0, 3.0], np.array([1.0, 0.5, 0.25]))
    2.0
    """
    errors = np.asarray(errors, float)
    away = left < 1.0
    excess = (errors[away] - left[away] * errors[0]) / (1.0 - left[away])
    return float(max(0.0, excess.max())) if away.any() else 0.0


def beta(n: int, k: int, b: int, q: int) -> float:
    """Theorem 2: ``1 + 1/(k-q) - 1/n + k(k+b) / (k-b-q)^2``.

    >>> beta(n=40, k=10, b=2, q=2)
    4.433333333333334
    """
    return 1.0 + 1.0 / (k - q) - 1.0 / n + k * (k + b) / (k - b - q) ** 2


def printed_lemma(k: int, b: int, q: int) -> float:
    """The proof's constant: ``|Trmean_b - honest mean|^2 <= 2(k-q)(k+b-q)/(k-b-q)^2 variance``.

    Raises ``ValueError`` unless q <= b < k/2.

    >>> printed_lemma(10, 2, 2)
    4.444444444444445
    """
    require_trimming(k, b, q)
    return 2.0 * (k - q) * (k + b - q) / (k - b - q) ** 2


def sharp_lemma(k: int, b: int, q: int) -> float:
    r"""The least constant that holds: ``b / (k-b-q)``, for ``q <= b``.

    With every poisoned value at one end, Trmean_b is at most the mean of the largest
    ``r = k-b-q`` honest values; let a be how far that lies from the honest mean.  Deviations from
    the mean sum to 0, so the other b sum to ``-r a``, and by Cauchy and Schwarz
    ``(r a)^2 <= r S`` and ``(r a)^2 <= b T``, S and T being the two groups' sums of squares.  With
    ``S + T = (r+b) variance`` it follows that ``a^2 <= b/r variance``.  r values at 1 and b at
    -r/b reach it.

    >>> round(sharp_lemma(10, 2, 2), 4)
    0.3333
    """
    require_trimming(k, b, q)
    return b / (k - b - q)


def require_trimming(k: int, b: int, q: int) -> None:
    """Theorem 2 and its lemma assume 2q <= 2b < k."""
    if not 0 <= q <= b < k / 2:
        raise ValueError(f"no bound: k={k}, b={b}, q={q}, and q <= b < k/2 is needed")


@dataclass(frozen=True)
class Constants:
    """The quantities in the explicit floor."""

    n: int
    k: int
    gamma: float
    h_min: int
    h_max: int
    L: float
    mu: float
    V_1: float
    V_2: float

    @property
    def rho(self) -> float:
        """The least rho >= 0 with rho + mu >= 1."""
        return max(0.0, 1.0 - self.mu)


def explicit_floor(c: Constants) -> float:
    """Theorem 1's O(V_1 + (1 + 1/k - 1/n) V_2), every constant of the proof worked out.

    One epoch adds alpha E to the error, where

    * local steps add ``(1 - (1-gamma/2)^H_max) (4 V_1 + rho^2 V_2)``: each adds
      ``gamma (2 V_1 + rho^2 V_2 / 2)``, for ``|grad F - grad f|^2 <= 4 V_1`` (printed: 2 V_1);
    * choosing k of n adds ``V_1/2 + (1/k - 1/n) n/(n-1) (L+1)/2 V_2``;
    * convexity of G_* adds ``rho/2 V_2``;
    * that of G_{t-1} adds ``rho/2 |x'_t - x_{t-1}|^2 <= 2 rho V_2``.

    The sum over epochs is ``E / (1 - (1-gamma/2)^H_min)``; alpha cancels.
    """
    local = (1.0 - contraction(c.gamma, c.h_max)) * (4.0 * c.V_1 + c.rho**2 * c.V_2)
    added = local + _selection(c, c.k) + 2.5 * c.rho * c.V_2
    return added / (1.0 - contraction(c.gamma, c.h_min))


def explicit_attacked_floor(c: Constants, b: int, q: int) -> float:
    """Theorem 2's O(V_1) + O(beta V_2) likewise.

    Differences from Theorem 1: k-q honest workers; ``2 V_1 + (L/2 + 2) lemma V_2`` for the trimmed
    mean; and ``|x'_t - x_*|^2 <= 2 (lemma + 1) V_2`` in the moving average, which the paper omits.
    """
    lemma = printed_lemma(c.k, b, q)
    local = (1.0 - contraction(c.gamma, c.h_max)) * (4.0 * c.V_1 + c.rho**2 * c.V_2)
    average = c.rho * (0.5 + 2.0 * lemma + 3.0) * c.V_2
    trimmed = 2.0 * c.V_1 + (c.L / 2.0 + 2.0) * lemma * c.V_2
    added = local + _selection(c, c.k - q) + average + trimmed
    return added / (1.0 - contraction(c.gamma, c.h_min))


def _selection(c: Constants, honest: int) -> float:
    share = 0.0 if c.n == 1 else (1.0 / honest - 1.0 / c.n) * c.n / (c.n - 1.0)
    return 0.5 * c.V_1 + share * (c.L + 1.0) / 2.0 * c.V_2


def inverse_square_limit(contracted: float) -> float:
    """The infinite product of ``1 - (1 - r)/t^2``: ``sin(pi z) / (pi z)`` with ``z^2 = 1 - r``.

    The share of the error that is left, however long one trains, with alpha_t = 1/t^2, if an
    epoch at alpha = 1 leaves r of it.

    >>> inverse_square_limit(0.0) < 1e-15, round(inverse_square_limit(0.75), 4)
    (True, 0.6366)
    """
    return float(np.sinc(np.sqrt(1.0 - contracted)))
