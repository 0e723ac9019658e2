"""The bounds by hand, and the lemma of the trimmed mean over thousands of adversarial draws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slsgd_mx.theory import adversary, bounds
from slsgd_mx.theory.bounds import Constants, beta, printed_lemma, sharp_lemma

KS = (3, 5, 8, 10, 15)
SIZES = [(k, b, q) for k in KS for b in range((k - 1) // 2 + 1) for q in range(b + 1)]
TRIMMED = [size for size in SIZES if size[1] > 0]
ROUNDING = 1e-4  # pushes are float32


def test_the_fitted_floor_is_the_least_that_holds():
    rng = np.random.default_rng(0)
    errors = np.concatenate([[9.0], rng.uniform(0.5, 4, 30)])
    left = bounds.decay([0.7] * 30, 0.1, 2)
    floor = bounds.fitted_floor(errors, left)
    assert (errors <= bounds.bound(9.0, floor, left) + 1e-12).all()
    assert (errors > bounds.bound(9.0, 0.999 * floor, left)).any()
    assert bounds.fitted_floor([1.0, 0.0], np.array([1.0, 0.5])) == 0.0


@given(st.integers(5, 60), st.data())
def test_beta_grows_with_q_and_b_and_falls_with_k(k, data):
    b = data.draw(st.integers(0, (k - 3) // 2))
    q = data.draw(st.integers(0, b))
    # b=q=0: one more than Theorem 1's factor, though the algorithms are the same
    assert beta(100, k, 0, 0) - (1 + 1 / k - 1 / 100) == pytest.approx(1.0)
    here = beta(100, k, b, q)
    assert beta(100, k, b + 1, q) > here > beta(100, k + 1, b, q)
    if q < b:
        assert beta(100, k, b, q + 1) > here


def constants(**changes):
    values = dict(n=10, k=5, gamma=0.5, h_min=1, h_max=2, L=1.0, mu=1.0, V_1=2.0, V_2=3.0)
    return Constants(**{**values, **changes})


def test_the_explicit_floor_by_hand():
    # strongly convex, every device: rho = 0 and no choice; (1-0.75^2) 4 V_1 + V_1/2, over 1-0.75
    assert bounds.explicit_floor(constants(k=10)) == pytest.approx((0.4375 * 8 + 1) / 0.25)
    # choosing 5 of 10 adds (1/5 - 1/10) 10/9 (L+1)/2 V_2
    chosen = (0.4375 * 8 + 1 + 0.1 * 10 / 9 * 3) / 0.25
    assert bounds.explicit_floor(constants()) == pytest.approx(chosen)
    # mu = -1: rho = 2 adds rho^2 V_2 to every step and 5/2 rho V_2 to every epoch
    curved = (0.4375 * (8 + 12) + 1 + 0.1 * 10 / 9 * 3 + 2.5 * 2 * 3) / 0.25
    assert bounds.explicit_floor(constants(mu=-1.0)) == pytest.approx(curved)
    assert constants(mu=7.0).rho == 0


def test_the_explicit_floor_under_attack_by_hand():
    lemma = printed_lemma(5, 1, 1)  # 2 * 4 * 5 / 9
    assert lemma == pytest.approx(40 / 9)
    added = 0.4375 * 8 + 1 + (1 / 4 - 1 / 10) * 10 / 9 * 3 + 4 + 2.5 * lemma * 3
    assert bounds.explicit_attacked_floor(constants(), 1, 1) == pytest.approx(added / 0.25)


def test_the_limit_of_one_over_t_squared():
    for left in (0.1, 0.5, 0.9):
        product = math.prod(1 - (1 - left) / t**2 for t in range(1, 200_000))
        assert bounds.inverse_square_limit(left) == pytest.approx(product, rel=1e-4)


@pytest.mark.parametrize("k, b, q", SIZES)
def test_the_lemma_over_thousands_of_adversarial_draws(k, b, q):
    found = adversary.largest_ratio(k, b, q, draws=3000)
    assert found <= sharp_lemma(k, b, q) * (1 + ROUNDING)
    assert sharp_lemma(k, b, q) < printed_lemma(k, b, q)
    if b:  # the draws are adversarial: they come near the sharp constant
        assert found >= 0.8 * sharp_lemma(k, b, q)


@pytest.mark.parametrize("k, b, q", TRIMMED)
def test_the_sharp_constant_is_reached(k, b, q):
    honest = adversary.worst_honest(k, b, q)[:, None]
    assert honest.mean() == pytest.approx(0)
    for side in (1, -1):
        reached = adversary.ratios(side * honest, np.full((q, 1), side * 1e9), b)[0]
        assert reached == pytest.approx(sharp_lemma(k, b, q), rel=ROUNDING)


def test_with_b_below_q_the_deviation_is_unbounded():
    honest = np.random.default_rng(0).standard_normal((8, 50))
    for far in (1e3, 1e6):
        assert adversary.ratios(honest, np.full((2, 50), far), 1).min() > (far / 20) ** 2
    for lemma in (printed_lemma, sharp_lemma):
        with pytest.raises(ValueError, match="no bound: k=10, b=1, q=2"):
            lemma(10, 1, 2)
        with pytest.raises(ValueError, match="q <= b < k/2 is needed"):
            lemma(10, 5, 2)


@given(st.data())
def test_the_lemma_on_values_of_any_kind(data):
    k, b, q = data.draw(st.sampled_from(TRIMMED))
    number = st.floats(-1e6, 1e6, width=32)
    honest = data.draw(st.lists(number, min_size=k - q, max_size=k - q))
    pushed = data.draw(st.lists(st.floats(width=32), min_size=q, max_size=q))  # NaN, infinity too
    column = np.array(honest, float)[:, None]
    spread = column.std()
    if spread < 1e-3 * (1 + np.abs(column).max()):  # float32 rounds so small a variance
        return
    found = adversary.ratios(column, np.array(pushed, float).reshape(q, 1), b)[0]
    assert found <= sharp_lemma(k, b, q) * (1 + ROUNDING)


def test_no_push_moves_the_trimmed_mean_farther_than_the_adversarys():
    rng = np.random.default_rng(3)
    for k, b, q in ((5, 1, 1), (10, 3, 2), (9, 4, 4)):
        honest, x_star = rng.standard_normal((k - q, 40)), rng.standard_normal(40)
        pushed = adversary.away_from(honest, b, q, x_star)
        worst = np.abs(adversary.trimmed_with(honest, b, pushed) - x_star)
        for _ in range(200):
            scale = 10.0 ** rng.uniform(-2, 5)
            tried = adversary.trimmed_with(honest, b, scale * rng.standard_normal((q, 40)))
            assert (np.abs(tried - x_star) <= worst + 1e-5).all()
