"""Small worlds within Assumptions 1 to 3 in which a printed step fails; no MXNet."""

from __future__ import annotations

from typing import Dict

import numpy as np

from slsgd_mx.theory.bounds import rate
from slsgd_mx.theory.lemma import away_from, trimmed_with


def opposed_step(n: int) -> Dict[str, float]:
    """The one-step inequality for a device whose gradient opposes everybody else's.

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
