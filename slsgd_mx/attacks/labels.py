"""Attacks on the labels that a poisoned worker trains on."""

from __future__ import annotations

import numpy as np

from slsgd_mx.attacks.context import AttackContext


def flip_labels(y: np.ndarray, context: AttackContext) -> np.ndarray:
    """The paper's label flip: y -> classes - 1 - y, which is 9 - y for ten classes.

    >>> flip_labels(np.array([0, 3, 9]), AttackContext(10, 2, 10, 1.0, np.random.default_rng(0)))
    array([9, 6, 0])
    """
    return context.classes - 1 - y


def permute_labels(y: np.ndarray, context: AttackContext) -> np.ndarray:
    """The paper's attack on language models: the device's labels in random order."""
    return context.rng.permutation(y)


def shift_labels(y: np.ndarray, context: AttackContext) -> np.ndarray:
    """The released code's attack on language models: y -> max(y - scale, 0), scale 1000.

    >>> shift_labels(np.array([5, 1005]), AttackContext(10, 2, 9999, 1000.0, None))
    array([0, 5])
    """
    return np.maximum(y - int(context.scale), 0)
