"""What claims are judged by: limits, and the values of runs."""

import math
from pathlib import Path

import pytest
from helpers.claims_runs import ONE, judged, only, rows_of

from slsgd_mx.claims import FAILS, HOLDS, OPEN, checks, measures
from slsgd_mx.claims.evidence import Run
from slsgd_mx.runs.metrics import epochs_to
from slsgd_mx.statistics import Estimate


@pytest.mark.parametrize(
    "mean, least, most",
    [(1.5, HOLDS, FAILS), (1.25, HOLDS, OPEN), (0.75, OPEN, HOLDS), (0.5, FAILS, HOLDS)]
    + [(1.2, OPEN, OPEN), (math.nan, OPEN, OPEN), (math.inf, HOLDS, FAILS)],
)
def test_limits(mean, least, most):
    """The limit is 1; an interval that touches it holds, and does not fail."""
    found = Estimate(mean, 0.25)
    assert (checks.at_least(found, 1.0), checks.at_most(found, 1.0)) == (least, most)


def in_memory(**numbers):
    config = ONE.config("cifar", alpha=0.8)
    return Run(config, Path(), "done", rows_of(config, **numbers))


def test_the_last_quarter():
    run = in_memory(test_loss=lambda t: 1.0 if t <= 12 else t)
    assert measures.final(run, "test_loss") == 15  # epochs 14 and 16


def test_roughness_is_measured_after_the_decay():
    run = in_memory(test_accuracy=lambda t: {10: 0.5, 12: 0.7, 14: 0.4, 16: 0.4}.get(t, 9.0 * t))
    assert measures.roughness(run) == pytest.approx((0.2 + 0.3 + 0) / 3)


def test_the_slow_down_is_the_mean_of_all_evaluations():
    run, other = in_memory(train_loss=lambda t: t), in_memory(train_loss=1.0)
    assert measures.slow_down(run, other) == pytest.approx(9 - 1)


def test_a_loss_is_reached_when_it_is_met():
    run = in_memory(train_loss=lambda t: {4: 1.0, 6: 2.0, 8: 0.5}.get(t, 3.0))
    found = [epochs_to(run.rows, loss) for loss in (1.0, 0.99, 0.5, 0.4)]
    assert found == [4, 8, 8, math.inf]


def test_the_slow_down_without_attack_is_reported_and_not_judged(tmp_path):
    found = judged(tmp_path, "C1", only(dict(b=2, alpha=1.0), train_loss=0.5))
    assert found.verdict == HOLDS
    notes = [check.note.split("; ")[-1] for check in found.checks]
    assert notes[:3] == [f"slow-down {x} (not judged)" for x in ("+0.0000", "-1.0000", "+0.0100")]
