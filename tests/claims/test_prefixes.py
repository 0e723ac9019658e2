"""C8: runs that are equal but for alpha have equal prefixes, shared or computed separately."""

import pytest
from helpers.claims_runs import UNBALANCED, judged, only

from slsgd_mx.claims import FAILS, HOLDS, OPEN
from slsgd_mx.figures.variants import Variant

SHARED = dict(sessions=[{"after_epoch": 0, "prefix": "P"}, {"after_epoch": 8}])
PAIRS = 4 + 4 + 3 + 3 + 2 + 2  # of Figures 1, 2, 3, 4, 11 and 12


def began(time):
    return dict(sessions=[{"after_epoch": 0, "prefix": "P", "started": time}])


@pytest.mark.parametrize(
    "change, verdict, apart",
    [
        (lambda c: {}, HOLDS, PAIRS),
        (lambda c: SHARED, OPEN, 0),
        (lambda c: {} if c.alpha < 1 else SHARED, HOLDS, PAIRS),
        (lambda c: {} if c.b == 2 and c.gamma == 0.05 else SHARED, HOLDS, 2),
        (lambda c: dict(sessions=[{"prefix": repr(c.alpha)}]), HOLDS, PAIRS),
        (lambda c: began("2026-01-01T00:00:00Z"), OPEN, 0),
        (lambda c: began(f"2026-01-01T00:00:{10 * c.alpha:02.0f}Z"), HOLDS, PAIRS),  # made again
        (lambda c: began("2026-01-01T00:00:00Z") if c.alpha < 1 else SHARED, OPEN, 0),  # unknown
        (lambda c: dict(sessions=None), OPEN, 0),  # no manifest
        (lambda c: dict(sessions=[]), OPEN, 0),
        (lambda c: dict(sessions="damaged"), OPEN, 0),
        (lambda c: dict(sessions=[{"after_epoch": 8}]), OPEN, 0),
        (lambda c: dict(sessions=[{"prefix": c.alpha}]), OPEN, 0),
    ],
)
def test_pairs_computed_separately(tmp_path, change, verdict, apart):
    found = judged(tmp_path, "C8", lambda c: {**change(c), **until_decay(c)})
    (check,) = found.checks
    assert (found.verdict, check.estimate, check.repeats) == (verdict, 0, PAIRS)
    assert f"{PAIRS} pairs compared, {apart} of them computed apart" in check.note
    assert ("--no-share" in check.note) == (apart == 0)


def test_runs_on_other_threads_are_not_compared(tmp_path):
    def other(config):
        threads = 1 if config.alpha < 1 else 2
        numbers = until_decay(config, 2) if config.b else until_decay(config)
        return {**numbers, "sessions": [{"after_epoch": 0, "threads": threads if config.b else 1}]}

    (check,) = judged(tmp_path, "C8", other).checks
    assert (check.verdict, check.estimate) == (HOLDS, 0) and 0 < check.repeats < PAIRS


def test_a_run_of_an_unknown_machine_is_not_compared_with_another(tmp_path):
    """It may be one that rounds differently."""

    def other(config):
        unknown = dict(sessions=None) if config.alpha < 1 and config.b else {}
        return {**(until_decay(config, 2) if config.b else until_decay(config)), **unknown}

    (check,) = judged(tmp_path, "C8", other).checks
    assert (check.verdict, check.estimate) == (HOLDS, 0) and 0 < check.repeats < PAIRS


def until_decay(config, epoch=None, metric="test_loss", size=1e-16):
    """Numbers that depend on alpha only after the decay, and in one metric of one epoch more."""

    def value(t):
        late = config.alpha * (t > config.alpha_decay_epoch)
        return 0.1 + late + size * (t == epoch and config.alpha < 1)

    same = {name: value if name == metric else 0.25 for name in config.sizes.metrics}
    return same if metric in same else {**same, "test_loss": 0.25}


@pytest.mark.parametrize(
    "metric, epoch, differ",
    [("test_loss", 2, PAIRS), ("train_loss", 8, PAIRS), ("test_perplexity", 12, 4)]
    + [("test_accuracy", 8, PAIRS - 4), ("test_accuracy", 10, 0), ("test_perplexity", 14, 0)],
)
def test_any_difference_before_the_decay_counts(tmp_path, metric, epoch, differ):
    """Even between pairs that share their prefix, according to their manifests."""
    found = judged(tmp_path, "C8", lambda c: {**SHARED, **until_decay(c, epoch, metric)})
    assert found.checks[0].estimate == pytest.approx(differ / PAIRS)
    assert found.verdict == (FAILS if differ else OPEN)
    assert (f"; {differ} differ: " in found.checks[0].note) == (differ > 0)


def test_pairs_that_were_not_evaluated_before_the_decay_are_not_counted(tmp_path):
    """An evaluation every 10 epochs, at T and where a run diverged."""
    early = Variant("smoke", {"epochs": 20, "eval_every": 10, "alpha_decay_epoch": 5}, repeats=1)
    (check,) = judged(tmp_path, "C8", size=early).checks
    assert (check.verdict, check.repeats) == (OPEN, 0) and "say nothing" in check.note
    assert "0 pairs compared, 0 of them computed apart" in check.note


def test_a_run_that_diverged_before_the_decay_differs(tmp_path):
    who = dict(UNBALANCED, gamma=0.05, b=2)
    both = only(who, state="diverged", until=6)
    found = judged(tmp_path / "both", "C8", lambda c: {**until_decay(c), **both(c)})
    assert found.verdict == HOLDS
    one = only(dict(who, alpha=0.8), state="diverged", until=6)
    found = judged(tmp_path / "one", "C8", lambda c: {**until_decay(c), **one(c)})
    assert found.verdict == FAILS and "; 1 differ: " in found.checks[0].note
