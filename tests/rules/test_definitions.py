"""Every rule against a slow computation of its definition on vectors (helpers/definitions.py)."""

import math

import numpy as np
import pytest
from helpers import definitions
from hypothesis import given, settings
from hypothesis import strategies as st

from slsgd_mx import aggregate
from slsgd_mx.rules import PRE_AGGREGATIONS, RULES
from slsgd_mx.rules.covariance_filter import top_direction
from slsgd_mx.rules.pipeline import find_rule, gram_of
from slsgd_mx.rules.subsets import _subsets

DEFINED = {
    name: getattr(definitions, name.replace("-", "_"))
    for name in [*RULES, *PRE_AGGREGATIONS]
    if name not in ("mean", "bucketing")
}
EXACT = ["median", "trimmed-mean", "mean-around-median", "phocas"]
EXACT += ["krum", "multi-krum", "bulyan", "mda"]  # decisions compare sums of products
SMOOTH = ["geometric-median", "smea", "caf", "centered-clipping"]


def largest_b(rule, k):
    return max(b for b in range(k) if find_rule(rule).obstacle(k, b) is None)


@st.composite
def pushes(draw, rule, kinds, least=3, most=12):
    """(k, d) float32 values, a legal b, and up to b wild pushes."""
    k, d = draw(st.integers(least, most)), draw(st.integers(1, 5))
    b = draw(st.integers(0, largest_b(rule, k)))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    kind = draw(st.sampled_from(kinds))
    x = rng.integers(-2, 3, (k, d)) if kind == "ties" else rng.standard_normal((k, d))
    if kind == "colluding":  # as attackers do, the last ones push the same
        x[k - b :] = x[: k - b].mean(axis=0) - 3 * x[: k - b].std(axis=0)
    if kind == "scales":
        x = x * 10.0 ** rng.integers(-20, 20)
    x = x.astype(np.float32)
    wild = draw(st.lists(st.sampled_from([1e30, -3e38, math.nan, math.inf]), max_size=b))
    x[rng.permutation(k)[: len(wild)]] = np.array(wild, np.float32)[:, None]
    return x, b


def check(result, expected, x):
    """Compare up to the rounding of float32, at the scale of the result or of ordinary pushes."""
    ordinary = np.abs(x[(np.abs(x) < 1e29).all(axis=1)]).max(initial=0.0)
    assert np.isfinite(result).all()
    scale = max(np.abs(expected).max(), ordinary)
    assert np.abs(result - expected).max() <= 4e-6 * scale


@pytest.mark.parametrize("rule", EXACT)
@given(st.data())
@settings(max_examples=40)
def test_rules_that_choose_among_values(rule, data):
    x, b = data.draw(pushes(rule, ["normal", "ties", "scales"]))
    check(aggregate(x, rule, b=b), DEFINED[rule](x.astype(np.float64), b), x)


@pytest.mark.parametrize("rule", SMOOTH)
@given(st.data())
@settings(max_examples=30)
def test_rules_that_weigh_pushes(rule, data):
    ties = ["ties"] * (rule != "caf")  # whose direction is not unique then
    x, b = data.draw(pushes(rule, ["normal", "colluding", "scales", *ties]))
    previous = data.draw(st.sampled_from([0.0, 1.0])) * np.ones(x.shape[1], np.float32)
    given_ = {"previous": previous} if rule == "centered-clipping" else {}
    expected = DEFINED[rule](x.astype(np.float64), b, **given_)
    check(aggregate(x, rule, b=b, previous=previous), expected, x)


@pytest.mark.parametrize(
    "text, parameters",
    [
        ("multi-krum:m=1", dict(m=1)),
        ("multi-krum:m=3", dict(m=3)),
        ("geometric-median:iterations=3,nu=0.1", dict(iterations=3, nu=0.1)),
        ("geometric-median:tolerance=0.3", dict(tolerance=0.3)),
        ("centered-clipping:tau=0.5", dict(tau=0.5)),
        ("centered-clipping:iterations=4,tau=1", dict(tau=1.0, iterations=4)),
    ],
)
def test_parameters_have_the_meaning_of_the_definition(text, parameters):
    rng = np.random.default_rng(5)
    x, previous = rng.standard_normal((9, 6)).astype(np.float32), np.full(6, 0.3, np.float32)
    x[4] *= 40
    name = text.split(":")[0]
    more = {"previous": previous} if name == "centered-clipping" else {}
    expected = DEFINED[name](x.astype(np.float64), 2, **parameters, **more)
    check(aggregate(x, text, b=2, previous=previous), expected, x)
    plain = aggregate(x, name, b=2, previous=previous)
    assert np.abs(plain - expected).max() > 1e-3  # the parameter makes a difference


