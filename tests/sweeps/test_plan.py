"""Plans of many runs: shared prefixes, epochs left; and two processes that carry one out."""

import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from helpers.run_folders import keep, numbers

from slsgd_mx.runs.prefix import prefix_of
from slsgd_mx.runs.trainer import train
from slsgd_mx.sweeps.plan import carry_out, make_plan
from slsgd_mx.sweeps.pool import Job, Pool
from slsgd_mx.system.processes import environment

on_problem = pytest.mark.parametrize("tiny", ["problem"], indirect=True)  # the quickest


@pytest.fixture
def run(tiny):
    """``run(alpha, **changes)``: six epochs, evaluated every second, alpha decays after four."""
    six = dict(epochs=6, eval_every=2, alpha_decay_epoch=4)
    return lambda alpha, **changes: tiny(alpha=alpha, **{**six, **changes})


def listed(plan):
    """Every step as (config, epochs left, prefix)."""
    return [(s.config, s.left, s.prefix and s.prefix.config) for s in plan.steps]


def statuses(results):
    return {slug: result.status for slug, result in results.items()}


def test_equal_runs_and_equal_prefixes_are_computed_once(run, tmp_path):
    one, half = run(1), run(0.5)
    trimmed, constant = run(0.5, b=1), run(0.5, alpha_schedule="constant")
    figures = {"fig1": [one, half], "fig2": [half, trimmed, constant]}
    plan = make_plan(figures, tmp_path)
    shared, shared_trimmed = prefix_of(one), prefix_of(trimmed)
    assert listed(plan) == [  # a sweep that is stopped has finished runs, not only prefixes
        (shared, 4, None),
        (one, 2, shared),
        (half, 2, shared),
        (shared_trimmed, 4, None),
        (trimmed, 2, shared_trimmed),
        (constant, 6, None),
    ]
    assert [step.wanted for step in plan.steps] == [False, True, True, False, True, True]
    assert [step.start for step in plan.steps] == [0, 4, 4, 0, 4, 0]
    assert plan.epochs == 4 + 4 + 2 + 2 + 2 + 6
    assert plan.epochs_unshared == 2 * 6 + 3 * 6
    assert plan.to_do == plan.steps and plan.home == tmp_path
    assert list(tmp_path.iterdir()) == []  # planning writes nothing


def test_without_sharing(run, tmp_path):
    one, half = run(1), run(0.5)
    plan = make_plan({"fig1": [one, half], "fig2": [half]}, tmp_path, share=False)
    assert listed(plan) == [(one, 6, None), (half, 6, None)]
    assert (plan.epochs, plan.epochs_unshared) == (12, 18)


def test_a_wanted_run_that_is_the_prefix_of_others(run, tmp_path):
    """As in Figure 5, whose alpha=1 ends where alpha decays in Figure 4."""
    half, short = run(0.5), run(1, epochs=4)
    assert prefix_of(half) == short
    for figures in ({"a": [half], "b": [short]}, {"a": [short, half]}):
        plan = make_plan(figures, tmp_path)
        assert listed(plan) == [(short, 4, None), (half, 2, short)]
        assert all(step.wanted for step in plan.steps)
        assert (plan.epochs, plan.epochs_unshared) == (6, 10)


def test_only_missing_epochs_are_planned(run, tmp_path):
    """One run is done, one begun, and one missing whose prefix is begun."""
    one, half, fifth, alone = run(1), run(0.5), run(0.2), run(0.5, seed=1)
    keep(tmp_path / one.slug, one, 6)
    keep(tmp_path / half.slug, half, 3)
    keep(tmp_path / prefix_of(one).slug, prefix_of(one), 2)
    plan = make_plan({"a": [one, half, fifth], "b": [half, alone]}, tmp_path)
    shared, shared_alone = prefix_of(fifth), prefix_of(alone)
    assert listed(plan) == [
        (one, 0, None),
        (half, 3, None),
        (shared, 2, None),
        (fifth, 2, shared),
        (shared_alone, 4, None),
        (alone, 2, shared_alone),
    ]
    assert plan.epochs == 2 + 4 + 0 + 3 + 2 + 2
    assert plan.epochs_unshared == (0 + 3 + 6) + (3 + 6)
    assert [step.config for step in plan.to_do] == [half, shared, fifth, shared_alone, alone]


