"""Colluding attacks against slow computations of their definitions in float64."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slsgd_mx import aggregate, poison
from slsgd_mx.attacks.colluding import hidden_z, largest, search_line


@st.composite
def scenes(draw, least=2):
    """Honest pushes (k-q, d), what the q trained, x_{t-1}; ties, several scales, wild pushes."""
    m, q, d = draw(st.integers(least, 9)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    honest = rng.standard_normal((m, d)) * 10.0 ** draw(st.integers(-6, 6))
    if draw(st.booleans()):
        honest = rng.integers(-2, 3, (m, d)).astype(float)
    if draw(st.booleans()):
        honest[rng.integers(m)] = rng.standard_normal(d) * draw(st.sampled_from([1e12, 1e30]))
    own, previous = rng.standard_normal((q, d)), rng.standard_normal(d)
    return honest.astype(np.float32), own.astype(np.float32), previous.astype(np.float32)


def moments(honest):
    """mu and sigma, one coordinate at a time."""
    columns = [[float(v) for v in column] for column in honest.T]
    mu = np.array([math.fsum(column) / len(column) for column in columns])
    squares = [sum((v - c) ** 2 for v in column) for column, c in zip(columns, mu)]
    return mu, np.array([math.sqrt(s / (len(honest) - 1)) for s in squares])


def check(pushed, expected, *seen):
    """Equal up to rounding at the scale of the values that were combined."""
    scale = max(np.abs(part).max() for part in seen)
    assert pushed.dtype == np.float32 and pushed.shape == expected.shape
    assert np.abs(pushed - expected).max() <= 1e-6 * max(scale, np.abs(expected).max())


@given(scenes(), st.sampled_from([-2.0, 0.0, 0.3, 1.5]))
@settings(max_examples=40)
def test_alie_pushes_mu_plus_z_sigma(scene, z):
    honest, own, _ = scene
    mu, sigma = moments(honest)
    pushed = poison(honest, f"alie:z={z}", q=len(own))
    check(pushed, np.tile(mu + z * sigma, (len(own), 1)), honest)
    assert z != 1.5 or pushed.tobytes() == poison(honest, "alie", q=len(own)).tobytes()


@pytest.mark.parametrize("k, q", [(50, 24), (50, 12), (25, 11), (20, 8), (11, 4), (100, 30)])
def test_the_automatic_z_is_the_normal_quantile(k, q):
    s = math.floor(k / 2 + 1) - q
    z = hidden_z(k, q)
    below = (1 + math.erf(z / math.sqrt(2))) / 2  # of a normal distribution
    assert z > 0 and below == pytest.approx((k - q - s) / (k - q))
    honest = np.random.default_rng(k).standard_normal((k - q, 3)).astype(np.float32)
    mu, sigma = moments(honest)
    check(poison(honest, "alie:z=auto", q=q)[0], mu + z * sigma, honest)


@given(scenes(least=1), st.sampled_from([0.1, 0.5, 3.0]))
@settings(max_examples=30)
def test_ipm_pushes_against_the_mean_honest_update(scene, epsilon):
    honest, own, previous = scene
    mu = honest.astype(np.float64).mean(axis=0)
    pushed = poison(honest, f"ipm:epsilon={epsilon}", q=len(own), previous=previous)
    expected = previous - epsilon * (mu - previous)
    check(pushed, np.tile(expected, (len(own), 1)), honest, previous)


@given(scenes(least=1))
@settings(max_examples=30)
def test_sign_flip_and_model_replacement_change_what_was_trained(scene):
    honest, own, previous = scene
    q, k = len(own), len(own) + len(honest)
    update = own.astype(np.float64) - previous
    given_ = dict(q=q, own=own, previous=previous)
    check(poison(honest, "sign-flip", **given_), previous - update, own, previous)
    replaced = poison(honest, "model-replacement", **given_)
    check(replaced, previous + k / q * update, own, previous)
    scaled = poison(honest, "model-replacement:factor=2.5", **given_)
    check(scaled, previous + 2.5 * update, own, previous)
    assert poison(honest[:0], "sign-flip", **given_).shape == own.shape


def test_model_replacement_replaces_the_model():
    """If the honest pushes are x_{t-1}, the mean of all k becomes what the attacker trained."""
    previous, own = np.full(4, 0.5, np.float32), np.arange(4, dtype=np.float32)[None]
    honest = np.tile(previous, (9, 1))
    pushed = poison(honest, "model-replacement", q=1, own=own, previous=previous)
    np.testing.assert_allclose(aggregate([*honest, *pushed], "mean"), own[0], atol=1e-6)


@given(scenes(least=1))
@settings(max_examples=30)
def test_mimic_copies_an_honest_push_to_the_bit(scene):
    honest, own, _ = scene
    honest[0, 0] = -0.0
    mu = honest.astype(np.float64).mean(axis=0)
    first = poison(honest, "mimic", q=len(own))
    assert all(row.tobytes() == honest[0].tobytes() for row in first)
    far = np.linalg.norm(honest - mu, axis=1)
    copied = poison(honest, "mimic:of=farthest", q=len(own))
    chosen = [i for i in range(len(honest)) if honest[i].tobytes() == copied[0].tobytes()]
    assert chosen and far[chosen[0]] >= far.max() * (1 - 1e-9)
    assert all(row.tobytes() == copied[0].tobytes() for row in copied)


@pytest.mark.parametrize(
    "attack", ["alie", "ipm", "mimic", "mimic:of=farthest", "min-max", "min-sum", "alie-optimal"]
)
@given(scenes(), st.sampled_from([math.nan, math.inf, -math.inf]), st.booleans())
@settings(max_examples=10)
def test_every_colluding_attack_leaves_out_pushes_that_are_not_finite(attack, scene, value, first):
    honest, own, previous = scene
    bad = np.zeros((1, honest.shape[1]), np.float32)
    bad[0, -1] = value
    among = [*bad, *honest] if first else [*honest, *bad]
    pushed, expected = (
        poison(rows, attack, q=len(own), previous=previous, rule="median")
        for rows in (among, honest)
    )
    assert pushed.tobytes() == expected.tobytes()


def measure_pairs(name, honest, push):
    """The two sides of the constraint of min-max or min-sum."""
    honest = honest.astype(np.float64)
    if name == "min-max":
        pairs = combinations(range(len(honest)), 2)
        limit = max(np.linalg.norm(honest[i] - honest[j]) for i, j in pairs)
        return max(np.linalg.norm(push - row) for row in honest), limit
    limit = max(((honest - row) ** 2).sum() for row in honest)
    return ((honest - push) ** 2).sum(), limit


@pytest.mark.parametrize("name", ["min-max", "min-sum"])
@given(scenes())
@settings(max_examples=40)
def test_min_max_and_min_sum_reach_their_limit(name, scene):
    honest, own, previous = scene
    mu, sigma = moments(honest)
    q = len(own)
    pushed = poison(honest, name, q=q, previous=previous)
    assert all(row.tobytes() == pushed[0].tobytes() for row in pushed)
    if not sigma.any():
        check(pushed[0], mu, honest)
        return
    wide = np.argmax(sigma)
    g = (mu[wide] - pushed[0][wide]) / sigma[wide]
    check(pushed[0], mu - g * sigma, honest, previous)
    reached, limit = measure_pairs(name, honest, mu - g * sigma)
    assert g >= -1e-6 and reached == pytest.approx(limit, rel=1e-4)
    assert measure_pairs(name, honest, mu - 1.01 * (g + 1e-3) * sigma)[0] > limit


def test_bisection_and_line_search():
    assert largest(lambda g: False) == 0.0
    assert largest(lambda g: g <= 1234.5) == pytest.approx(1234.5)
    assert largest(lambda g: g <= 1e-6) == pytest.approx(1e-6)
    for best in (-10.0, -0.7, 0.1, 2.2, 9.0):
        seen = []

        def measure(z, best=best, seen=seen):
            seen.append(z)
            return -abs(math.log10(abs(z)) - math.log10(abs(best))) - 9 * (z * best < 0)

        found = search_line(measure, 20)
        assert len(seen) == 20 and all(0.1 <= abs(z) <= 10 for z in seen)
        assert found == pytest.approx(best, rel=0.05)
    assert search_line(lambda z: math.nan, 7) in (0.1, -0.1, 1.0, -1.0)


@pytest.mark.parametrize("name", ["alie-optimal", "ipm-optimal"])
@pytest.mark.parametrize("rule", ["trimmed-mean", "median", "krum", "nnm+trimmed-mean", "mean"])
def test_the_optimal_attacks_do_more_harm_than_a_grid_of_plain_ones(name, rule):
    rng = np.random.default_rng(3)
    honest = (rng.standard_normal((8, 6)) + 0.5).astype(np.float32)
    previous, mu = np.zeros(6, np.float32), honest.astype(np.float64).mean(axis=0)

    def harm(pushed):
        return np.linalg.norm(aggregate([*honest, *pushed], rule, b=2, previous=previous) - mu)

    given_ = dict(q=2, previous=previous, rule=rule, b=2)
    best = harm(poison(honest, f"{name}:evaluations=40", **given_))
    assert harm(poison(honest, name, **given_)) >= 0.95 * best
    sigma = honest.astype(np.float64).std(axis=0, ddof=1)
    for size in np.geomspace(0.1, 10, 9):
        for z in (size, -size):
            push = mu + z * sigma if name == "alie-optimal" else previous - z * (mu - previous)
            assert harm(np.tile(push, (2, 1)).astype(np.float32)) <= 1.1 * best


@pytest.mark.parametrize("rule", ["trimmed-mean", "median", "mean"])
def test_no_push_does_more_harm_than_the_worst_case(rule):
    rng = np.random.default_rng(0)
    honest, target = rng.standard_normal((8, 30)).astype(np.float32), rng.standard_normal(30)
    pushed = poison(honest, "worst-case", q=2, rule=rule, b=2, target=target)
    worst = np.abs(aggregate([*honest, *pushed], rule, b=2) - target)
    for scale in (0.1, 1.0, 10.0, 1e3):
        tried = (scale * rng.standard_normal((2, 30))).astype(np.float32)
        assert (np.abs(aggregate([*honest, *tried], rule, b=2) - target) <= worst + 1e-6).all()