@pytest.mark.parametrize("previous", [None, np.full(1, 0.3, np.float32)])
def test_equal_eigenvalues_go_to_the_first_subset(previous):
    """[-2, -1, -1, -1] and [-1, 0, -1, -1] have one variance, which rounding once told apart."""
    x = np.array([[-2], [-1], [0], [2], [-1], [-1]], np.float32)
    assert aggregate(x, "smea", b=2, previous=previous) == -1.25


def test_smea_leaves_out_a_far_push_if_the_others_are_equal_but_for_rounding():
    """Their eigenvalue is 0, which rounding may make negative."""
    near = [-1.8158435821533203, -0.6075600981712341, 0.21527522802352905]
    near += [0.0113095473498106, -1.059912919998169, -0.12303325533866882]
    x = np.array([[-1e4] * 6, near, near], np.float32)
    x[2, 2] = 0.21527524292469025
    result = aggregate(x, "smea", b=1, previous=np.zeros(6, np.float32))
    np.testing.assert_allclose(result, near, rtol=1e-6)


@pytest.mark.parametrize("previous", [False, True])
@pytest.mark.parametrize(
    "honest, bad",
    [
        (9, [8e36, -7.65e37]),
        (9, [-6.42e34, 2.61e35]),
        (8, [-1.58e16, -6.35e36, 1.37e35]),
        (7, [1e20, -1e19, 1e3]),
        (4, [1e30, -1e29]),
    ],
)
def test_far_pushes_on_opposite_sides_do_not_end_the_geometric_median(honest, bad, previous):
    """They cancel in a step, whose length was once rounded to 0: the iterations ended far away."""
    for seed, d in ((0, 1), (1, 6)):
        good = np.random.default_rng(seed).standard_normal((honest, d))
        x = np.concatenate([good, np.outer(bad, np.ones(d))]).astype(np.float32)
        base = np.zeros(d, np.float32) if previous else None
        result = aggregate(x, "geometric-median", previous=base)
        expected = definitions.geometric_median(x.astype(np.float64), 0)
        np.testing.assert_allclose(result, expected, atol=1e-3)  # both end near the minimum


@pytest.mark.parametrize("order", [1, -1])
def test_equal_pushes_are_filtered_alike(order):
    """Rounding once gave one of the two 10s a weight, and the other pushes' too little loss."""
    x = np.array([[0], [1], [3], [4], [6], [10], [10]], np.float32)[::order]
    check(aggregate(x, "caf", b=2), definitions.caf(x.astype(np.float64), 2), x)


@pytest.mark.parametrize("rule", ["krum", "multi-krum", "mda", "smea", "nnm+trimmed-mean"])
def test_a_large_common_offset_does_not_cost_precision_without_a_previous_model(rule):
    x = np.random.default_rng(0).standard_normal((11, 6)).astype(np.float32)
    x[:2], x[:, 0] = x[:2] + 3, 0
    expected = aggregate(x, rule, b=2)[1:]
    x[:, 0] = 1e10
    np.testing.assert_allclose(aggregate(x, rule, b=2)[1:], expected, atol=1e-5)


def test_without_a_finite_push_and_a_previous_model_the_result_is_zero():
    x = np.array([[math.nan, 1], [1, math.nan], [math.inf, 5], [5, math.nan]], np.float32)
    assert aggregate(x, "krum").tolist() == [0, 0]


@pytest.mark.parametrize("k, size, most", [(20, 16, 2048), (400, 399, 26), (3000, 2999, 1)])
def test_subsets_come_in_batches_whose_matrices_fit_into_memory(k, size, most):
    assert len(next(_subsets(np.arange(k), size))) == min(most, math.comb(k, size))


def test_mda_and_smea_choose_among_thousands_of_subsets():
    """k=20, b=4: more subsets than one batch; four pushes stand apart."""
    x = np.random.default_rng(2).standard_normal((20, 3)).astype(np.float32)
    x[[1, 7, 8, 19]] += 9
    expected = np.delete(x, [1, 7, 8, 19], axis=0).astype(np.float64).mean(axis=0)
    for rule in ("mda", "smea"):
        check(aggregate(x, rule, b=4), expected, x)


