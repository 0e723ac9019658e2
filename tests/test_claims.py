"""Claims on made-up runs: each holds, does not hold and stays open as the numbers say."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slsgd_mx import claims
from slsgd_mx.claims import (
    CLAIMS,
    FAILS,
    HOLDS,
    OPEN,
    Check,
    Verdict,
    catalogue,
    estimates,
    evidence,
    measures,
)
from slsgd_mx.claims.estimates import GUESSING, Estimate
from slsgd_mx.claims.evidence import Run
from slsgd_mx.cli.claims import claims as command
from slsgd_mx.curves import epochs_to
from slsgd_mx.figures import FIGURES, Size, runs_of
from slsgd_mx.store import RunStore, _to_csv

# T=16, an evaluation every 2 epochs, alpha decays at 8 (LSTM: 12); T=8 in Figures 5 and 6
ONE = Size("smoke", {"epochs": 16, "eval_every": 2}, repeats=1, loss=2.0)
FIGURES_OF = {
    **dict(C1="1", C2="1 2", C3="3 4", C4="3 4", C5="3 4", C6="5", C7="6"),
    **dict(C8="1 2 3 4 11 12", C9="11 12"),
}


# ---- made-up runs --------------------------------------------------------------------------


def typical(c):
    """Numbers on which every claim holds; constants or functions of the epoch."""
    lost = 1.0 if c.q and not c.b else 0.25 if c.q else 0.02 if c.b else 0.0
    rough = 0.01 if c.alpha == 1 else 0.005
    if c.alpha_schedule == "constant" or c.epochs == 8:  # Figures 5 and 6
        when = 8 - 4 * (c.b == 4) - 4 * (c.alpha < 0.7) if c.q else 8 / 2 ** (c.passes - 1)
        return dict(train_loss=lambda t: 1.0 if t >= when else 2.5)
    return dict(
        train_loss=1.5 + lost / 2 + 0.1 * (c.task.partition == "unbalanced"),
        test_accuracy=lambda t: at(1 - lost) + rough * (-1) ** (t // 2) * (t > 8),
        test_loss=lambda t: 6.0 if t == 2 else 6 - 2 * (1 - lost),
    )


def at(progress):
    """The accuracy of a run with this progress, where the ideal has 0.6."""
    return 0.1 + 0.5 * progress


def rows_of(config, until=None, **numbers):
    due = [t for t in range(1, config.epochs + 1) if t % config.eval_every == 0]
    values = {name: numbers.get(name, 0.5) for name in RunStore(Path(), config).columns}
    return [
        {
            **{n: repr(float(v(t) if callable(v) else v)) for n, v in values.items()},
            "epoch": str(t),
        }
        for t in due
        if until is None or t <= until
    ]


def write(home, config, state="done", sessions=({"after_epoch": 0},), until=None, **numbers):
    """A run folder as the store leaves it."""
    folder = home / config.slug
    folder.mkdir(parents=True)
    rows = rows_of(config, until, **numbers)
    (folder / "config.json").write_text(config.to_json())
    (folder / "metrics.csv").write_bytes(_to_csv(RunStore(folder, config).columns, rows))
    if sessions is not None:
        (folder / "manifest.json").write_text(json.dumps({"sessions": list(sessions)}))
    if state == "diverged":
        (folder / "DIVERGED").write_text("stopped being finite")
    else:
        (folder / "DONE").write_text(json.dumps(rows[-1]) + "\nmodel 0\n")


def make(home, claim, size=ONE, change=lambda config: {}):
    """The runs a claim needs, typical but for what ``change`` says."""
    runs = [run for n in FIGURES_OF[claim].split() for run in runs_of(FIGURES[f"fig{n}"], size)]
    for config in dict.fromkeys(runs):
        numbers = {**typical(config), **(change(config) or {})}
        if numbers.get("state") != "missing":
            write(home, config, **numbers)


def judge(home, claim, size=ONE):
    return claims.decide(claim, CLAIMS[claim].judge(claims.Evidence(home, size)))


def judged(home, claim, change=lambda config: {}, size=ONE):
    make(home, claim, size, change)
    return judge(home, claim, size)


def only(who, **numbers):
    """Change the runs for which ``who`` is an attribute's value each, as in dict(b=2, q=0)."""

    def change(config):
        own = {"partition": config.task.partition, **vars(config)}
        return numbers if all(own[name] == value for name, value in who.items()) else {}

    return change


