"""The worst pushes against the trimmed mean, and counterexamples to printed steps; no MXNet.

The lemma inside the proof of Theorem 2: for ``q <= b`` poisoned of k values,
``|Trmean_b - honest mean|^2 <= C * honest variance``.  The paper prints
``C = 2(k-q)(k+b-q)/(k-b-q)^2``; the least C is ``b/(k-b-q)`` (``bounds.sharp_lemma``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Dict, Tuple

import numpy as np

from slsgd_mx.attacks.worst_case import away_from, trimmed_with
from slsgd_mx.theory.bounds import rate


def ratios(honest: np.ndarray, pushed: np.ndarray, b: int) -> np.ndarray:
    """``|Trmean_b - honest mean|^2 / honest variance`` by coordinate; (k-q, d), (q, d) -> (d,).

    0 where honest values and trimmed mean agree up to the rounding of the server's float32.
    """
    held = honest.astype(np.float32).astype(np.float64)
    mean, variance = held.mean(axis=0), held.var(axis=0)
    squares = (trimmed_with(honest, b, pushed) - mean) ** 2
    # float32 cannot tell deviations this small from none
    rounding = (4e-7 * np.abs(held).max(axis=0)) ** 2
    return np.where(squares <= rounding, 0.0, squares / np.maximum(variance, 1e-300))


def worst_honest(k: int, b: int, q: int) -> np.ndarray:
    """Honest values that reach the sharp constant: ``k-b-q`` at 1 and b at ``-(k-b-q)/b``; (k-q,).

    >>> worst_honest(10, 2, 2).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -3.0, -3.0]
    """
    r = k - b - q
    return np.array([1.0] * r + [-r / b] * b if b else [1.0] * r)


def adversarial_draws(
    k: int, b: int, q: int, draws: int, rng: np.random.Generator
) -> Tuple[np.ndarray, np.ndarray]:
    """Honest and poisoned values, one draw per coordinate: shapes (k-q, draws) and (q, draws).

    Honest values are normal, heavy-tailed, tied, two-valued or near ``worst_honest``; poisoned
    ones lie at either end, at both, among the honest values, or just outside them.
    """
    m = k - q
    kinds = [
        rng.standard_normal((m, draws)),
        rng.standard_cauchy((m, draws)),
        rng.integers(-2, 3, (m, draws)).astype(float),
        np.where(rng.random((m, draws)) < b / max(m, 1), -m / max(b, 1), 1.0),
        worst_honest(k, b, q)[:, None] + 0.05 * rng.standard_normal((m, draws)),
    ]
    pick = rng.integers(len(kinds), size=draws)
    honest = np.stack(kinds)[pick, :, np.arange(draws)].T
    low, high = honest.min(axis=0), honest.max(axis=0)
    ends = [
        np.full((q, draws), 1e9),
        np.full((q, draws), -1e9),
        rng.choice([-1e9, 1e9], (q, draws)),
        rng.uniform(low, high, (q, draws)),
        np.broadcast_to(high + 1e-3 * np.abs(high), (q, draws)),
        np.broadcast_to(low - 1e-3 * np.abs(low), (q, draws)),
    ]
    pick = rng.integers(len(ends), size=draws)
    return honest, np.stack(ends)[pick, :, np.arange(draws)].T


@lru_cache(maxsize=None)
def largest_ratio(k: int, b: int, q: int, draws: int = 20_000) -> float:
    """The largest of the ``ratios`` over adversarial draws."""
    rng = np.random.default_rng([k, b, q])
    return float(ratios(*adversarial_draws(k, b, q, draws, rng), b).max())


def opposed_step(n: int) -> Dict[str, float]:
    """The one-step inequality for a device whose gradient opposes all others; "left" is its rise.

    In one dimension, ``f^i(x) = huber(x - c_i)`` with slopes in [-1, 1], so V_1 = 1, L = 1 and
    mu = 0; c_i = -10 on n-1 devices and +10 on one.  From x = 0 with gamma = 1 that one goes to 1.
    Averaged over devices the step does hold, even with gamma/2 V_1: the mean of
    ``|grad F - grad f^i|^2`` at one x is at most V_1.

    >>> {name: round(value, 2) for name, value in opposed_step(10).items()}
    {'left': 0.8, 'printed': 0.68, 'mended': 1.68, 'mean_left': -0.64, 'mean_half': 0.18}
    """
    centres = np.array([-10.0] * (n - 1) + [10.0])

    def value(x: float) -> float:
        u = np.abs(x - centres)
        return float(np.mean(np.where(u <= 1.0, u**2 / 2.0, u - 0.5)))

    x, gamma, v1 = 0.0, 1.0, 1.0
    slopes = np.clip(x - centres, -1.0, 1.0)
    rises = [value(x - gamma * slope) - value(x) for slope in slopes]
    descent = gamma / 2.0 * float(slopes.mean()) ** 2
    return {
        "left": rises[-1],
        "printed": -descent + gamma * v1,
        "mended": -descent + 2.0 * gamma * v1,
        "mean_left": float(np.mean(rises)),
        "mean_half": -descent + gamma / 2.0 * v1,
    }


@lru_cache(maxsize=None)
def step_from_optimum(b: int, draws: int = 20) -> Dict[str, float]:
    """Theorem 2 with V_2 = 0: one epoch of one step that starts at x_* itself.

    n = 2d devices, d = 8b, with ``f(x) = huber_2(|x -+ e_j|)``: L = 1, mu = 0, |grad f| <= 2, so
    V_1 = 4, and by symmetry x_* = 0.  With gamma = alpha = T = H = 1 device (j, s) pushes s e_j.
    k = 2b+1 with q = b: on each of the b+1 coordinates that an honest push moved, the poisoned lift
    the median from 0 to that push, so x_1 is about sqrt(b+1) away.  Over h <= H-1, V_2 is 0; over
    h <= H it is 1.  Means over draws of the honest.

    >>> {name: round(value, 2) for name, value in step_from_optimum(1).items()}
    {'error': 1.0, 'deviation': 0.5, 'V_1': 4.0, 'share': 0.5, 'V_2': 0.0, 'V_2_pushed': 1.0}
    """
    k, q, d = 2 * b + 1, b, 8 * b
    x_star, rng = np.zeros(d), np.random.default_rng(b)
    errors, deviations = [], []
    for _ in range(draws):
        chosen = rng.choice(2 * d, k - q, replace=False)
        honest = np.zeros((k - q, d))
        honest[np.arange(k - q), chosen % d] = np.where(chosen < d, 1.0, -1.0)
        x = trimmed_with(honest, b, away_from(honest, b, q, x_star))
        errors.append(_hubers(x) - _hubers(x_star))
        deviations.append(float(((x - honest.mean(axis=0)) ** 2).sum()))
    return {
        "error": float(np.mean(errors)),
        "deviation": float(np.mean(deviations)),
        "V_1": 4.0,
        "share": 1.0 - rate(1.0, 1.0, 1),  # what the floor is multiplied by
        "V_2": 0.0,
        "V_2_pushed": 1.0,
    }


def _hubers(x: np.ndarray) -> float:
    """The mean of huber_2(|x - s e_j|) over j and s."""
    square = float(x @ x)
    u = np.sqrt(np.maximum(np.concatenate([square - 2 * x + 1, square + 2 * x + 1]), 0.0))
    return float(np.mean(np.where(u <= 2.0, u**2 / 2.0, 2.0 * u - 2.0)))