@pytest.mark.parametrize("epoch, diverged, left", [(4, False, 2), (2, True, 0)])
def test_a_prefix_that_is_finished_or_diverged_costs_nothing(run, tmp_path, epoch, diverged, left):
    """If it diverged, so does the run that starts from it, which remains to be marked."""
    half = run(0.5)
    prefix = prefix_of(half)
    keep(tmp_path / prefix.slug, prefix, epoch, diverged=diverged)
    plan = make_plan({"a": [half]}, tmp_path)
    assert listed(plan) == [(prefix, 0, None), (half, left, prefix)]
    assert [step.config for step in plan.to_do] == [half]
    assert (plan.epochs, plan.epochs_unshared) == (left, 6)


def test_a_run_with_a_checkpoint_needs_no_prefix(run, tmp_path):
    half = run(0.5)
    keep(tmp_path / half.slug, half, 1)  # before alpha decays: it resumes from there
    assert listed(make_plan({"a": [half]}, tmp_path)) == [(half, 5, None)]


def test_diverged_and_damaged_runs_are_not_computed(run, tmp_path):
    diverged, damaged = run(1, gamma=9), run(0.5)
    keep(tmp_path / diverged.slug, diverged, 2, diverged=True)
    (keep(tmp_path / damaged.slug, damaged, 6) / "metrics.csv").write_text("")
    plan = make_plan({"a": [diverged, damaged]}, tmp_path)
    assert [step.outcome.state for step in plan.steps] == ["diverged", "damaged"]
    assert (plan.epochs, plan.epochs_unshared, plan.to_do) == (0, 0, [])


def test_a_failed_run_is_no_reason_to_try_again(run, tmp_path):
    """Nor is a run that would start from it."""
    failed, waiting, other = run(1, seed=1), run(0.5), run(0.5, seed=2)
    for config in (failed, prefix_of(waiting)):
        (keep(tmp_path / config.slug, config) / "FAILED").write_text("no update was applied")
    plan = make_plan({"a": [failed, waiting]}, tmp_path)
    assert [(s.config, s.outcome.state, s.can_go_on) for s in plan.steps] == [
        (failed, "failed", False),
        (prefix_of(waiting), "failed", False),
        (waiting, "missing", False),
    ]
    pool = SimpleNamespace(run=lambda jobs, listener: {})
    results = carry_out(plan, pool, None)
    assert {result.why for result in results.values()} == {"no update was applied"}
    assert any(s.can_go_on for s in make_plan({"a": [failed, other]}, tmp_path).steps)


def test_planning_does_not_import_mxnet(run, tmp_path):
    half = run(0.5)
    keep(tmp_path / prefix_of(half).slug, prefix_of(half), 4)
    keep(tmp_path / run(1).slug, run(1), 3)
    code = (
        "import sys; from pathlib import Path; from slsgd_mx.config import RunConfig\n"
        "import slsgd_mx.sweeps.forecast; from slsgd_mx.sweeps.plan import make_plan\n"
        "runs = [RunConfig.from_json(text) for text in sys.argv[2:]]\n"
        "print(make_plan({'a': runs}, Path(sys.argv[1])).epochs, 'mxnet' in sys.modules)"
    )
    call = [sys.executable, "-c", code, str(tmp_path), half.to_json(), run(1).to_json()]
    assert subprocess.check_output(call, env=environment(1)).split() == [b"5", b"False"]


