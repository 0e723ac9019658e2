"""Selected devices, poisoned slots, silent slots and local steps: drawn in every epoch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slsgd_mx.attacks import ATTACKS
from slsgd_mx.config import RunConfig
from slsgd_mx.core.algorithm import local_iterations, select_devices, select_poisoned, select_silent

EPOCHS = range(1, 41)


class StepsByDevice:
    """The part of a task that the number of local iterations depends on."""

    def steps_per_pass(self, device):
        return 10 + device


def silent(config, t):
    return select_silent(config, t, select_poisoned(config, t))


@st.composite
def configs(draw, **fixed):
    k = draw(st.integers(1, 12))
    n = k * draw(st.integers(1, 8))
    q, seed = draw(st.integers(0, k)), draw(st.integers(0, 2**32))
    return RunConfig(n=n, k=k, q=q, seed=seed, **fixed)


@given(configs(), st.integers(1, 10**6))
def test_k_distinct_devices_of_n(config, t):
    selected = select_devices(config, t)
    assert len(selected) == len(set(selected.tolist())) == config.k
    assert selected.min() >= 0 and selected.max() < config.n


@given(configs(selection="permutation"), st.integers(0, 1000))
def test_permutation_blocks_visit_every_device_once_a_sweep(config, sweep):
    blocks = config.n // config.k
    epochs = range(sweep * blocks + 1, (sweep + 1) * blocks + 1)
    visited = np.concatenate([select_devices(config, t) for t in epochs])
    assert sorted(visited.tolist()) == list(range(config.n))


@pytest.mark.parametrize("selection", ["independent", "permutation"])
def test_selection_is_redrawn_and_reaches_every_device(selection):
    config = RunConfig(n=20, k=5, selection=selection)
    drawn = [tuple(select_devices(config, t)) for t in EPOCHS]
    assert len(set(drawn)) == len(EPOCHS)
    assert set(sum(drawn, ())) == set(range(20))
    other = RunConfig(n=20, k=5, selection=selection, seed=1)
    assert [tuple(select_devices(other, t)) for t in EPOCHS] != drawn


def test_independent_selection_is_uniform():
    config = RunConfig(n=20, k=5)
    counts = np.bincount(np.concatenate([select_devices(config, t) for t in range(1, 2001)]))
    assert abs(counts - 500).max() < 100  # five standard deviations of 19


@given(configs(), st.integers(1, 10**6))
def test_exactly_q_distinct_slots_are_poisoned(config, t):
    poisoned = select_poisoned(config, t).tolist()
    assert len(set(poisoned)) == len(poisoned) == config.q
    assert set(poisoned) <= set(range(config.k))


def test_poisoned_slots_are_redrawn_and_reach_every_slot():
    config = RunConfig(k=10, q=3)
    drawn = [tuple(select_poisoned(config, t)) for t in EPOCHS]
    assert len(set(drawn)) > 25
    assert set(sum(drawn, ())) == set(range(10))
    assert drawn == [tuple(select_poisoned(config, t)) for t in EPOCHS]


def test_the_attack_does_not_change_the_selection():
    """Runs that differ in b, alpha or the attack share S_t, so figures compare like with like."""
    base = RunConfig(q=2)
    for change in (dict(b=2), dict(alpha=0.5), dict(attack="nan"), dict(gamma=0.05)):
        other = RunConfig(q=2, **change)
        for t in (1, 2, 9):
            assert select_devices(other, t).tolist() == select_devices(base, t).tolist()
            assert select_poisoned(other, t).tolist() == select_poisoned(base, t).tolist()


def test_drop_rate():
    config = RunConfig(k=10, drop_rate=0.3)
    drawn = [tuple(silent(config, t)) for t in range(1, 501)]
    assert len(set(drawn)) > 100
    rate = sum(map(len, drawn)) / 5000
    assert abs(rate - 0.3) < 0.04  # six standard deviations
    assert set(sum(drawn, ())) == set(range(10))


def test_silent_attack_silences_exactly_the_poisoned_slots():
    config, both = (RunConfig(q=3, attack="silent", drop_rate=rate) for rate in (0, 0.5))
    for t in EPOCHS:
        assert silent(config, t) == select_poisoned(config, t).tolist()
        assert set(silent(both, t)) >= set(select_poisoned(both, t).tolist())
    assert any(len(silent(both, t)) > 3 for t in EPOCHS)


@pytest.mark.parametrize("attack", [x for x in ATTACKS if x not in ("silent", "worst-case")])
def test_no_slot_is_silent_otherwise(attack):
    for config in (RunConfig(), RunConfig(q=3), RunConfig(q=3, attack=attack)):
        assert all(silent(config, t) == [] for t in EPOCHS)


def test_full_passes_by_default():
    task = StepsByDevice()
    assert local_iterations(1, 2, RunConfig(), task) == 12
    assert local_iterations(9, 2, RunConfig(passes=3), task) == 36
    equal = RunConfig(local_steps=(4, 4))
    assert {local_iterations(t, i, equal, task) for t in EPOCHS for i in range(9)} == {4}


def test_heterogeneous_steps_lie_between_their_bounds_and_vary():
    config, task = RunConfig(local_steps=(3, 6)), StepsByDevice()
    drawn = np.array([[local_iterations(t, i, config, task) for i in range(20)] for t in EPOCHS])
    assert set(drawn.ravel().tolist()) == {3, 4, 5, 6}
    assert all(len(set(row.tolist())) > 1 for row in drawn)  # from device to device
    assert all(len(set(column.tolist())) > 1 for column in drawn.T)  # from epoch to epoch
