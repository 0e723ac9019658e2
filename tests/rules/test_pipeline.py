"""Blocks, mixing and ``aggregate``: the machinery that rules share."""

import math
from dataclasses import replace

import numpy as np
import pytest

from slsgd_mx import aggregate
from slsgd_mx.errors import ConfigError
from slsgd_mx.rules import RULES, Rule
from slsgd_mx.rules.pipeline import blocks, gram_of, mix_rows

K = 11


def normal(seed, k=K, d=6):
    return np.random.default_rng(seed).standard_normal((k, d)).astype(np.float32)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000, 10**6, 2_626_634, 10**8])
def test_blocks_cover_the_model_in_order(size):
    parts = blocks(size)
    assert len(parts) <= 1024
    ends = [0, *(stop for _, stop in parts)]
    assert [start for start, _ in parts] == ends[:-1] and ends[-1] == size
    width = max(math.ceil(size / 1024), min(16384, math.ceil(size / 64)))
    assert {stop - start for start, stop in parts[:-1]} <= {width}


def test_the_gram_matrix_is_that_of_the_updates():
    x, previous = normal(1, k=5, d=3000), normal(2, k=1, d=3000)[0]
    updates = x.astype(np.float64) - previous
    np.testing.assert_allclose(gram_of(x, previous), updates @ updates.T, rtol=1e-12)


def test_mixing_gives_the_same_bits_whatever_the_parts():
    d = 50_001
    x, previous = normal(3, k=7, d=d), normal(4, k=1, d=d)[0]
    x[6] = math.nan
    matrix = np.random.default_rng(0).standard_normal((4, 7))
    matrix[:, 6] = 0
    matrix[1] = [0, 0.25, 0, 0.25, 0.25, 0.25, 0]
    matrix[2] = [0, 0, 1, 0, 0, 0, 0]
    whole, parts = np.empty((4, d), np.float32), np.empty((4, d), np.float32)
    mix_rows(matrix, x, previous, whole)
    for part in (slice(0, 1), slice(1, 777), slice(777, d)):
        mix_rows(matrix, [row[part] for row in x], previous[part], [row[part] for row in parts])
    assert whole.tobytes() == parts.tobytes()
    assert whole[2].tobytes() == x[2].tobytes()
    rest = 1 - matrix.sum(axis=1, keepdims=True)
    expected = matrix[:, :6] @ x[:6].astype(np.float64) + rest * previous
    np.testing.assert_allclose(whole, expected, rtol=1e-5, atol=1e-6)


def test_a_copied_push_keeps_its_bits():
    x = np.array([[-0.0, 1e-45, 1.0], [5, 5, 5], [5, 5, 6], [0, 0, 0]], np.float32)
    matrix = np.eye(4)[:1]
    out = np.empty((1, 3), np.float32)
    mix_rows(matrix, x, np.full(3, 9, np.float32), out)
    assert out[0].tobytes() == x[0].tobytes()


@pytest.mark.parametrize(
    "weights, shape",
    [
        (np.eye(3), r"\(3, 3\)"),
        (np.ones(2), r"\(1, 2\)"),
        (np.full(3, np.nan), r"\(1, 3\) that are not all finite"),
    ],
)
def test_a_mixing_rule_must_return_one_finite_weight_for_each_push(weights, shape, monkeypatch):
    rule = Rule("", mix=lambda gram, context: weights)
    monkeypatch.setitem(RULES, "mine", rule)
    message = rf"mine returned weights of shape {shape}: needs finite numbers of shape \(1, 3\)"
    with pytest.raises(ConfigError, match=message):
        aggregate(np.array([[1.0], [2.0], [9.0]]), "mine")
    if weights.ndim == 2:  # rows for an aggregate that follows
        monkeypatch.setitem(RULES, "mine", replace(rule, aggregate=RULES["median"].aggregate))
        assert aggregate(np.array([[1.0], [2.0], [9.0]]), "mine") == [2]


# ---------------------------------------------------------------------------- the function


def test_aggregate_returns_what_it_was_given():
    from slsgd_mx.system.mxnet import mx

    x = normal(9).reshape(K, 2, 3)
    array = aggregate(x, "nnm+krum", b=2)
    assert isinstance(array, np.ndarray) and array.shape == (2, 3)
    for models in (mx.nd.array(x), [mx.nd.array(row) for row in x]):
        result = aggregate(models, "nnm+krum", b=2, previous=mx.nd.zeros((2, 3)))
        assert isinstance(result, mx.nd.NDArray)
        assert result.asnumpy().tobytes() == array.tobytes()
    same = aggregate(list(x.astype(np.float64)), "nnm+krum", b=2)
    assert same.dtype == np.float32 and same.tobytes() == array.tobytes()


def test_aggregate_draws_groups_by_seed_and_checks_shapes():
    x = normal(9)
    results = [aggregate(x, "bucketing:s=3+median", seed=seed) for seed in (0, 0, 1)]
    assert results[0].tobytes() == results[1].tobytes() != results[2].tobytes()
    with pytest.raises(ConfigError, match=r"models must have one shape, got 2"):
        aggregate([np.zeros(2), np.zeros(3)], "mean")
    with pytest.raises(ConfigError, match=r"previous has shape \(3,\): the models have .*\(6,\)"):
        aggregate(x, "mean", previous=np.zeros(3))
