"""What an attacker knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class AttackContext:
    """What a poisoned worker knows: k, q, the number of classes, its scale, its random stream."""

    k: int
    q: int
    classes: int
    scale: float
    rng: np.random.Generator
