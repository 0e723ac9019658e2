"""What every rule promises: invariances, finite results, breakdown, legal ranges, names."""

import math

import numpy as np
import pytest
from helpers.conformance import read_rules
from hypothesis import given, settings
from hypothesis import strategies as st

from slsgd_mx import aggregate
from slsgd_mx.errors import ConfigError
from slsgd_mx.rules import RULES
from slsgd_mx.rules.pipeline import find_rule

BY_COORDINATE = [name for name, rule in RULES.items() if rule.mix is None]
BY_MIXING = [name for name in RULES if name not in BY_COORDINATE]
COMPOSED = ["nnm+krum", "nnm+trimmed-mean", "arc+nnm+median", "clip+multi-krum", "nnm+mean"]
COMPOSED += ["arc+geometric-median", "clip+mean"]
BAD = [math.nan, math.inf, -math.inf]
K, B = 11, 2  # legal for every rule


def normal(seed, k=K, d=6):
    return np.random.default_rng(seed).standard_normal((k, d)).astype(np.float32)


# ---------------------------------------------------------------------------- invariances


@pytest.mark.parametrize("rule", BY_COORDINATE)
@given(st.data())
@settings(max_examples=30)
def test_coordinate_wise_rules_have_the_same_bits_for_every_order_of_slots(rule, data):
    k = data.draw(st.integers(1, 12))
    b = data.draw(st.integers(0, (k - 1) // 2)) if RULES[rule].uses_b else 0
    values = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5, 1e38, -1e38, math.nan, math.inf])
    x = np.array(data.draw(st.lists(values, min_size=3 * k, max_size=3 * k)), np.float32)
    x = x.reshape(k, 3)
    order = data.draw(st.permutations(range(k)))
    assert aggregate(x[order], rule, b=b).tobytes() == aggregate(x, rule, b=b).tobytes()


