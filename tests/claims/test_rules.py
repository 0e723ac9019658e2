"""Claims on made-up runs: each holds, does not hold and stays open as the numbers say."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.claims_runs import (
    BALANCED,
    FIGURES_OF,
    ONE,
    UNBALANCED,
    at,
    find,
    judge,
    judged,
    make,
    only,
    write,
)

from slsgd_mx import claims
from slsgd_mx.claims import FAILS, HOLDS, OPEN, evidence
from slsgd_mx.claims.measures import GUESSING
from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.variants import runs_of
from slsgd_mx.runs.metrics import read_metrics

# ---- every claim: holds, fails, stays open -------------------------------------------------------


@pytest.mark.parametrize("size", [ONE, replace(ONE, repeats=2, seed=5)])
def test_every_claim_holds_on_typical_runs(tmp_path, size):
    for claim in FIGURES_OF:
        found = judged(tmp_path / claim, claim, size=size)
        assert found.verdict == HOLDS, claims.to_text([found])
        assert found.missing == [] and {c.verdict for c in found.checks} == {HOLDS}
        fixed = ["one repeat: fixed margin" in check.note for check in found.checks]
        exact = sum("share" in check.what or "roughness" in check.what for check in found.checks)
        assert sum(fixed) == (len(fixed) - exact if size.repeats == 1 else 0)


def test_how_many_checks_a_claim_has(tmp_path):
    numbers = {v.claim: len(v.checks) for v in claims.judge_all(tmp_path, ONE)}
    assert numbers == dict(C1=6, C2=9, C3=4, C4=24, C5=8, C6=2, C7=2, C8=1, C9=8,
                           C10=13, C11=21, C12=2)  # fmt: skip


def text_at(progress):
    """The test loss of an LSTM with this progress, where FedAvg comes from 6 down to 4."""
    return 6 - 2 * progress


CNN, TEXT, TRAIN = ("test_accuracy", at), ("test_loss", text_at), ("train_loss", float)
LIMITS = [  # claim, which runs, metric, values with which it holds, is open twice, fails
    ("C1", dict(gamma=0.05, alpha=0.8, b=2), CNN, (0.951, 0.949, 0.851, 0.849)),
    ("C1", dict(gamma=0.1, alpha=0.8, b=0), CNN, (0.951, 0.949, 0.851, 0.849)),
    ("C2", dict(UNBALANCED, alpha=0.8, b=0), TRAIN, (1.521, 1.519, 1.481, 1.479)),
    ("C3", dict(UNBALANCED, q=4, b=0), CNN, (0.449, 0.451, 0.549, 0.551)),
    ("C4", dict(BALANCED, q=2, b=4), CNN, (0.551, 0.549, 0.451, 0.449)),
    ("C4", dict(UNBALANCED, q=4, b=4, alpha=0.8), TRAIN, (1.621, 1.619, 1.581, 1.579)),
    ("C5", dict(q=4, b=4, alpha=1.0), TRAIN, [GUESSING + d / 1000 for d in (-21, -19, 19, 21)]),
    ("C9", dict(q=0, b=2), TEXT, (0.951, 0.949, 0.851, 0.849)),
    ("C9", dict(q=2, b=0), TEXT, (0.449, 0.451, 0.549, 0.551)),
    ("C9", dict(q=2, b=4, alpha=0.8), TEXT, (0.551, 0.549, 0.451, 0.449)),
]


@pytest.mark.parametrize("claim, who, metric, values", LIMITS)
def test_limits_of_claims(tmp_path, claim, who, metric, values):
    name, convert = metric
    for value, verdict in zip(values, (HOLDS, OPEN, OPEN, FAILS)):
        change = only(who, **{name: convert(value)})
        found = judged(tmp_path / str(value), claim, change)
        assert found.verdict == verdict, claims.to_text([found])


@pytest.mark.parametrize("smooth, verdict", [(0.0095, HOLDS), (0.0099, OPEN), (0.0105, FAILS)])
def test_roughness(tmp_path, smooth, verdict):
    """Four pairs, three of them with that roughness at alpha=0.8 and one with a bit more."""

    def change(config):
        r = 0.01 if config.alpha == 1 else smooth + 0.0002 * (config.b == 2 and config.gamma > 0.06)
        return dict(test_accuracy=lambda t: 0.5 + r * (-1) ** (t // 2) if t > 8 else t / 16)

    check = judged(tmp_path, "C2", change).checks[-1]
    assert (check.verdict, check.repeats) == (verdict, 4)
    logs = [math.log(100 * smooth)] * 3 + [math.log(100 * smooth + 0.02)]
    assert check.estimate == pytest.approx(np.mean(logs))
    assert check.margin == pytest.approx(3.182 * np.std(logs, ddof=1) / 2)


@pytest.mark.parametrize("alphas", [(1.0,), (0.8,), (1.0, 0.8)])
def test_roughness_needs_four_pairs_of_runs_that_change(tmp_path, alphas):
    flat = only(dict(UNBALANCED, b=2, gamma=0.1), test_accuracy=0.5)
    check = judged(tmp_path, "C2", lambda c: flat(c) if c.alpha in alphas else {}).checks[-1]
    assert (check.verdict, check.estimate) == (OPEN, None)
    assert "1 of 4 say nothing" in check.note and "3 values, and 4 are needed" in check.note


def reaching(*epochs_by):
    """Training losses that are low from an epoch on: (who, epoch) pairs, None for never."""

    def change(config):
        for who, when in epochs_by:
            if only(who, yes=True)(config):
                return dict(train_loss=lambda t, when=when: 1.0 if when and t >= when else 2.5)
        return {}

    return change


B2, B4, FAST, SLOW = dict(b=2), dict(b=4), dict(alpha=0.6), dict(alpha=1.0)


@pytest.mark.parametrize(
    "claim, change, what, saved, verdict",
    [
        ("C6", reaching((B2, 8), (B4, 4)), "b=4 over b=2", 4, HOLDS),
        ("C6", reaching((B2, 6), (B4, 4)), "b=4 over b=2", 2, OPEN),  # not 2.2 or more
        ("C6", reaching((B2, 6), (B4, 6)), "b=4 over b=2", 0, OPEN),
        ("C6", reaching((B2, 4), (B4, 6)), "b=4 over b=2", -2, FAILS),
        ("C6", reaching((B2, None), (B4, 6)), "b=4 over b=2", 4, HOLDS),  # never is 8 + 2
        ("C6", reaching((B2, 4), (B4, None)), "b=4 over b=2", -6, FAILS),
        ("C6", reaching((B2, None), (B4, None)), "b=4 over b=2", None, OPEN),
        ("C6", reaching((SLOW, 8), (FAST, 4)), "alpha=0.6 over alpha=1", 4, HOLDS),
        ("C6", reaching((SLOW, 2), (FAST, 8)), "alpha=0.6 over alpha=1", -6, FAILS),
        ("C7", reaching((dict(passes=2), 2)), "pass=2", 6, HOLDS),
        ("C7", reaching((dict(passes=1), 2)), "pass=2", -2, FAILS),
        ("C7", reaching((dict(passes=3), 8)), "pass=3", 0, OPEN),
        ("C7", reaching((dict(passes=3), None)), "pass=3", -2, FAILS),
    ],
)
def test_epochs_to_the_loss(tmp_path, claim, change, what, saved, verdict):
    (check,) = [c for c in judged(tmp_path, claim, change).checks if f" by {what}" in c.what]
    assert (check.verdict, check.estimate, check.limit) == (verdict, saved, 0.2)
    assert check.margin == (None if saved is None else 2)


# ---- seeds, diverged, missing and damaged runs ---------------------------------------------------


def by_seed(who, metric, values):
    return lambda config: only(who, **{metric: values[config.seed]})(config)


def test_the_margin_of_a_claim_by_hand(tmp_path):
    """Progress 0.3, 0.4 and 0.35: mean 0.35, sd 0.05."""
    who, values = dict(q=2, partition="balanced"), [at(p) for p in (0.3, 0.4, 0.35)]
    found = judged(tmp_path, "C3", by_seed(who, "test_accuracy", values), replace(ONE, repeats=3))
    check = find(found, "balanced, gamma=0.1, alpha=1, b=0, q=2")
    assert found.verdict == HOLDS and check.repeats == 3 and check.note == ""
    assert check.estimate == pytest.approx(0.35)
    assert check.margin == pytest.approx(4.303 * 0.05 / math.sqrt(3))


@pytest.mark.parametrize("claim", ["C2", "C4"])
def test_seeds_are_paired(tmp_path, claim):
    """Differences of nats between pairs do not hide a thousandth within each pair."""

    def change(config):
        worse = config.q > 0 if claim == "C4" else config.sizes.partition == "unbalanced"
        curve = config.alpha + config.b + config.gamma if claim == "C2" else config.gamma
        return dict(train_loss=10.0 * config.seed + curve + 0.001 * worse)

    found = judged(tmp_path, claim, change, replace(ONE, repeats=3))
    checks = [check for check in found.checks if "slow-down" in check.what]
    assert {check.verdict for check in checks} == {HOLDS}
    assert {round(check.estimate, 9) for check in checks} == {0.001}


def test_progress_is_paired_with_the_ideal_of_its_seed(tmp_path):
    """Ideals of accuracy 0.6 and 0.3, and runs with half of what each learned."""

    def change(config):
        return dict(test_accuracy=0.1 + [0.5, 0.2][config.seed] * (0.5 if config.q else 1.0))

    found = judged(tmp_path, "C3", change, replace(ONE, repeats=2))
    assert [check.estimate for check in found.checks] == pytest.approx([0.5] * 4)
    assert all(check.margin < 1e-9 for check in found.checks)


GOOD = dict(test_accuracy=0.6, train_loss=0.1)  # up to where a run diverged
DIVERGED = dict(**GOOD, state="diverged", until=6)


@pytest.mark.parametrize("until", [6, 16])
def test_a_diverged_run_has_learned_nothing(tmp_path, until):
    diverged = {**DIVERGED, "until": until}
    found = judged(tmp_path / "3", "C3", only(dict(q=2, b=0), **diverged))
    assert found.verdict == HOLDS and find(found, "unbalanced", "q=2: progress").estimate == 0
    curve = "unbalanced, gamma=0.1, alpha=0.8, b=4, q=4: "
    found = judged(tmp_path / "4", "C4", only(dict(q=4, alpha=0.8), **diverged))
    assert found.verdict == FAILS and find(found, curve + "progress").estimate == 0
    slow = find(found, curve + "slow-down")  # as slow as guessing
    assert slow.estimate == pytest.approx(GUESSING - 1.6) and slow.verdict == HOLDS
    found = judged(tmp_path / "5", "C5", only(dict(q=4, alpha=0.8), **diverged))
    assert found.verdict == FAILS and find(found, curve + "final").estimate == GUESSING
    assert find(found, curve + "share").estimate == 1


def test_one_of_many_that_diverged_is_one_too_many(tmp_path):
    last = only(dict(q=4, alpha=0.8, seed=2, partition="balanced"), **DIVERGED)
    found = judged(tmp_path, "C5", last, replace(ONE, repeats=3))
    share = find(found, "balanced, gamma=0.1, alpha=0.8, b=4, q=4: share")
    assert (share.estimate, share.margin, share.verdict) == (pytest.approx(1 / 3), 0, FAILS)


@pytest.mark.parametrize(
    "task, metric, state",
    [("cifar", "train_loss", "diverged"), ("cifar", "test_accuracy", "diverged")]
    + [("lstm", "test_loss", "diverged"), ("lstm", "test_perplexity", "done")],
)
def test_an_infinite_loss_is_divergence(tmp_path, task, metric, state):
    """The trainer stops at NaN only; the perplexity of a finite loss may well be infinite."""
    for value in (math.inf, math.nan, 1e40):
        config = ONE.config(task)
        write(tmp_path / str(value), config, **{metric: lambda t, v=value: v if t == 4 else 1.0})
        assert evidence.read_run(tmp_path / str(value) / config.slug, config).state == state


def test_a_diverged_run_never_reached_its_loss(tmp_path):
    check = judged(tmp_path, "C6", only(B4, **DIVERGED)).checks[0]
    assert check.verdict == FAILS and check.estimate == pytest.approx((8 + 8 + 4) / 3 - 10)


@pytest.mark.parametrize("claim", ["C1", "C3", "C4"])
@pytest.mark.parametrize("ideal", [DIVERGED, dict(test_accuracy=0.149), dict(test_accuracy=0.0)])
def test_an_ideal_that_learned_nothing_decides_nothing(tmp_path, claim, ideal):
    change = only(dict(q=0, b=0, alpha=1.0, seed=1), **ideal)
    found = judged(tmp_path, claim, change, replace(ONE, repeats=2))
    assert found.verdict == OPEN and {check.estimate for check in found.checks} == {None}
    assert all("learned next to nothing" in check.note for check in found.checks)


@pytest.mark.parametrize("gained", [0.049, -1.0])
def test_text_of_which_nothing_was_learned(tmp_path, gained):
    change = only(dict(q=0, b=0, alpha=1.0), test_loss=lambda t: 6.0 - gained * (t > 2))
    found = judged(tmp_path, "C9", change)
    assert found.verdict == OPEN and {check.estimate for check in found.checks} == {None}


def test_progress_is_never_negative(tmp_path):
    """Otherwise one run far below "nothing learned" would leave a clear failure open."""
    astray = by_seed(dict(q=2, b=0), "test_loss", [6.0, 1e6])
    found = judged(tmp_path, "C9", astray, replace(ONE, repeats=2))
    assert found.verdict == HOLDS and find(found, "LSTM", "b=0, q=2: progress").estimate == 0


def test_pairs_that_both_diverged_say_nothing(tmp_path):
    first = dict(gamma=0.1, b=0, alpha=1.0)
    check = judged(tmp_path / "2", "C2", only(first, **DIVERGED)).checks[0]
    assert (check.verdict, check.estimate) == (OPEN, None) and "1 of 1 say nothing" in check.note
    never = reaching((dict(b=2, alpha=1.0), None), (dict(b=4, alpha=1.0), None))
    check = judged(tmp_path / "6", "C6", never).checks[0]
    assert check.estimate == pytest.approx(((4 - 2) + (8 - 4)) / 2)


def lose(folder, state):
    """Damage a finished run, or make it unfinished."""
    metrics = folder / "metrics.csv"
    if state == "words":
        metrics.write_text(metrics.read_text().replace("0.", "x"))
        (folder / "DONE").write_text(json.dumps(read_metrics(folder)[-1]))
    elif state == "cut":
        metrics.write_text("epoch\n2\n")
    elif state.endswith("bytes"):
        metrics.write_bytes(b"\xff\n")
    else:
        (folder / "DONE").unlink()
    if state == "diverged bytes":
        (folder / "DIVERGED").write_text("stopped being finite")
    if state == "begun":
        (folder / "checkpoint").mkdir()
        (folder / "checkpoint" / "epoch-000002.e3b0c44298fc1c14.params").touch()


@pytest.mark.parametrize("state", ["missing", "begun", "words", "cut", "bytes", "diverged bytes"])
def test_missing_and_damaged_runs(tmp_path, state):
    """A check uses the seeds whose runs are finished; a claim needs all of them to hold."""
    size = replace(ONE, repeats=2)
    make(tmp_path, "C3", size)
    lost = next(r for r in runs_of(FIGURES["fig3"], size) if (r.q, r.b, r.seed) == (2, 0, 1))
    lose(tmp_path / lost.slug, state)
    found = judge(tmp_path, "C3", size)
    name = lost.slug + {"missing": "", "begun": " (begun)"}.get(state, " (damaged)")
    check = found.checks[0]
    assert (check.verdict, check.repeats, check.margin) == (HOLDS, 1, 0.05)
    assert found.verdict == OPEN and found.missing == check.missing == [name]
    assert found.checks[1].missing == [] and "one repeat: fixed margin" in check.note
    text = claims.to_text([found])
    assert "r=1, 1 run missing; " in text and f"missing: {name}\n" in text


def test_a_diverged_run_whose_rows_cannot_be_read(tmp_path):
    config = ONE.config("cifar", alpha=0.8)
    write(tmp_path, config, **DIVERGED)
    path = tmp_path / config.slug / "metrics.csv"
    assert evidence.read_run(path.parent, config).state == "diverged"
    path.write_text(path.read_text().replace("\n2,", "\nx,"))  # its first epoch
    assert evidence.read_run(path.parent, config).state == "damaged"


def test_missing_runs_do_not_hide_a_failure(tmp_path):
    size, unharmed = replace(ONE, repeats=2), only(dict(q=2, b=0, seed=0), test_accuracy=0.6)
    gone = only(dict(q=2, b=0, seed=1), state="missing")
    found = judged(tmp_path, "C3", lambda c: {**unharmed(c), **gone(c)}, size)
    assert found.verdict == FAILS and len(found.missing) == 2


def test_an_alpha_that_never_decays_is_not_compared(tmp_path):
    size = replace(ONE, changes={"epochs": 2, "eval_every": 2})
    found = judged(tmp_path, "C1", size=size)
    check = find(found, "balanced, gamma=0.1, alpha=0.8, b=0")
    assert check.estimate is None and "with itself" in check.note
    assert find(found, "balanced, gamma=0.1, alpha=0.8, b=2").estimate is not None
    assert judged(tmp_path / "8", "C8", size=size).checks[0].repeats == 0


def test_a_rule_without_b_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="rule='median' has no b, and the claims compare"):
        claims.judge_all(tmp_path, replace(ONE, changes={"rule": "median"}))
    claims.judge_all(tmp_path, replace(ONE, changes={"rule": "phocas"}))
