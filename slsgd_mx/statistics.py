"""The mean of repeated measurements and its 95 % interval."""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence

# Student's t, two-sided 95 %, for 1 to 30 degrees of freedom
STUDENT_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


NORMAL = 1.959963984540054  # the limit for many degrees of freedom


class Estimate(NamedTuple):
    """A mean and half of its 95 % interval."""

    mean: float
    margin: float


def student_t(degrees: int) -> float:
    """t_{0.975}: the table; beyond it, z + (z^3 + z) / 4nu + (5z^5 + 16z^3 + 3z) / 96nu^2.

    >>> student_t(30), round(student_t(47), 4), round(student_t(100), 4)
    (2.042, 2.0117, 1.984)
    """
    if degrees <= len(STUDENT_T):
        return STUDENT_T[degrees - 1]
    z, nu = NORMAL, degrees
    return z + (z**3 + z) / (4 * nu) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * nu**2)


def estimate(values: Sequence[float], single: float) -> Estimate:
    """``mean +- t_{0.975, r-1} sd / sqrt(r)``; ``single`` is the margin of one value.

    >>> estimate([0.5], single=0.05)
    Estimate(mean=0.5, margin=0.05)
    >>> estimate([1.0, 3.0], single=0.05)  # sd / sqrt(2) = 1
    Estimate(mean=2.0, margin=12.706)
    """
    r, mean = len(values), math.fsum(values) / len(values)
    if r == 1:
        return Estimate(mean, single)
    variance = math.fsum((value - mean) ** 2 for value in values) / (r - 1)
    return Estimate(mean, student_t(r - 1) * math.sqrt(variance / r))
