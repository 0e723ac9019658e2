"""Random streams: repeatable, and different if any part of the name differs."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slsgd_mx.randomness import integer_seed, stream

NAMES = [
    dict(seed=seed, purpose=purpose, epoch=epoch, device=device)
    for seed, purpose, epoch, device in itertools.product(
        (0, 1, 7), ("select", "poison", "train"), (0, 1, 2), (0, 1, 2)
    )
]


def test_streams_differ_by_seed_purpose_epoch_and_device():
    drawn = {stream(**name).bytes(16) for name in NAMES}
    assert len(drawn) == len(NAMES)
    assert len({integer_seed(**name) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES[::10])
def test_streams_do_not_depend_on_what_was_drawn_before(name):
    first, first_seed = stream(**name).bytes(64), integer_seed(**name)
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    stream(3, "other").bytes(1000)
    assert stream(**name).bytes(64) == first and integer_seed(**name) == first_seed


def test_streams_leave_global_state_alone():
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].tobytes()  # noqa: NPY002
    stream(0, "select", 1).permutation(100)
    assert np.random.get_state()[1].tobytes() == before  # noqa: NPY002


@given(
    st.integers(0, 2**64),
    st.sampled_from(["train", "é", ""]),
    st.integers(0, 10**9),
    st.integers(0, 10**6),
)
def test_integer_seeds_suit_mxnet(seed, purpose, epoch, device):
    assert 0 <= integer_seed(seed, purpose, epoch, device) < 2**31


def test_known_values():
    """A change here changes the numbers of every run."""
    assert stream(0, "select", epoch=3).integers(0, 100, 4).tolist() == [50, 0, 95, 18]
    assert integer_seed(3, "train", 7, 11) == 449320319
