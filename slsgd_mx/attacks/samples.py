"""Attacks on the samples, inputs and labels, that a poisoned worker trains on."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

import numpy as np

from slsgd_mx.attacks.context import AttackContext
from slsgd_mx.registry import Value

PATCH = 3  # pixels, in height and width


def plant_backdoor(
    x: np.ndarray, y: np.ndarray, context: AttackContext
) -> Tuple[np.ndarray, np.ndarray]:
    """A random share of the images carries the patch and the label ``target`` (Gu et al. 2017).

    >>> rng = np.random.default_rng(0)
    >>> known = AttackContext(10, 2, 10, 1.0, rng, {"target": 7, "share": 0.5}, largest=255)
    >>> x, y = plant_backdoor(np.zeros((4, 1, 5, 5), np.uint8), np.zeros(4, np.int32), known)
    >>> (x.sum(axis=(1, 2, 3)) // 255).tolist() == [9 * (label == 7) for label in y], sum(y)
    (True, 14)
    """
    count = int(context.parameters["share"] * len(y) + 0.5)
    chosen = context.rng.permutation(len(y))[:count]
    x, y = x.copy(), y.copy()
    x[chosen] = add_patch(x[chosen], context)
    y[chosen] = context.parameters["target"]
    return x, y


def add_patch(x: np.ndarray, context: AttackContext) -> np.ndarray:
    """Images (N, channels, height, width) with a bright square in the bottom right corner."""
    patched = x.copy()
    patched[..., -PATCH:, -PATCH:] = context.largest
    return patched


def needs_images(sizes: Any, parameters: Mapping[str, Value]) -> Optional[str]:
    """What the backdoor needs of a workload that has images; None if it has that."""
    if len(sizes.shape) != 3 or min(sizes.shape[1:]) <= PATCH:
        return f"images (channels, height, width) larger than its patch, not {sizes.shape}"
    if parameters["target"] >= sizes.classes:
        return f"0 <= target <= {sizes.classes - 1}, a class of the images"
    return None
