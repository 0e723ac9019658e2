"""The trimmed mean: exact arithmetic, extreme values, hostile pushes, any order of the pushes."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from slsgd_mx import trimmed_mean
from slsgd_mx.errors import ConfigError
from slsgd_mx.rules import RULES, Rule, register_rule
from slsgd_mx.rules.trimmed_mean import (
    CHUNK,
    check_trim,
    comparator_network,
    mean_rows,
    median_rows,
    trimmed_mean_rows,
)
from slsgd_mx.system.mxnet import mx

MAX, TINY = 3.4028234663852886e38, 1.401298464324817e-45
FINITE = [0.0, -0.0, 1.0, -1.0, 1e38, -1e38, MAX, -MAX, TINY, -TINY, 1e-40, 1.17549435e-38]
WILD = [*FINITE, math.nan, math.inf, -math.inf]
COUNTS = st.sampled_from([*range(1, 18), 50])


def values(special):
    return st.one_of(
        st.sampled_from([np.float32(x).item() for x in special]), st.floats(-3, 3, width=32)
    )


@st.composite
def pushes(draw, special=tuple(WILD)):
    """(k, d) float32 values and a legal b."""
    k, d = draw(COUNTS), draw(st.integers(1, 4))
    rows = draw(arrays(np.float32, (k, d), elements=values(special)))
    return rows, draw(st.integers(0, (k - 1) // 2))


def trim(rows, b):
    out = np.full(rows.shape[1], 7, np.float32)
    trimmed_mean_rows(list(rows), b, out)
    return out


def half_ulp(value):
    """Half the distance of float32 numbers at ``value``, exactly."""
    exponent = math.frexp(value)[1] - 1 if value else -126
    return Fraction(2) ** (max(exponent, -126) - 24)


def assert_exact(column, b, result):
    """Compare one coordinate with Definition 3 in rational arithmetic; NaN ranks as +inf."""
    k = len(column)
    ranked = sorted(math.inf if math.isnan(x) else x for x in map(float, column))
    kept = ranked[b : k - b]
    if not all(map(math.isfinite, kept)):
        expected = sum(x for x in kept if not math.isfinite(x))  # inf, -inf, or NaN of both
        assert result == expected or (math.isnan(result) and math.isnan(expected))
        return
    exact = sum(map(Fraction, kept)) / len(kept)
    # m - 1 additions, the reciprocal and the product round to float64 once each
    most = sum(abs(Fraction(x)) for x in kept) / len(kept) * (k + 2) / 2**53
    assert math.isfinite(result)
    assert abs(Fraction(result) - exact) <= most + half_ulp(result)


@given(pushes(), st.randoms(use_true_random=False))
def test_definition_in_exact_arithmetic_and_the_same_bits_in_any_order(drawn, random):
    rows, b = drawn
    results = trim(rows, b)
    for column, result in zip(rows.T, results):
        assert_exact(column, b, float(result))
    order = list(range(len(rows)))
    random.shuffle(order)
    assert trim(rows[order], b).tobytes() == results.tobytes()


@given(pushes(tuple(FINITE)))
def test_mean_and_median_are_special_cases(drawn):
    rows, _ = drawn
    mean, median = (np.empty(rows.shape[1], np.float32) for _ in range(2))
    mean_rows(list(rows), 0, mean)
    assert mean.tobytes() == trim(rows, 0).tobytes()
    scale = np.abs(rows.astype(np.float64)).mean(axis=0)
    error = np.abs(mean - rows.astype(np.float64).mean(axis=0))
    assert np.all(error <= 1e-14 * scale + 6e-8 * np.abs(mean.astype(np.float64)) + TINY)
    median_rows(list(rows), 0, median)
    expected = np.median(rows.astype(np.float64), axis=0).astype(np.float32)
    assert median.tolist() == expected.tolist()


@pytest.mark.parametrize("k", [*range(1, 18), 50])
def test_every_legal_b_in_exact_arithmetic(k):
    rng = np.random.default_rng(k)
    magnitudes = np.float32(10.0) ** rng.integers(-40, 38, (k, 6))
    rows = (rng.standard_normal((k, 6)) * magnitudes).astype(np.float32)
    rows[:, 0] = 0.1
    rows[: k // 2, 1] = rows[0, 1]  # ties
    rows[-1, 2:4] = 3e38, math.nan  # trimmed like any other extreme
    rows[:, 4] = MAX
    for b in map(np.int64, range((k + 1) // 2)):  # NumPy's integers are legal too
        for column, result in zip(rows.T, trim(rows, b)):
            assert_exact(column, b, float(result))


@given(pushes(tuple(FINITE)), st.data())
def test_result_stays_in_the_range_of_the_honest_pushes(drawn, data):
    rows, b = drawn
    hostile = arrays(np.float32, (b, rows.shape[1]), elements=values(WILD))
    where = data.draw(st.permutations(range(len(rows))))[:b]
    poisoned = rows.copy()
    poisoned[where] = data.draw(hostile)
    honest = np.delete(rows, where, axis=0)
    result = trim(poisoned, b)
    assert np.all(honest.min(axis=0) <= result) and np.all(result <= honest.max(axis=0))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7])
def test_zeros_of_both_signs_in_any_order(k):
    zeros = np.array([0.0, -0.0] * k, np.float32)[:k, None]
    results = {trim(np.roll(zeros, shift, axis=0), 0).tobytes() for shift in range(k)}
    results.add(trim(np.full((k, 1), -0.0, np.float32), 0).tobytes())
    assert results == {np.zeros(1, np.float32).tobytes()}


@given(COUNTS, values(FINITE), st.data())
def test_equal_models_give_exactly_that_model(k, value, data):
    b = data.draw(st.integers(0, (k - 1) // 2))
    assert trim(np.full((k, 2), value, np.float32), b).tolist() == [value, value]


@pytest.mark.parametrize("d", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3])
def test_chunk_boundaries(d):
    rows = np.random.default_rng(d).standard_normal((5, d)).astype(np.float32)
    if d:
        rows[2, -1] = math.nan  # replacing NaN must not change the other chunks
    ranked = np.sort(np.where(np.isnan(rows), np.inf, rows), axis=0)[1:4].astype(np.float64)
    np.testing.assert_allclose(trim(rows, 1), ranked.mean(axis=0), rtol=1e-6, atol=1e-7)


def run_network(k, b, inputs):
    """Apply the network to (N, k) inputs; an output that is not kept becomes garbage."""
    wires = [column.copy() for column in inputs.T]
    for i, j, keep_min, keep_max in comparator_network(k, b):
        low, high = np.minimum(wires[i], wires[j]), np.maximum(wires[i], wires[j])
        garbage = np.full_like(low, 99)
        wires[i], wires[j] = low if keep_min else garbage, high if keep_max else garbage
    return np.stack(wires[b : k - b], axis=1)


@pytest.mark.parametrize("k", [*range(1, 12), 13, 16, 17, 32, 50])
def test_network_sorts(k):
    if k <= 10:  # the zero-one principle: every 0-1 input
        inputs = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    else:
        inputs = np.random.default_rng(k).integers(-20, 20, (300, k))
        assert len(comparator_network(k, k // 3)) < len(comparator_network(k, 0))  # pruned
    for b in range((k + 1) // 2):
        expected = np.sort(inputs, axis=1)[:, b : k - b]
        np.testing.assert_array_equal(run_network(k, b, inputs), expected)


@pytest.mark.parametrize(
    "k, b, message",
    [
        (10, 5, "b=5 is out of range for k=10: trimmed mean needs 0 <= b <= 4"),
        (10, -1, "b=-1 is out of range for k=10: trimmed mean needs 0 <= b <= 4"),
        (1, 1, "b=1 is out of range for k=1: trimmed mean needs 0 <= b <= 0"),
        (9, 5, "0 <= b <= 4"),
        (10, 0.5, "b=0.5 must be an integer count with 0 <= b <= 4"),
        (10, True, "b=True must be an integer count"),
        (0, 0, "k=0 is out of range"),
    ],
)
def test_illegal_b_is_refused_with_value_and_range(k, b, message):
    with pytest.raises(ConfigError) as error:
        check_trim(k, b)
    assert message in str(error.value)
    if k:
        with pytest.raises(ConfigError):
            trimmed_mean_rows(list(np.zeros((k, 2), np.float32)), b, np.empty(2, np.float32))
        with pytest.raises(ConfigError):
            trimmed_mean(mx.nd.zeros((k, 2)), b)


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3), (2, 1, 3, 2)])
def test_list_and_leading_axis_are_the_same(shape):
    rows = np.random.default_rng(3).standard_normal((5, *shape)).astype(np.float32)
    stacked = trimmed_mean(mx.nd.array(rows), b=1)
    listed = trimmed_mean([mx.nd.array(row) for row in rows], b=1)
    assert stacked.shape == listed.shape == shape and stacked.dtype == np.float32
    expected = trim(rows.reshape(5, -1), 1).tobytes()
    assert stacked.asnumpy().tobytes() == listed.asnumpy().tobytes() == expected


def test_other_types_are_cast():
    whole = mx.nd.array([[1, 2], [3, 4], [80, 90]], dtype="int32")
    assert trimmed_mean(whole, 1).asnumpy().tolist() == [3.0, 4.0]
    double = mx.nd.array([[1], [3]], dtype="float64")
    assert trimmed_mean(double, 0).asnumpy().tolist() == [2.0]


def test_unequal_shapes_no_models_and_other_types_are_refused():
    with pytest.raises(ConfigError, match=r"models must have one shape, got 2: \[\(2,\), \(3,\)\]"):
        trimmed_mean([mx.nd.zeros(2), mx.nd.zeros(3), mx.nd.zeros(2)], 1)
    with pytest.raises(ConfigError, match="at least 1 model"):
        trimmed_mean([], 0)
    with pytest.raises(ConfigError, match="must be an NDArray or a NumPy array, not of type list"):
        trimmed_mean([[0.0, 1.0]], 0)


def test_numpy_arrays_give_a_numpy_array_with_the_same_bits():
    rows = np.random.default_rng(0).standard_normal((5, 3, 2))  # float64
    result = trimmed_mean(rows, 1)
    assert isinstance(result, np.ndarray) and result.shape == (3, 2)
    for models in (mx.nd.array(rows), [mx.nd.array(rows[0]), *rows[1:]]):
        mixed = trimmed_mean(models, np.int64(1))
        assert isinstance(mixed, mx.nd.NDArray)
        assert mixed.asnumpy().tobytes() == result.tobytes()


def test_a_rule_of_your_own_is_registered_under_a_new_name(monkeypatch):
    monkeypatch.setitem(RULES, "mine", None)
    del RULES["mine"]  # and once more after the test
    mine = Rule("the mean again", mean_rows)
    register_rule("mine", mine)
    assert RULES["mine"] is mine
    with pytest.raises(ConfigError, match="rule 'mine' exists already"):
        register_rule("mine", mine)