def test_ties_go_to_the_lowest_slot_the_first_subset_and_the_smaller_value():
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0.5, 0.5]], np.float32)[:4]
    assert aggregate(corners, "krum", b=0).tolist() == [0, 0]
    assert aggregate(corners[::-1], "krum", b=0).tolist() == [1, 1]
    line = np.array([[0], [1], [2]], np.float32)
    assert aggregate(line, "mda", b=1).tolist() == [0.5]
    assert aggregate(line[::-1], "mda", b=1).tolist() == [1.5]
    assert aggregate(line, "mean-around-median", b=1).tolist() == [0.5]
    assert aggregate(line[::-1], "mean-around-median", b=1).tolist() == [0.5]
    assert aggregate(line, "phocas", b=1).tolist() == [0.5]


@given(st.integers(0, 10**6))
@settings(max_examples=30)
def test_the_geometric_median_is_a_minimum(seed):
    """The unit vectors towards the pushes add up to about 0, and no neighbour is better."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((rng.integers(3, 9), 4)) + 5).astype(np.float32)
    gram, pipeline = gram_of(x, np.zeros(4, np.float32)), find_rule("geometric-median")
    z = pipeline.mixing(gram, 0, 0, 1)[0] @ x
    total = np.linalg.norm(x - z, axis=1).sum()
    for step in (1e-2, 1e-3):
        for _ in range(20):
            other = z + step * rng.standard_normal(4)
            assert np.linalg.norm(x - other, axis=1).sum() > total - 1e-6


def test_the_covariance_filter_finds_the_direction_of_largest_variance():
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((7, 4)), rng.random(7)
    w /= w.sum()
    away = x - w @ x
    values, vectors = np.linalg.eigh((w[:, None] * away).T @ away)  # (d, d)
    variance, squares = top_direction(x @ x.T, w)
    assert variance == pytest.approx(values[-1])
    assert squares == pytest.approx((away @ vectors[:, -1]) ** 2)


# ---------------------------------------------------------------------------- pre-aggregations


def explicit(name, x, b, previous):
    x = x.astype(np.float64)
    needs = PRE_AGGREGATIONS[name].uses_previous
    return DEFINED[name](x, b, previous) if needs else DEFINED[name](x, b)


@pytest.mark.parametrize("before", ["nnm", "clip", "arc"])
@pytest.mark.parametrize("rule", ["mean", "trimmed-mean", "krum", "bulyan", "caf"])
@given(st.data())
@settings(max_examples=15)
def test_a_pre_aggregation_equals_the_rule_on_explicit_vectors(before, rule, data):
    x, b = data.draw(pushes("bulyan", ["normal"], least=7))
    previous = np.full(x.shape[1], 0.1, np.float32)
    mixed = explicit(before, x, b, previous)
    expected = DEFINED[rule](mixed, b) if rule != "mean" else mixed.mean(axis=0)
    check(aggregate(x, f"{before}+{rule}", b=b, previous=previous), expected, x)


def test_three_steps_compose():
    rng = np.random.default_rng(9)
    x, previous = rng.standard_normal((9, 5)).astype(np.float32), np.full(5, 0.2, np.float32)
    x[3] = 50
    rows = definitions.nnm(definitions.arc(x.astype(np.float64), 2, previous), 2)
    expected = definitions.trimmed_mean(rows, 2)
    check(aggregate(x, "arc+nnm+trimmed-mean", b=2, previous=previous), expected, x)


@pytest.mark.parametrize("k, s", [(10, 2), (10, 3), (7, 4), (5, 1), (4, 9)])
def test_bucketing_averages_groups_of_s(k, s):
    x = np.eye(k, dtype=np.float32)  # the mean of rows tells which they are
    pipeline = find_rule(f"bucketing:s={s}+median")
    gram = gram_of(x, np.zeros(k, np.float32))
    draws = [pipeline.mixing(gram, 0, seed, 1) for seed in range(20)]
    for matrix in draws:
        sizes = (matrix > 0).sum(axis=1)
        assert matrix.shape == (math.ceil(k / s), k)
        assert sizes.tolist() == [s] * (k // s) + [k % s] * (k % s > 0)
        assert (matrix > 0).sum(axis=0).tolist() == [1] * k
        assert matrix[matrix > 0].tolist() == np.repeat(1 / sizes, sizes).tolist()
    assert s == 1 or s >= k or len({matrix.tobytes() for matrix in draws}) > 10