def find(verdict, start, end=""):
    """The check of that name, or of the one that starts and ends so."""
    names = [check.what for check in verdict.checks]
    (name,) = [name for name in names if name.startswith(start) and name.endswith(end)]
    return verdict.checks[names.index(name)]


# ---- estimates -----------------------------------------------------------------------------


def test_students_t():
    """Half of the density between -t and t, by the trapezoid rule, is 0.475."""
    for degrees, t in enumerate(estimates._T, start=1):
        x = np.linspace(0, t, 20_001)
        scale = math.gamma((degrees + 1) / 2) / math.gamma(degrees / 2)
        y = (1 + x**2 / degrees) ** (-(degrees + 1) / 2) * scale / math.sqrt(degrees * math.pi)
        area = float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum())
        assert area == pytest.approx(0.475, abs=3e-5)
    assert len(estimates._T) == 30


def test_the_margin_by_hand():
    assert estimates.estimate([0.3], 0.05) == Estimate(0.3, 0.05)
    mean, margin = estimates.estimate([1.0, 2.0, 6.0], 0.05)  # sd = sqrt(7)
    assert mean == 3.0 and margin == pytest.approx(4.303 * math.sqrt(7 / 3))
    assert estimates.estimate([2.0] * 5, 0.05) == Estimate(2.0, 0.0)
    for r, t in ((31, 2.042), (32, 1.96)):
        margin = estimates.estimate([-1.0, 1.0] * (r // 2) + [0.0] * (r % 2), 0.05).margin
        assert margin == pytest.approx(t * math.sqrt(r // 2 * 2 / (r - 1) / r))


@pytest.mark.parametrize(
    "mean, least, most",
    [(1.5, HOLDS, FAILS), (1.25, HOLDS, OPEN), (0.75, OPEN, HOLDS), (0.5, FAILS, HOLDS)]
    + [(1.2, OPEN, OPEN), (math.nan, OPEN, OPEN), (math.inf, HOLDS, FAILS)],
)
def test_limits(mean, least, most):
    """The limit is 1; an interval that touches it holds, and does not fail."""
    found = Estimate(mean, 0.25)
    assert (estimates.at_least(found, 1.0), estimates.at_most(found, 1.0)) == (least, most)


# ---- every claim: holds, fails, stays open -------------------------------------------------


@pytest.mark.parametrize("size", [ONE, replace(ONE, repeats=2, seed=5)])
def test_every_claim_holds_on_typical_runs(tmp_path, size):
    for claim in CLAIMS:
        found = judged(tmp_path / claim, claim, size=size)
        assert found.verdict == HOLDS, claims.to_text([found])
        assert found.missing == [] and {c.verdict for c in found.checks} == {HOLDS}
        fixed = ["one repeat: fixed margin" in check.note for check in found.checks]
        exact = sum("share" in check.what or "roughness" in check.what for check in found.checks)
        assert sum(fixed) == (len(fixed) - exact if size.repeats == 1 else 0)


def test_how_many_checks_a_claim_has(tmp_path):
    numbers = {v.claim: len(v.checks) for v in claims.judge_all(tmp_path, ONE)}
    assert numbers == dict(C1=6, C2=9, C3=4, C4=24, C5=8, C6=2, C7=2, C8=1, C9=8)


def text_at(progress):
    """The test loss of an LSTM with this progress, where FedAvg comes from 6 down to 4."""
    return 6 - 2 * progress


BALANCED, UNBALANCED = dict(partition="balanced"), dict(partition="unbalanced")
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


# ---- seeds, diverged, missing and damaged runs ---------------------------------------------


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
    """What else differs by nats does not hide a difference of a thousandth within each pair."""

    def change(config):
        worse = config.q > 0 if claim == "C4" else config.task.partition == "unbalanced"
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


def test_worse_than_nothing_is_nothing(tmp_path):
    """Else one run that went far astray would leave a sure failure open."""
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


def lose(home, config, state):
    """Make a run that is done one that is not."""
    folder = home / config.slug
    if state == "words":
        (folder / "metrics.csv").write_text((folder / "metrics.csv").read_text().replace("0.", "x"))
        rows = RunStore(folder, config).rows()
        (folder / "DONE").write_text(json.dumps(rows[-1]))
    elif state == "cut":
        (folder / "metrics.csv").write_text("epoch\n2\n")
    elif state == "bytes":
        (folder / "metrics.csv").write_bytes(b"\xff\n")
    elif state == "diverged bytes":  # both
        (folder / "metrics.csv").write_bytes(b"\xff\n")
        (folder / "DIVERGED").write_text("stopped being finite")
    else:
        (folder / "DONE").unlink()
    if state == "begun":
        (folder / "checkpoint").mkdir()
        (folder / "checkpoint" / "epoch-000002.e3b0c44298fc1c14.params").touch()


@pytest.mark.parametrize("state", ["missing", "begun", "words", "cut", "bytes", "diverged bytes"])
def test_runs_that_are_not_there(tmp_path, state):
    """A check goes by the seeds that are whole; a claim does not hold before all runs are there."""
    size = replace(ONE, repeats=2)
    make(tmp_path, "C3", size)
    lost = next(r for r in runs_of(FIGURES["fig3"], size) if (r.q, r.b, r.seed) == (2, 0, 1))
    lose(tmp_path, lost, state)
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
    assert find(found, "balanced, gamma=0.1, alpha=0.8, b=0").estimate is None
    assert "with itself" in find(found, "balanced, gamma=0.1, alpha=0.8, b=0").note
    assert find(found, "balanced, gamma=0.1, alpha=0.8, b=2").estimate is not None
    assert judged(tmp_path / "8", "C8", size=size).checks[0].repeats == 0


# ---- C8: equal beginnings ------------------------------------------------------------------

SHARED = dict(sessions=[{"after_epoch": 0, "prefix": "P"}, {"after_epoch": 8}])
PAIRS = 4 + 4 + 3 + 3 + 2 + 2  # of Figures 1, 2, 3, 4, 11 and 12


@pytest.mark.parametrize(
    "change, verdict, apart",
    [
        (lambda c: {}, HOLDS, PAIRS),
        (lambda c: SHARED, OPEN, 0),
        (lambda c: {} if c.alpha < 1 else SHARED, HOLDS, PAIRS),
        (lambda c: {} if c.b == 2 and c.gamma == 0.05 else SHARED, HOLDS, 2),
        (lambda c: dict(sessions=[{"prefix": repr(c.alpha)}]), HOLDS, PAIRS),
        (lambda c: dict(sessions=None), OPEN, 0),  # nobody knows
        (lambda c: dict(sessions=[]), OPEN, 0),
        (lambda c: dict(sessions="damaged"), OPEN, 0),
        (lambda c: dict(sessions=[{"after_epoch": 8}]), OPEN, 0),
        (lambda c: dict(sessions=[{"prefix": c.alpha}]), OPEN, 0),
        (lambda c: dict(sessions=None) if c.alpha < 1 else {}, OPEN, 0),
    ],
)
def test_pairs_computed_apart(tmp_path, change, verdict, apart):
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


def until_decay(config, epoch=None, metric="test_loss", size=1e-16):
    """Numbers that depend on alpha only after the decay, and in one metric of one epoch more."""

    def value(t):
        late = config.alpha * (t > config.alpha_decay_epoch)
        return 0.1 + late + size * (t == epoch and config.alpha < 1)

    same = {name: value if name == metric else 0.25 for name in config.task.metrics}
    return same if metric in same else {**same, "test_loss": 0.25}


@pytest.mark.parametrize(
    "metric, epoch, differ",
    [("test_loss", 2, PAIRS), ("train_loss", 8, PAIRS), ("test_perplexity", 12, 4)]
    + [("test_accuracy", 8, PAIRS - 4), ("test_accuracy", 10, 0), ("test_perplexity", 14, 0)],
)
def test_any_difference_before_the_decay_counts(tmp_path, metric, epoch, differ):
    """Even of pairs that share their beginning, as the folders say."""
    found = judged(tmp_path, "C8", lambda c: {**SHARED, **until_decay(c, epoch, metric)})
    assert found.checks[0].estimate == pytest.approx(differ / PAIRS)
    assert found.verdict == (FAILS if differ else OPEN)
    assert (f"; {differ} differ: " in found.checks[0].note) == (differ > 0)


def test_pairs_that_were_not_evaluated_before_the_decay_are_not_counted(tmp_path):
    """An evaluation every 10 epochs, at T and where a run diverged."""
    early = Size("smoke", {"epochs": 20, "eval_every": 10, "alpha_decay_epoch": 5}, repeats=1)
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


# ---- values --------------------------------------------------------------------------------


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


def test_the_slow_down_without_attack_is_told_and_not_judged(tmp_path):
    found = judged(tmp_path, "C1", only(dict(b=2, alpha=1.0), train_loss=0.5))
    assert found.verdict == HOLDS
    notes = [check.note.split("; ")[-1] for check in found.checks]
    assert notes[:3] == [f"slow-down {x} (not judged)" for x in ("+0.0000", "-1.0000", "+0.0100")]


# ---- what is printed and written -----------------------------------------------------------


def test_every_claim_is_said_with_its_rule():
    assert list(CLAIMS) == [f"C{n}" for n in range(1, 10)]
    for id, claim in CLAIMS.items():
        assert claim.id == id and claim.rule and claim.where.startswith("Fig. ")
    assert all("one repeat" in CLAIMS[f"C{n}"].rule for n in (1, 2, 3, 4, 5, 6, 7, 9))


def test_a_claim_without_checks_is_open():
    assert claims.decide("C1", []) == Verdict("C1", OPEN, [], [])


def test_text(tmp_path):
    lines = claims.to_text([judged(tmp_path, "C3")]).splitlines()
    assert lines[0] == "C3  holds  (Fig. 3, 4) under label flipping b=0 fails catastrophically"
    assert lines[1] == f"    rule: {CLAIMS['C3'].rule}" and len(lines) == 2 + 4
    assert lines[2] == (
        "    holds            balanced, gamma=0.1, alpha=1, b=0, q=2: progress 0 +- 0.05, at most "
        "0.5, r=1; one repeat: fixed margin"
    )


def test_json_holds_all_and_is_the_same_every_time(tmp_path):
    for home, order in ((tmp_path / "a", 1), (tmp_path / "b", -1)):
        runs = {run: 0 for name in FIGURES for run in runs_of(FIGURES[name], ONE)}
        for config in list(runs)[::order][:60]:
            write(home, config, **typical(config))
    verdicts = claims.judge_all(tmp_path / "a", ONE)
    text = claims.to_json(verdicts, {"preset": "smoke"})
    read = json.loads(text)
    assert read["about"] == {"preset": "smoke"}
    assert json.dumps(read, sort_keys=True, indent=1) + "\n" == text
    for verdict, found in zip(verdicts, read["claims"]):
        claim = CLAIMS[found["id"]]
        assert [found[x] for x in ("text", "where", "rule")] == [
            claim.text,
            claim.where,
            claim.rule,
        ]
        checks = [
            Check(**{**c, "missing": k.missing}) for c, k in zip(found["checks"], verdict.checks)
        ]
        assert [c["missing"] for c in found["checks"]] == [len(k.missing) for k in verdict.checks]
        assert Verdict(found["id"], found["verdict"], checks, found["missing"]) == verdict
    assert claims.to_json(claims.judge_all(tmp_path / "a", ONE), {"preset": "smoke"}) == text
    assert str(tmp_path) not in text


def test_json_has_no_bare_nan():
    checks = [
        Check("x", OPEN, "at most", 0.0, math.nan, math.inf),
        Check("y", OPEN, "at least", -math.inf),
    ]
    text = claims.to_json([Verdict("C1", OPEN, checks, [])])

    def refuse(constant):
        raise AssertionError(constant)

    first, second = json.loads(text, parse_constant=refuse)["claims"][0]["checks"]
    assert (first["estimate"], first["margin"], second["limit"]) == ("NaN", "Infinity", "-Infinity")


def test_markdown_shows_the_numbers_a_verdict_hangs_on():
    checks = [
        Check("a|b", HOLDS, "at least", 0.9, 0.95, 0.01, 3),
        Check("nearest", HOLDS, "at least", 0.9, 0.97, 0.06, 3),
        Check("most", HOLDS, "at most", 0.5, 0.1, 0.05, 3),
        Check("fails", FAILS, "at most", 0.5, 0.9, 0.05, 3),
        Check("fails by more", FAILS, "at most", 0.5, 1.9, 0.05, 3),
        Check("without a value", OPEN, "at most", 0.5),
    ]
    head, line, holds, fails, empty = claims.to_markdown(
        [claims.decide("C1", checks[:3]), claims.decide("C2", checks), claims.decide("C3", [])]
    ).splitlines()
    assert head == "| claim | where | verdict | decisive numbers |" and line.count("---") == 4
    assert holds.endswith(
        "| Fig. 1 | holds | 3 of 3 checks hold; nearest 0.97 +- 0.06, at least 0.9, r=3 |"
    )
    assert "| does not hold | 3 of 6 checks hold; fails by more 1.9 +- 0.05, at most 0.5" in fails
    assert empty.endswith("| not enough data | 0 of 0 checks hold |")
    assert "a\\|b" in claims.to_markdown([claims.decide("C1", checks[:1])])


# ---- the command ---------------------------------------------------------------------------


ASKED = ["--preset", "smoke", "--repeats", "1", "--seed", "7", "--epochs", "16"]


def call(capsys, *arguments):
    command.main(list(arguments), standalone_mode=False)
    return capsys.readouterr()


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    size = Size("smoke", {"epochs": 16}, repeats=1, seed=7)
    make(Path("runs"), "C3", size, only(dict(q=2), test_accuracy=0.6))
    verdicts = claims.judge_all(Path("runs"), size)
    assert [v.verdict for v in verdicts] == [OPEN, OPEN, FAILS, HOLDS, HOLDS, *[OPEN] * 4]
    said = call(capsys, *ASKED)
    assert said.out == claims.to_text(verdicts) + (
        "what to do now: slsgd-mx all --preset smoke --repeats 1 --seed 7 --epochs 16 "
        "computes the missing runs\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    said = call(capsys, *ASKED, "--json", "--out", "made/here")
    about = {"preset": "smoke", "seeds": [7], "changes": {"epochs": 16}}
    about.update(alphas=[0.6, 0.8, 1.0], loss=None)
    assert said.out == claims.to_json(verdicts, about) and "computes the missing" in said.err
    assert Path("made/here/claims.json").read_text() == said.out
    assert Path("made/here/claims.md").read_text() == claims.to_markdown(verdicts)


def test_the_command_on_another_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    said = call(capsys, "--runs", "else where", "--preset", "laptop").out
    assert "slsgd-mx all --preset laptop --runs 'else where' computes" in said
    assert said.count("not enough data  (Fig.") == 9 and "at least 0.9, no value, 6 runs" in said
    assert list(tmp_path.iterdir()) == []


def test_the_command_without_anything_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(catalogue, "CLAIMS", {"C3": CLAIMS["C3"]})
    make(tmp_path, "C3", Size("smoke", {"epochs": 16}, repeats=1, seed=7))
    said = call(capsys, *ASKED, "--runs", str(tmp_path))
    assert said.out.startswith("C3  holds") and "what to do" not in said.out + said.err


def test_nothing_heavy_is_imported(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom slsgd_mx import claims, figures\n"
        "claims.to_json(claims.judge_all(Path('none'), figures.Size('smoke', {})))\n"
        "print({'mxnet', 'matplotlib'} & set(sys.modules))"
    )
    home = {**os.environ, "PYTHONPATH": str(Path(claims.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, env=home, cwd=tmp_path
    )
    assert done.stdout == b"set()\n"
