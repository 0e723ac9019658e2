"""The lemma inside the proof of Theorem 2: how far the trimmed mean is from the honest mean.

For ``q <= b`` poisoned of k values, ``|Trmean_b - honest mean|^2 <= C * honest variance``.  The
paper prints ``C = 2(k-q)(k+b-q)/(k-b-q)^2``; the least C is ``b/(k-b-q)`` (``bounds.sharp_lemma``).
"""

from __future__ import annotations

from typing import Tuple

import numpy as np

from slsgd_mx.rules.trimmed_mean import trimmed_mean_rows

FAR = 1e6  # beyond every honest value; how far does not matter where b >= q


def trimmed_with(honest: np.ndarray, b: int, pushed: np.ndarray) -> np.ndarray:
    """Trmean_b of honest and poisoned rows together, by the project's own rule; (d,)."""
    rows = np.concatenate([honest, pushed]).astype(np.float32)
    out = np.empty(rows.shape[1], np.float32)
    trimmed_mean_rows(list(rows), b, out)
    return out.astype(np.float64)


def away_from(honest: np.ndarray, b: int, q: int, x_star: np.ndarray) -> np.ndarray:
    """What q colluders push to move Trmean_b as far from x_* as one epoch allows; (q, d).

    On a coordinate the trimmed mean can be anything between what all q at the lower end give and
    what all q at the upper end give, whatever they push: the farther end is the worst there is.  So
    no attack does more harm in one epoch if alpha = 1 and F is a sum of F_j that grow with
    |x_j - x_*j| alike on both sides.

    >>> away_from(np.array([[0.], [1.], [3.]]), 1, 1, np.array([0.0])).tolist()
    [[1000000.0]]
    """
    ends = [trimmed_with(honest, b, np.full((q, honest.shape[1]), far)) for far in (-FAR, FAR)]
    lower, upper = (np.abs(end - x_star) for end in ends)
    return np.broadcast_to(np.where(upper >= lower, FAR, -FAR), (q, honest.shape[1]))


def ratios(honest: np.ndarray, pushed: np.ndarray, b: int) -> np.ndarray:
    """``|Trmean_b - honest mean|^2 / honest variance`` on every coordinate.

    Parameters
    ----------
    honest : (k-q, d), pushed : (q, d)
        Values as the server holds them, float32.

    Coordinates on which the honest agree are 0 where the trimmed mean agrees too.
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
    """Honest and poisoned values, a coordinate a draw: shapes (k-q, draws) and (q, draws).

    Honest values are normal, heavy-tailed, tied, two-valued or near the worst there are; poisoned
    ones lie at either end, at both, among the honest, or just beyond them.
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


def largest_ratio(k: int, b: int, q: int, draws: int = 20_000) -> float:
    """The largest deviation by variance over adversarial draws."""
    rng = np.random.default_rng([k, b, q])
    return float(ratios(*adversarial_draws(k, b, q, draws, rng), b).max())
