"""The flat model and its parts: where parameters stand, line 15 on stretches, whole-model rules."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slsgd_mx import ModelServer
from slsgd_mx.core.flat_model import Layout, Place, Shard, all_finite, cut, moving_average
from slsgd_mx.errors import ConfigError
from slsgd_mx.parameter_server.protocol import check_rule
from slsgd_mx.rules import RULES, Rule
from slsgd_mx.rules.trimmed_mean import trimmed_mean_rows
from slsgd_mx.system.mxnet import mx


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# ---- where parameters stand ----------------------------------------------------------------


def make_layout():
    layout = Layout()
    layout.add("w", (2, 3))
    layout.add("mean", (3,), averaged=False)
    layout.add("scalar", ())
    layout.add("none", (0, 4), averaged=False)
    layout.add("var", (1, 2), averaged=False)
    return layout


def test_parameters_stand_one_after_the_other():
    layout = make_layout()
    assert layout.size == 12
    assert list(layout.places) == ["w", "mean", "scalar", "none", "var"]
    assert layout.places["w"] == Place(0, 6, (2, 3), True)
    assert layout.places["mean"] == Place(6, 9, (3,), False)
    assert layout.places["scalar"] == Place(9, 10, (), True)
    assert layout.places["none"] == Place(10, 10, (0, 4), False)
    assert layout.places["var"] == Place(10, 12, (1, 2), False)


def test_plain_are_those_that_are_not_averaged():
    assert [part for part in make_layout().plain if part[0] < part[1]] == [(6, 9), (10, 12)]
    assert Layout().plain == [] and Layout().size == 0


def test_a_view_is_the_same_memory():
    layout, flat = make_layout(), np.arange(12, dtype=np.float32)
    for key, place in layout.places.items():
        view = layout.view(flat, key)
        assert view.shape == place.shape
        view[...] = -view
    assert flat.tolist() == [-float(i) for i in range(12)]
    assert layout.view(flat, "w").tolist() == [[0, -1, -2], [-3, -4, -5]]


def test_sizes_do_not_wrap_around():
    layout = Layout()
    layout.add("w", (2**17, 2**17))
    assert layout.size == 2**34


# ---- parts of ranges -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "ranges, within, parts",
    [
        ([(0, 4), (6, 9)], (3, 7), [(0, 1), (3, 4)]),
        ([(0, 4)], (4, 8), []),
        ([(4, 8)], (0, 4), []),
        ([(0, 10)], (3, 5), [(0, 2)]),
        ([(5, 5)], (0, 10), []),
        ([], (0, 10), []),
    ],
)
def test_cut(ranges, within, parts):
    assert cut(ranges, within) == parts


ranges = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted).map(tuple)


@given(st.lists(ranges, max_size=5), ranges)
def test_cut_keeps_the_very_coordinates(plain, within):
    marked = np.zeros(30, bool)
    for start, stop in plain:
        marked[start:stop] = True
    inside = marked[slice(*within)]
    found = np.zeros_like(inside)
    for start, stop in cut(plain, within):
        assert 0 <= start < stop <= inside.size
        found[start:stop] = True
    assert found.tolist() == inside.tolist()


# ---- lines 14 and 15 -----------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.0, 0.7, 0.01])
@pytest.mark.parametrize("accepted", [[0, 1, 2, 3, 4], [0, 2, 4]])
def test_update_follows_the_formula_off_the_plain_stretches(alpha, accepted):
    before, pushed = normal(20, seed=1), normal(5, 20, seed=2)
    shard = Shard(before.copy(), 5, plain=[(3, 6), (18, 20)])
    shard.slots[:] = pushed
    shard.update(accepted, "trimmed-mean", 1, alpha)
    ranked = np.sort(pushed[accepted].astype(np.float64), axis=0)
    aggregate = ranked[1:-1].mean(axis=0)
    expected = (1 - alpha) * before + alpha * aggregate
    plain = [3, 4, 5, 18, 19]
    expected[plain] = aggregate[plain]
    np.testing.assert_allclose(shard.value, expected, rtol=1e-5, atol=1e-6)
    exact = np.empty(20, np.float32)
    trimmed_mean_rows([pushed[slot] for slot in accepted], 1, exact)
    assert shard.value[plain].tobytes() == exact[plain].tobytes()
    if alpha < 1:
        assert np.abs(shard.value - exact)[0] > 1e-3
    assert shard.slots.tobytes() == pushed.tobytes()


def test_update_changes_the_memory_it_was_given():
    memory = normal(6)
    shard = Shard(memory[2:], 1)
    head = memory[:2].copy()
    shard.slots[0] = 5
    shard.update([0], "mean", 0, 1.0)
    assert memory[2:].tolist() == [5.0] * 4 and memory[:2].tobytes() == head.tobytes()


def test_plain_stretches_forget_a_model_that_is_not_finite():
    shard = Shard(np.full(3, math.nan, np.float32), 1, plain=[(1, 2)])
    shard.slots[0] = [1, 2, 3]
    shard.update([0], "mean", 0, 0.5)
    assert np.isnan(shard.value).tolist() == [True, False, True] and shard.value[1] == 2


@pytest.mark.parametrize("rule, expected", [("mean", 22.0), ("median", 3.0), ("trimmed-mean", 3.0)])
def test_the_rule_is_looked_up_by_name(rule, expected):
    shard = Shard(np.zeros(2, np.float32), 5)
    shard.slots[:] = np.array([[1], [2], [3], [4], [100]])
    shard.update(range(5), rule, 1, 1.0)
    assert shard.value.tolist() == [expected] * 2


@given(st.integers(1, 4), st.integers(0, 2**32), st.sampled_from([1.0, 0.6, 0.1]))
def test_parts_together_equal_the_whole_by_bytes(parts, seed, alpha):
    value, pushed, plain = normal(12, seed=seed), normal(4, 12, seed=seed + 1), [(1, 5), (7, 8)]
    whole = Shard(value.copy(), 4, plain)
    whole.slots[:] = pushed
    whole.update(range(4), "trimmed-mean", 1, alpha)
    bounds = [12 * part // parts for part in range(parts + 1)]
    pieces = []
    for start, stop in zip(bounds, bounds[1:]):
        piece = Shard(value[start:stop].copy(), 4, cut(plain, (start, stop)))
        piece.slots[:] = pushed[:, start:stop]
        piece.update(range(4), "trimmed-mean", 1, alpha)
        pieces.append(piece.value)
    assert np.concatenate(pieces).tobytes() == whole.value.tobytes()


def test_slots_start_empty_and_are_judged_one_by_one():
    shard = Shard(normal(3), 3)
    assert shard.slots.shape == (3, 3) and shard.slots.dtype == np.float32
    assert not shard.slots.any()
    shard.slots[1, 2] = math.inf
    assert [shard.is_finite(slot) for slot in range(3)] == [True, False, True]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("position", [0, 3, 6])
def test_all_finite_sees_one_bad_value(bad, position):
    array = normal(7)
    assert all_finite(array)
    array[position] = bad
    assert not all_finite(array)


def test_all_finite_on_the_edges():
    assert all_finite(np.empty(0, np.float32))
    assert all_finite(np.array([3.4028235e38, -3.4028235e38], np.float32))


def test_moving_average_in_place():
    x = np.array([1, 2], np.float32)
    moving_average(x, np.array([5, 10], np.float32), 0.25)
    assert x.tolist() == [2.0, 4.0]


# ---- rules that need whole models ----------------------------------------------------------


@pytest.fixture
def nearest_to_zero(monkeypatch):
    """A rule that takes the model of least norm; it notes the sizes of the rows it gets."""
    sizes = []

    def choose(rows, b, out):
        sizes.append([row.size for row in rows])
        out[:] = min(rows, key=lambda row: float((row.astype(np.float64) ** 2).sum()))

    rule = Rule(choose, "the model of least norm", coordinate_wise=False)
    monkeypatch.setitem(RULES, "least-norm", rule)
    return sizes


def test_a_rule_of_whole_models_gets_whole_rows(nearest_to_zero):
    server = ModelServer(k=3, rule="least-norm")
    server.init("a", mx.nd.zeros((2, 3)))
    server.init("b", mx.nd.zeros(4), averaged=False)
    # by parameter slot 0 would win "a" and slot 1 "b"; as a whole slot 2 wins both
    for slot, (a, b) in enumerate([(0.1, 9.0), (9.0, 0.1), (1.0, 1.0)]):
        server.push("a", mx.nd.full((2, 3), a), slot)
        server.push("b", mx.nd.full(4, b), slot)
    server.update(1.0)
    assert nearest_to_zero == [[10, 10, 10]]
    values = server.values()
    assert values["a"].tolist() == [[1.0] * 3] * 2 and values["b"].tolist() == [1.0] * 4


def test_it_is_refused_on_several_servers(nearest_to_zero):
    check_rule("least-norm", 1)
    for servers in (2, 5):
        with pytest.raises(ConfigError) as error:
            check_rule("least-norm", servers)
        assert str(error.value) == (
            f"rule 'least-norm' compares whole models, and each of servers={servers} holds a part "
            "of them: needs servers = 1"
        )


@pytest.mark.parametrize("rule", RULES)
def test_the_rules_there_are_work_on_parts(rule):
    for servers in (1, 2, 64):
        check_rule(rule, servers)
