"""Schedules of alpha, through RunConfig.alpha_at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slsgd_mx.config import RunConfig
from slsgd_mx.schedules import SCHEDULES


def alphas(epochs=6, **values):
    config = RunConfig(epochs=epochs, **values)
    return [config.alpha_at(t) for t in range(1, epochs + 1)]


@pytest.mark.parametrize(
    "values, expected",
    [
        (dict(alpha=0.8, alpha_decay_epoch=4), [1.0, 1.0, 1.0, 1.0, 0.8, 0.8]),
        (dict(alpha=0.8, alpha_decay_epoch=0), [0.8] * 6),
        (dict(alpha=0.8, alpha_decay_epoch=6), [1.0] * 6),
        (dict(alpha=0.3, alpha_schedule="constant", alpha_decay_epoch=4), [0.3] * 6),
    ],
)
def test_step_and_constant(values, expected):
    assert alphas(**values) == expected


def test_the_paper_decays_after_epoch_400():
    config = RunConfig(alpha=0.6)
    assert (config.alpha_at(400), config.alpha_at(401), config.alpha_at(800)) == (1.0, 0.6, 0.6)


def test_inverse_square():
    found = alphas(4, alpha=0.9, alpha_schedule="inverse-square")
    assert found == pytest.approx([0.9, 0.9 / 4, 0.1, 0.9 / 16])


@given(
    st.sampled_from(sorted(SCHEDULES)),
    st.integers(1, 10**6),
    st.floats(1e-3, 1),
    st.integers(0, 1000),
)
def test_alpha_is_always_legal(name, t, alpha, decay):
    assert 0 < SCHEDULES[name](t, alpha, decay) <= 1
