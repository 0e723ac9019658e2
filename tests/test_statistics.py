"""Means and their 95 % intervals."""

import math

import numpy as np
import pytest

from slsgd_mx.statistics import STUDENT_T, Estimate, estimate, student_t


def test_students_t():
    """Half of the density between -t and t, by the trapezoid rule, is 0.475."""
    for degrees in (*range(1, 32), 47, 100, 300):
        t = student_t(degrees)
        x = np.linspace(0, t, 20_001)
        scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))
        y = (1 + x**2 / degrees) ** (-(degrees + 1) / 2) * scale / math.sqrt(degrees * math.pi)
        area = float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum())
        assert area == pytest.approx(0.475, abs=3e-5)
    assert len(STUDENT_T) == 30
    falling = [student_t(degrees) for degrees in range(1, 200)]
    assert falling == sorted(falling, reverse=True) and falling[-1] > 1.96


def test_the_margin_by_hand():
    assert estimate([0.3], 0.05) == Estimate(0.3, 0.05)
    mean, margin = estimate([1.0, 2.0, 6.0], 0.05)  # sd = sqrt(7)
    assert mean == 3.0 and margin == pytest.approx(4.303 * math.sqrt(7 / 3))
    assert estimate([2.0] * 5, 0.05) == Estimate(2.0, 0.0)
    for r, t in ((31, 2.042), (32, 2.0395), (48, 2.0117), (101, 1.9840)):
        margin = estimate([-1.0, 1.0] * (r // 2) + [0.0] * (r % 2), 0.05).margin
        assert margin == pytest.approx(t * math.sqrt(r // 2 * 2 / (r - 1) / r), rel=1e-4)
