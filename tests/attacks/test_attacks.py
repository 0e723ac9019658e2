"""What poisoned workers do to labels and models."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from slsgd_mx.attacks import (
    ATTACKS,
    Attack,
    AttackContext,
    add_noise,
    find_attack,
    flip_labels,
    negate_model,
    permute_labels,
    register,
)
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError

LABELS = arrays(np.int32, st.integers(0, 40), elements=st.integers(0, 9))


def context(k=10, q=2, classes=10, scale=1.0, seed=0):
    return AttackContext(k, q, classes, scale, np.random.default_rng(seed))


def test_registered_names():
    names = {"label-flip", "label-permute", "negation", "gaussian", "nan", "inf", "silent"}
    assert names <= set(ATTACKS)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_does_something_and_says_what(name):
    attack = ATTACKS[name]
    assert (attack.labels is not None) + (attack.model is not None) + attack.silent == 1
    assert attack.summary and attack.start in ("fresh", "pulled")


@given(LABELS)
def test_label_flip_is_nine_minus_y(y):
    before = y.copy()
    flipped = flip_labels(y, context())
    assert flipped.tolist() == [9 - label for label in y]
    assert not np.any(flipped == y)  # with an even number of classes nothing stays
    assert flip_labels(flipped, context()).tolist() == before.tolist() == y.tolist()


def test_label_flip_with_other_numbers_of_classes():
    assert flip_labels(np.array([0, 1, 2]), context(classes=3)).tolist() == [2, 1, 0]


@given(LABELS)
def test_permuted_labels_are_the_same_labels(y):
    before = y.copy()
    permuted = permute_labels(y, context())
    assert sorted(permuted) == sorted(before) and y.tolist() == before.tolist()


@given(LABELS, st.integers(0, 12))
def test_shifted_labels_stop_at_zero(y, shift):
    shifted = ATTACKS["label-shift"].labels(y, context(scale=float(shift)))
    assert shifted.tolist() == [max(label - shift, 0) for label in y.tolist()]


def test_permuted_labels_change_place_and_depend_on_the_stream():
    y = np.arange(10)
    one, two = permute_labels(y, context(seed=1)), permute_labels(y, context(seed=2))
    assert one.tolist() != y.tolist() and one.tolist() != two.tolist()


@pytest.mark.parametrize("k, q, c", [(10, 2, 1.0), (10, 4, -3.5), (4, 1, 0.0), (5, 5, 2.0)])
def test_negation_drags_the_mean_to_q_over_k_times_c(k, q, c):
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    pushed = negate_model(x, context(k=k, q=q, scale=c))
    assert pushed.dtype == np.float32
    mean = ((k - q) * x.astype(np.float64) + q * pushed.astype(np.float64)) / k
    np.testing.assert_allclose(mean, q / k * c, atol=1e-6)


def test_gaussian_noise_has_the_scale_asked_for():
    x = np.full(20_000, 5, np.float32)
    noise = add_noise(x, context(scale=3.0)) - x
    assert noise.dtype == np.float32
    assert abs(noise.mean()) < 0.1 and abs(noise.std() - 3) < 0.1
    assert add_noise(x, context(scale=0.0)).tolist() == x.tolist()


@pytest.mark.parametrize("name, value", [("nan", math.nan), ("inf", math.inf)])
def test_constant_pushes(name, value):
    x = np.zeros((2, 3), np.float32)
    pushed = ATTACKS[name].model(x, context())
    np.testing.assert_array_equal(pushed, np.full((2, 3), value))
    assert pushed.dtype == np.float32 and not x.any()


@pytest.mark.parametrize("name", [n for n, attack in ATTACKS.items() if attack.model])
def test_a_model_attack_never_pushes_what_was_trained(name):
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    kept = x.copy()
    pushed = ATTACKS[name].model(x, context())
    assert pushed.shape == x.shape and np.all(pushed != x)
    assert x.tobytes() == kept.tobytes()


def test_an_attack_of_your_own(monkeypatch):
    monkeypatch.setattr("slsgd_mx.attacks.ATTACKS", dict(ATTACKS))
    mine = Attack("push zeros", model=lambda x, context: 0 * x, start="fresh", scale=4.0)
    register("zeros", mine)
    assert find_attack("zeros") is mine
    config = RunConfig(q=1, attack="zeros")
    assert (config.attacker_start, config.attack_scale) == ("fresh", 4.0)
    with pytest.raises(ConfigError, match="attack 'zeros' exists already"):
        register("zeros", mine)


def test_unknown_attack_lists_what_there_is():
    with pytest.raises(ConfigError, match="'magic' is unknown: choose one of label-flip, .*silent"):
        find_attack("magic")
