"""How often a rule by ranks uses each push: the definition, and time that is not quadratic in k."""

import time

import numpy as np
import pytest

from slsgd_mx.rules.trimmed_mean import kept_between


def kept_by_definition(rows, low, high):
    """Each value has the ranks [first, last); the share of them in [low, high), summed."""
    values = [np.where(np.isnan(row), np.float32(np.inf), row) for row in rows]
    kept = []
    for value in values:
        first, last = (
            sum(compare(v, value) for v in values) for compare in (np.less, np.less_equal)
        )
        inside = np.minimum(last, high) - np.maximum(first, low)
        kept.append((np.maximum(inside, 0) / (last - first)).sum())
    return np.array(kept)


def pushes(kind, k, size, rng):
    if kind == "distinct":
        return rng.standard_normal((k, size)).astype(np.float32)
    values = rng.integers(-2, 3, (k, size)).astype(np.float32)
    if kind == "not finite":
        drawn = rng.random((k, size))
        values[drawn < 0.2], values[drawn > 0.8] = np.nan, np.inf
        values[(drawn > 0.5) & (drawn < 0.6)] = -0.0
    return values


@pytest.mark.parametrize("kind", ["distinct", "tied", "not finite"])
@pytest.mark.parametrize("k, size", [(1, 1), (2, 3), (7, 130), (12, 403)])
def test_it_has_the_bits_of_the_definition(kind, k, size):
    rng = np.random.default_rng(k)
    rows = list(pushes(kind, k, size, rng))
    for b in range((k + 1) // 2):
        found = kept_between(rows, b, k - b)
        assert found.tobytes() == kept_by_definition(rows, b, k - b).tobytes()
    for m in range(1, k + 1):  # another range of ranks on every coordinate
        low = rng.integers(0, k - m + 1, size)
        found = kept_between(rows, low, low + m)
        assert found.tobytes() == kept_by_definition(rows, low, low + m).tobytes()


def test_its_time_is_not_quadratic_in_k():
    def seconds(k):
        rows = list(np.random.default_rng(0).standard_normal((k, 4), np.float32))
        began = time.process_time()
        kept_between(rows, k // 5, k - k // 5)
        return time.process_time() - began

    few, many = (min(seconds(k) for _ in range(3)) for k in (200, 3200))
    assert many < 100 * few  # 16 times the pushes; quadratic would be 256 times
