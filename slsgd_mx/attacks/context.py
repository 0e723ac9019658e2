"""What a poisoned worker knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping

import numpy as np

from slsgd_mx.registry import Value


@dataclass(frozen=True)
class AttackContext:
    """What a poisoned worker knows: k, q, the number of classes, its scale, its random stream."""

    k: int
    q: int
    classes: int
    scale: float
    rng: np.random.Generator
    parameters: Mapping[str, Value] = field(default_factory=dict)
    t: int = 0
    largest: float = 1.0  # the largest value of an input, such as 255 for pixels