def test_a_job_says_where_its_run_its_data_and_its_prefix_are(run, tmp_path):
    """And which data it uses, so that missing data stops no other run."""
    half, real = run(0.5), run(1, data="cifar10", alpha_schedule="constant")
    plan, handed = make_plan({"a": [half, real]}, tmp_path / "runs"), []
    pool = SimpleNamespace(run=lambda jobs, listener: handed.extend(jobs) or {})
    assert carry_out(plan, pool, tmp_path / "data", engine={"workers": 2}) == {}
    prefix, home = prefix_of(half), tmp_path / "runs"
    for config, needs, job in zip((prefix, half, real), (None, prefix, None), handed):
        message = {
            "do": "slsgd_mx.sweeps.job:train",
            "config": config.to_json(),
            "folder": str(home / config.slug),
            "data_dir": str(tmp_path / "data"),
            "log": str(home / "logs" / f"{config.slug}.log"),
            "prefix": needs and str(home / needs.slug),
            "engine": {"workers": 2},
        }
        assert job == Job(config.slug, message, needs and needs.slug, config.sizes.data)
    assert [job.group for job in handed] == ["synthetic", "synthetic", "cifar10"]


@pytest.fixture(scope="module")
def pool():
    with Pool(processes=2, threads=1) as opened:
        yield opened


@pytest.fixture
def short(tiny):
    """``short(alpha, **changes)``: two epochs on two devices, alpha decays after one."""
    few = dict(n=4, k=2, epochs=2, alpha_decay_epoch=1, warm_up=False)
    return lambda alpha, **changes: tiny(alpha=alpha, **{**few, **changes})


@on_problem
def test_two_processes_compute_what_was_planned_and_no_more(pool, short, tmp_path):
    """The second process must not start a run while the first computes its prefix."""
    one, half, constant = short(1), short(0.5), short(0.5, alpha_schedule="constant")
    figures = {"a": [one, half], "b": [half, constant]}
    home = tmp_path / "runs"
    plan = make_plan(figures, home)
    assert plan.epochs == 1 + 1 + 1 + 2 and len(plan.steps) == 4
    heard = []
    results = carry_out(plan, pool, None, lambda job, message: heard.append((job, message)))
    assert statuses(results) == {step.config.slug: "done" for step in plan.steps}
    events = Counter(message["event"] for _, message in heard)
    assert events == {"start": 4, "epoch": plan.epochs, "end": 4}
    starts = {job.name: m["epoch"] for job, m in heard if m["event"] == "start"}
    assert starts == {step.config.slug: step.start for step in plan.steps}
    names = [job.name for job, m in heard if m["event"] in ("start", "end")]
    for step in plan.steps:
        if step.prefix is not None:  # it ended before this run started
            assert names[: names.index(step.config.slug)].count(step.prefix.config.slug) == 2
    assert list((home / "logs").iterdir()) == []
    for folder in (home / half.slug, home / one.slug):
        assert (folder / "DONE").exists()
    assert numbers(home / half.slug) == numbers(train(half, tmp_path / "alone").folder)

    again = make_plan(figures, home)
    assert (again.epochs, again.to_do) == (0, [])
    assert [step.config for step in again.steps] == list(dict.fromkeys(sum(figures.values(), [])))
    assert carry_out(again, pool, None) == {}


@on_problem
def test_a_damaged_run_is_reported_and_the_others_are_computed(pool, short, tmp_path):
    """One that is wanted, and a prefix that another run waits for."""
    damaged, sound, waiting = short(1, seed=2), short(0.5, epochs=1), short(0.5, seed=3)
    for config, epoch in ((damaged, 2), (prefix_of(waiting), 1)):
        (keep(tmp_path / config.slug, config, epoch) / "metrics.csv").write_text("")
    results = carry_out(make_plan({"a": [damaged, sound, waiting]}, tmp_path), pool, None)
    failed = [config.slug for config in (damaged, prefix_of(waiting), waiting)]
    assert statuses(results) == {**dict.fromkeys(failed, "failed"), sound.slug: "done"}
    for config in (damaged, prefix_of(waiting)):
        assert f"{tmp_path / config.slug / 'metrics.csv'} is damaged" in results[config.slug].why
    assert prefix_of(waiting).slug in results[waiting.slug].why
    assert not list((tmp_path / waiting.slug).glob("checkpoint/*"))