@pytest.mark.parametrize("rule", [*BY_MIXING, *COMPOSED])
def test_other_rules_depend_on_the_order_of_slots_only_by_rounding(rule):
    # With one neighbour, which Bulyan reaches if b < 3, the two nearest pushes always tie; if b > 1
    # subsets with the same two farthest pushes have the same diameter.
    k, b = {"bulyan": (15, 3), "mda": (K, 1)}.get(rule, (K, B))
    for seed in range(5):
        x, previous = normal(seed, k=k), normal(100, k=1)[0]
        x[3] = 1e20 * (seed % 2 or 1e-20)
        order = np.random.default_rng(seed).permutation(k)
        one, two = (aggregate(y, rule, b=b, previous=previous) for y in (x, x[order]))
        np.testing.assert_allclose(one, two, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("rule", [*RULES, *COMPOSED])
def test_results_move_with_the_pushes(rule):
    """Models or updates: the same result, if x_{t-1} moves along where a rule uses it."""
    x, shift = normal(1), np.float32(3.0)
    x[5] += 4
    if find_rule(rule).uses_previous:
        with pytest.raises(ConfigError, match=r"acts on updates .*: give previous="):
            aggregate(x, rule, b=B)
        here = aggregate(x, rule, b=B, previous=np.zeros(6))
        moved = aggregate(x + shift, rule, b=B, previous=np.full(6, shift))
        fixed = aggregate(x + shift, rule, b=B, previous=np.zeros(6))
        assert "clip" not in rule or np.abs(fixed - shift - here).max() > 0.01
    else:
        here, moved = aggregate(x, rule, b=B), aggregate(x + shift, rule, b=B)
        elsewhere = aggregate(x, rule, b=B, previous=np.full(6, shift))
        np.testing.assert_allclose(elsewhere, here, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(moved - shift, here, rtol=1e-5, atol=1e-5)


SCALE_FREE = [n for n in RULES if n not in ("geometric-median", "centered-clipping")]


@pytest.mark.parametrize("rule", [*SCALE_FREE, "nnm+krum", "arc+nnm+median"])
@pytest.mark.parametrize("exponent", [-60, 60])
def test_scaling_by_a_power_of_two_scales_the_result_exactly(rule, exponent):
    x, factor = normal(2), np.float32(2.0**exponent)
    small = aggregate(x, rule, b=B, previous=np.zeros(6))
    large = aggregate(x * factor, rule, b=B, previous=np.zeros(6))
    assert (large / factor).tobytes() == small.tobytes()


@pytest.mark.parametrize("rule", RULES)
def test_pushes_are_only_read_and_equal_pushes_are_their_own_aggregate(rule):
    x = np.tile(normal(3, k=1, d=20_000), (K, 1))
    before = x.tobytes()
    x.flags.writeable = False
    result = aggregate(x, rule + ":tau=1e6" * (rule == "centered-clipping"), b=B, previous=x[0])
    assert x.tobytes() == before
    np.testing.assert_allclose(result, x[0], rtol=2e-7)


@pytest.mark.parametrize("rule", RULES)
def test_the_smallest_legal_k(rule):
    for b in (0, 1):
        k = next(k for k in range(1, 20) if find_rule(rule).obstacle(k, b) is None)
        x = normal(4, k=k)
        result = aggregate(x, rule, b=b, previous=np.zeros(6))
        assert (x.min(axis=0) - 1e-6 <= result).all() and (result <= x.max(axis=0) + 1e-6).all()


# ---------------------------------------------------------------------------- non-finite pushes


@pytest.mark.parametrize("rule", [r for r in [*RULES, *COMPOSED] if r != "mean"])
@given(st.data())
@settings(max_examples=25)
def test_up_to_b_pushes_that_are_not_finite_leave_the_result_finite(rule, data):
    x = normal(data.draw(st.integers(0, 50)))
    places = data.draw(st.permutations(range(K)))[: data.draw(st.integers(1, B))]
    for place in places:
        width = data.draw(st.sampled_from([1, 6]))
        x[place, :width] = data.draw(st.sampled_from(BAD))
    honest = np.delete(x, places, axis=0)
    result = aggregate(x, rule, b=B, previous=np.zeros(6))
    assert np.isfinite(result).all()
    assert np.abs(result).max() <= np.abs(honest).max() + 1e-5


@pytest.mark.parametrize("rule", BY_MIXING)
def test_a_push_that_is_not_finite_has_weight_0_and_none_leaves_the_model_as_it_was(rule):
    x = normal(6)
    results = []
    for bad in BAD:
        x[4, 1] = bad
        results.append(aggregate(x, rule, b=B, previous=np.zeros(6)).tobytes())
    assert len(set(results)) == 1
    previous = normal(7, k=1)[0]
    x[:] = math.nan
    result = aggregate(x, rule, b=B, previous=previous)
    np.testing.assert_array_equal(result, previous)


def test_bucketing_leaves_out_pushes_that_are_not_finite():
    x = normal(8, k=10)
    x[[2, 5]] = math.nan
    finite = np.delete(x, [2, 5], axis=0)
    for seed in range(10):  # with some seeds, both are in one group
        for rule in ("mean", "median", "geometric-median"):
            result = aggregate(x, f"bucketing:s=2+{rule}", b=2, seed=seed)
            assert np.isfinite(result).all()
            assert np.abs(result).max() <= np.abs(finite).max()


# ---------------------------------------------------------------------------- breakdown

MIXED = ["nnm+krum", "nnm+trimmed-mean", "nnm+median"]
MEANS = ["mean", "nnm+mean"]  # one bad push breaks them


def stated(rule):
    """The number of bad pushes that breaks a rule, as docs/conformance.md states it; or None."""
    choice = find_rule(rule).rule
    number = read_rules()[choice.name]["breaks at"].split("`")[1]
    names = dict(k=K, b=B, m=choice.parameters.get("m") or K - B, ceil=math.ceil, min=min)
    return None if number == "never" else eval(number, {"__builtins__": {}}, names)


def attacked(count, far):
    """Honest pushes around 0 with bad ones: in one place, at growing distances, on both sides."""
    for seed in range(2):
        honest = normal(seed, k=K - count)
        direction = np.zeros((count, 6), np.float32)
        direction[:, 0] = 1.0
        growing = far * 10.0 ** np.arange(count)[:, None]
        signs = (-1.0) ** np.arange(count)[:, None]
        for bad in (far * direction, growing * direction, far * signs * direction):
            for rows in ([bad, honest], [honest, bad]):
                yield np.concatenate(rows).astype(np.float32)


def farthest(rule, count, far=1e5):
    results = [aggregate(x, rule, b=B, previous=np.zeros(6)) for x in attacked(count, far)]
    return max(np.linalg.norm(result) for result in results)


@pytest.mark.parametrize("rule", [*RULES, "multi-krum:m=5", *MIXED, "nnm+mean"])
def test_bad_pushes_up_to_b_do_bounded_harm_and_at_the_breakdown_number_unbounded(rule):
    number = B + 1 if rule in MIXED else stated(rule)
    if rule not in MEANS:
        assert all(farthest(rule, count) < 6 for count in range(B + 1))  # honest: about 2.5
    if number is None:
        assert all(farthest(rule, count) <= 10 for count in range(K))
    else:
        assert farthest(rule, number) > 1000
        assert number > B or rule in MEANS


def test_the_geometric_median_stays_where_the_mean_meets_a_push():
    """Weiszfeld's iterations leave a push only slowly: two bad pushes hold them at the mean."""
    x = np.zeros((11, 1), np.float32)
    x[0], x[1] = 1e6, 1e5  # the mean is 1e5
    assert aggregate(x, "geometric-median") == pytest.approx(1e5)
    x[1] = 1.1e5
    assert abs(aggregate(x, "geometric-median")) < 1e-3


# ---------------------------------------------------------------------------- legal ranges, names


@pytest.mark.parametrize(
    "rule, k, b, message",
    [
        ("phocas", 10, 5, "b=5 is out of range for k=10: phocas needs 0 <= b <= 4"),
        ("krum", 10, 4, "b=4 is out of range for k=10: krum needs 2b + 2 < k, so 0 <= b <= 3"),
        ("krum", 2, 0, "krum needs 2b + 2 < k, so k >= 3"),
        (
            *("multi-krum:m=9", 10, 2),
            "m=9, b=2 is out of range for k=10: multi krum needs 1 <= m <= k - b = 8",
        ),
        ("multi-krum:m=9", 10, 4, "m=9, b=4 is out of range for k=10: multi krum needs 2b + 2 < k"),
        ("bulyan", 10, 2, "bulyan needs k >= 4b + 3, so 0 <= b <= 1"),
        ("bulyan", 2, 0, "bulyan needs k >= 4b + 3, so k >= 3"),
        ("mda", 30, 10, "at most 1,000,000 subsets of k-b pushes, and there are 30,045,015"),
        ("smea", 10, 5, "smea needs 0 <= b <= 4"),
        ("nnm+median", 10, 5, "nnm needs 0 <= b <= 4"),
        ("bucketing:s=2+krum", 10, 2, "b=2 is out of range for the 5 rows that are left of k=10"),
        ("bucketing+trimmed-mean", 9, 3, "the 5 rows that are left of k=9"),
        ("mean", 0, 0, "at least 1 model"),
        ("median", 4, -1, "b=-1 must be an integer count"),
    ],
)
def test_illegal_b_is_refused_with_value_and_range(rule, k, b, message):
    with pytest.raises(ConfigError) as error:
        aggregate(np.zeros((k, 2)), rule, b=b, previous=np.zeros(2))
    assert message in str(error.value)


def test_every_rule_has_a_legal_b_below_every_refused_one():
    for name in RULES:
        for k in range(1, 16):
            refused = [find_rule(name).obstacle(k, b) is not None for b in range(k + 2)]
            assert refused == sorted(refused), name
            assert not RULES[name].uses_b or refused[-1], name


@pytest.mark.parametrize(
    "given_, canonical",
    [
        ("geometric-median:nu=0.000001,iterations=100", "geometric-median"),
        ("geometric-median:tolerance=1e-3,nu=0.1", "geometric-median:nu=0.1,tolerance=0.001"),
        ("centered-clipping:tau=1e1", "centered-clipping"),
        ("multi-krum:m=3", "multi-krum:m=3"),
        ("bucketing:s=2+clip:c=3.0+nnm+krum", "bucketing+clip:c=3+nnm+krum"),
    ],
)
def test_canonical_names(given_, canonical):
    assert find_rule(given_).text == canonical == find_rule(canonical).text


@pytest.mark.parametrize(
    "text, message",
    [
        ("clip+nnm", "lacks the rule after pre-aggregation: write clip+nnm+RULE"),
        ("krum+mean", "pre-aggregation='krum' is unknown: choose one of nnm, bucketing, clip, arc"),
        ("multi-krum:m=0", "multi-krum:m=0 is out of range: needs a whole number from 1"),
        ("clip:c=0+mean", "> 0"),
        ("bucketing:s=1.5+mean", "bucketing:s=1.5 is out of range: needs a whole number"),
        ("geometric-median:nu=0", ">= 1e-100"),
        ("krum:m=1", "rule 'krum' has no parameter 'm=1': it has no parameters"),
    ],
)
def test_unknown_names_and_parameters_are_refused(text, message):
    with pytest.raises(ConfigError) as error:
        find_rule(text)
    assert message in str(error.value)


def test_which_rules_use_b_and_the_previous_model():
    without_b = [name for name in RULES if not find_rule(name).uses_b]
    assert without_b == ["mean", "median", "geometric-median", "centered-clipping"]
    assert find_rule("nnm+mean").uses_b and find_rule("arc+mean").uses_b
    assert not find_rule("bucketing+median").uses_b and not find_rule("clip+mean").uses_b
    used = [name for name in RULES if find_rule(name).uses_previous]
    assert used == ["centered-clipping"]
    assert find_rule("clip+krum").uses_previous and not find_rule("nnm+krum").uses_previous
