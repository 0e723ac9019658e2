"""Attacks on labels and on pushes, and their registry."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from slsgd_mx.attacks import (
    ATTACKS,
    Attack,
    AttackContext,
    find_attack,
    register,
    register_attack,
)
from slsgd_mx.attacks.labels import flip_labels, permute_labels
from slsgd_mx.attacks.pushes import add_noise, negate_model
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError

LABELS = arrays(np.int32, st.integers(0, 40), elements=st.integers(0, 9))


def context(k=10, q=2, classes=10, scale=1.0, seed=0):
    return AttackContext(k, q, classes, scale, np.random.default_rng(seed))


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_does_one_thing(name):
    attack = ATTACKS[name]
    acts = [attack.labels, attack.samples, attack.model, attack.silent or None]
    acts += [attack.collude, attack.combine]
    both = ("model-replacement", "backdoor")  # poisoned data, and what is pushed
    assert sum(act is not None for act in acts) == 1 + (name in both)
    assert attack.summary and attack.start in ("fresh", "pulled")


@given(LABELS, st.integers(0, 12), st.integers(10, 12))
def test_attacks_on_labels(y, shift, classes):
    before = y.copy()
    flipped = flip_labels(y, context(classes=classes))
    assert flipped.tolist() == [classes - 1 - label for label in y]
    assert flip_labels(flipped, context(classes=classes)).tolist() == before.tolist()
    assert sorted(permute_labels(y, context())) == sorted(before)
    shifted = ATTACKS["label-shift"].labels(y, context(scale=float(shift)))
    assert shifted.tolist() == [max(label - shift, 0) for label in y.tolist()]
    assert y.tolist() == before.tolist()


def test_permuted_labels_depend_on_the_stream():
    y = np.arange(10)
    one, two = permute_labels(y, context(seed=1)), permute_labels(y, context(seed=2))
    assert one.tolist() != y.tolist() and one.tolist() != two.tolist()


@pytest.mark.parametrize("k, q, c", [(10, 2, 1.0), (10, 4, -3.5), (4, 1, 0.0), (5, 5, 2.0)])
def test_negation_moves_the_mean_to_q_over_k_times_c(k, q, c):
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    pushed = negate_model(x, context(k=k, q=q, scale=c))
    assert pushed.dtype == np.float32
    mean = ((k - q) * x.astype(np.float64) + q * pushed.astype(np.float64)) / k
    np.testing.assert_allclose(mean, q / k * c, atol=1e-6)


def test_gaussian_noise_has_the_given_standard_deviation():
    x = np.full(20_000, 5, np.float32)
    noise = add_noise(x, context(scale=3.0)) - x
    assert noise.dtype == np.float32
    assert abs(noise.mean()) < 0.1 and abs(noise.std() - 3) < 0.1
    assert add_noise(x, context(scale=0.0)).tolist() == x.tolist()


@pytest.mark.parametrize("name", [n for n, attack in ATTACKS.items() if attack.model])
def test_a_model_attack_never_pushes_what_was_trained(name):
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    kept = x.copy()
    pushed = ATTACKS[name].model(x, context())
    assert pushed.shape == x.shape and pushed.dtype == np.float32 and np.all(pushed != x)
    assert x.tobytes() == kept.tobytes()
    if name in ("nan", "inf"):
        np.testing.assert_array_equal(pushed, np.full((2, 3), float(name)))


@pytest.mark.parametrize("register_it", [register_attack, register])
def test_an_attack_of_your_own(monkeypatch, register_it):
    monkeypatch.setitem(ATTACKS, "zeros", None)
    del ATTACKS["zeros"]  # and once more after the test
    mine = Attack("push zeros", model=lambda x, context: 0 * x, start="fresh", scale=4.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        register_it("zeros", mine)
    assert len(caught) == (register_it is register)
    assert all("use slsgd_mx.attacks.register_attack" in str(w.message) for w in caught)
    assert all(w.category is DeprecationWarning and w.filename == __file__ for w in caught)
    assert find_attack("zeros").entry is mine
    config = RunConfig(q=1, attack="zeros")
    assert (config.attacker_start, config.attack_scale) == ("fresh", 4.0)
    with pytest.raises(ConfigError, match="attack 'zeros' exists already"):
        register_attack("zeros", mine)


def test_unknown_attack_lists_all_names():
    names = "label-flip, label-permute, label-shift, negation, gaussian, nan, inf, silent"
    with pytest.raises(ConfigError, match=f"attack='magic' is unknown: choose one of {names}"):
        find_attack("magic")
