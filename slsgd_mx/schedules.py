"""Schedules of alpha_t, the weight of the moving average in epoch t (Algorithm 1, line 15).

To add one, write a function of (t, alpha, decay_epoch) that returns a weight in (0, 1], and
register it in ``SCHEDULES``.
"""

from __future__ import annotations

from typing import Callable, Dict


def step(t: int, alpha: float, decay_epoch: int) -> float:
    """The paper's figures: 1 up to and including the decay epoch, alpha after it.

    >>> [step(t, alpha=0.8, decay_epoch=2) for t in (1, 2, 3, 4)]
    [1.0, 1.0, 0.8, 0.8]
    """
    return 1.0 if t <= decay_epoch else alpha


def constant(t: int, alpha: float, decay_epoch: int) -> float:
    """Figures 5 and 6: alpha in every epoch."""
    return alpha


def inverse_square(t: int, alpha: float, decay_epoch: int) -> float:
    """The remark after Theorem 1: alpha_t = alpha / t^2.

    >>> [inverse_square(t, alpha=1.0, decay_epoch=0) for t in (1, 2, 4)]
    [1.0, 0.25, 0.0625]
    """
    return alpha / t**2


SCHEDULES: Dict[str, Callable[[int, float, int], float]] = {
    "step": step,
    "constant": constant,
    "inverse-square": inverse_square,
}
