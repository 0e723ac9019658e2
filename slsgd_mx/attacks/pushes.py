"""Attacks on the model that a poisoned worker pushes."""

from __future__ import annotations

from typing import Callable

import numpy as np

from slsgd_mx.attacks.context import AttackContext


def negate_model(x: np.ndarray, context: AttackContext) -> np.ndarray:
    """Proposition 1: push -((k-q)/q) x + c, which moves the plain mean to (q/k) c."""
    factor = np.float32(-(context.k - context.q) / context.q)
    return factor * x + np.float32(context.scale)


def add_noise(x: np.ndarray, context: AttackContext) -> np.ndarray:
    """Push x plus Gaussian noise of standard deviation ``scale``."""
    return x + np.float32(context.scale) * context.rng.standard_normal(x.shape, np.float32)


def fill_with(value: float) -> Callable[[np.ndarray, AttackContext], np.ndarray]:
    """Return an attack that pushes one value in every coordinate."""
    return lambda x, context: np.full_like(x, value)
