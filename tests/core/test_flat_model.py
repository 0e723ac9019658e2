"""The flat model and its shards: places of parameters, lines 14 and 15, whole-model rules."""

import math

import numpy as np
import pytest
from helpers.servers import normal
from hypothesis import given
from hypothesis import strategies as st

from slsgd_mx import ModelServer
from slsgd_mx.core.flat_model import FlatModel, Shard, all_finite, cut, moving_average
from slsgd_mx.rules.trimmed_mean import trimmed_mean_rows
from slsgd_mx.system.mxnet import mx

# ---- FlatModel -----------------------------------------------------------------------------


@pytest.fixture
def model():
    model = FlatModel()
    model.add("w", np.arange(6.0).reshape(2, 3))
    model.add("mean", np.arange(6.0, 9.0), moving_average=False)
    model.add("scalar", np.array(9.0))
    model.add("none", np.empty((0, 4)), moving_average=False)
    model.add("var", np.arange(10.0, 12.0).reshape(1, 2), moving_average=False)
    return model


def test_parameters_follow_one_another_in_one_vector(model):
    assert model.size == 12
    assert model.vector.dtype == np.float32 and model.vector.tolist() == list(range(12))
    assert list(model.places.items()) == [
        ("w", (0, 6, (2, 3), True)),
        ("mean", (6, 9, (3,), False)),
        ("scalar", (9, 10, (), True)),
        ("none", (10, 10, (0, 4), False)),
        ("var", (10, 12, (1, 2), False)),
    ]
    assert [part for part in model.replaced if part[0] < part[1]] == [(6, 9), (10, 12)]
    assert FlatModel().replaced == [] and FlatModel().vector.size == FlatModel().size == 0


def test_split_returns_views_of_the_vector(model):
    vector = np.arange(12, dtype=np.float32)
    for key, view in model.split(vector).items():
        assert view.shape == model.places[key].shape
        view[...] = -view
    assert vector.tolist() == [-float(i) for i in range(12)]
    assert model.split(vector)["w"].tolist() == [[0, -1, -2], [-3, -4, -5]]


ranges = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted).map(tuple)


@given(st.lists(ranges, max_size=5), ranges)
def test_cut_keeps_exactly_the_coordinates_within(parts, within):
    marked = np.zeros(30, bool)
    for start, stop in parts:
        marked[start:stop] = True
    inside = marked[slice(*within)]
    found = np.zeros_like(inside)
    for start, stop in cut(parts, within):
        assert 0 <= start < stop <= inside.size
        found[start:stop] = True
    assert found.tolist() == inside.tolist()


@pytest.mark.parametrize("alpha", [1.0, 0.7, 0.01])
@pytest.mark.parametrize("accepted", [[0, 1, 2, 3, 4], [0, 2, 4]])
def test_update_follows_the_formula_and_replaces_the_ranges_to_be_replaced(alpha, accepted):
    before, pushed = normal(20, seed=1), normal(5, 20, seed=2)
    shard = Shard(before.copy(), 5, replaced=[(3, 6), (18, 20)])
    shard.slots[:] = pushed
    shard.update(accepted, "trimmed-mean", 1, alpha)
    ranked = np.sort(pushed[accepted].astype(np.float64), axis=0)
    aggregate = ranked[1:-1].mean(axis=0)
    expected = (1 - alpha) * before + alpha * aggregate
    replaced = [3, 4, 5, 18, 19]
    expected[replaced] = aggregate[replaced]
    np.testing.assert_allclose(shard.value, expected, rtol=1e-5, atol=1e-6)
    exact = np.empty(20, np.float32)
    trimmed_mean_rows([pushed[slot] for slot in accepted], 1, exact)
    assert shard.value[replaced].tobytes() == exact[replaced].tobytes()
    if alpha < 1:
        assert np.abs(shard.value - exact)[0] > 1e-3
    assert shard.slots.tobytes() == pushed.tobytes()


def test_replaced_ranges_overwrite_values_that_are_not_finite():
    shard = Shard(np.full(3, math.nan, np.float32), 1, replaced=[(1, 2)])
    shard.slots[0] = [1, 2, 3]
    shard.update([0], "mean", 0, 0.5)
    assert np.isnan(shard.value).tolist() == [True, False, True] and shard.value[1] == 2


@pytest.mark.parametrize("rule, expected", [("mean", 22.0), ("median", 3.0), ("trimmed-mean", 3.0)])
def test_rule_is_looked_up_by_name(rule, expected):
    shard = Shard(np.zeros(2, np.float32), 5)
    shard.slots[:] = np.array([[1], [2], [3], [4], [100]])
    shard.update(range(5), rule, 1, 1.0)
    assert shard.value.tolist() == [expected] * 2


def test_slots_start_at_zero_and_are_checked_one_by_one():
    shard = Shard(normal(3), 3)
    assert shard.slots.shape == (3, 3) and shard.slots.dtype == np.float32
    assert not shard.slots.any()
    shard.slots[1, 2] = math.inf
    assert [shard.is_finite(slot) for slot in range(3)] == [True, False, True]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_all_finite_sees_one_bad_value(bad):
    assert all_finite(np.empty(0, np.float32))
    for position in (0, 3, 6):
        array = normal(7)
        array[1:3] = 3.4028235e38, -3.4028235e38
        assert all_finite(array)
        array[position] = bad
        assert not all_finite(array)


def test_moving_average_in_place():
    x = np.array([1, 2], np.float32)
    moving_average(x, np.array([5, 10], np.float32), 0.25)
    assert x.tolist() == [2.0, 4.0]
    x[0] = math.nan  # alpha = 1 overwrites values that are not finite
    moving_average(x, np.array([2, 3], np.float32), 1.0)
    assert x.tolist() == [2.0, 3.0]


def test_whole_model_rule_gets_whole_rows(least_norm):
    server = ModelServer(k=3, rule="least-norm")
    server.init("a", mx.nd.zeros((2, 3)))
    server.init("b", mx.nd.zeros(4), moving_average=False)
    # by parameter slot 0 would win "a" and slot 1 "b"; as a whole slot 2 wins both
    for slot, (a, b) in enumerate([(0.1, 9.0), (9.0, 0.1), (1.0, 1.0)]):
        server.push("a", mx.nd.full((2, 3), a), slot)
        server.push("b", mx.nd.full(4, b), slot)
    server.update(1.0)
    assert least_norm == [[10, 10, 10]]
    values = server.values()
    assert values["a"].tolist() == [[1.0] * 3] * 2 and values["b"].tolist() == [1.0] * 4
