"""Filters by symbols, what differs between runs, names that find a run."""

from dataclasses import replace

import pytest
from helpers.run_folders import keep, store_run

from slsgd_mx.errors import ConfigError
from slsgd_mx.runs.records import load_runs
from slsgd_mx.runs.selection import find_run, in_common, labels, select, short_names, varying


@pytest.fixture(scope="module")
def home(tiny, tmp_path_factory):
    """Two attacks, two b, two seeds; losses 1 to 4."""
    home = tmp_path_factory.mktemp("runs")
    for loss, changes in enumerate(
        [
            dict(b=0, q=0),
            dict(b=1, q=1),
            dict(b=1, q=1, attack="negation", seed=1),
            dict(b=0, q=2, local_steps=(2, 5)),
        ],
        start=1,
    ):
        store_run(home, tiny(**changes), [loss] * 3)
    return home


@pytest.fixture(scope="module")
def runs(home):
    return sorted(load_runs(home), key=lambda run: run.last["train_loss"])


@pytest.mark.parametrize(
    "conditions, losses",
    [
        ([], [1, 2, 3, 4]),
        (["b=1"], [2, 3]),
        (["b == 1.0"], [2, 3]),
        (["b!=1"], [1, 4]),
        (["q>=1"], [2, 3, 4]),
        (["q>1"], [4]),
        (["q<1"], [1]),
        (["q<=1", "b=1"], [2, 3]),
        (["attack=label-flip"], [2, 4]),
        (["attack!=label-flip"], [1, 3]),
        (["attack=none"], [1]),
        (["local_steps=2:5"], [4]),
        (["H=none", "T=3"], [1, 2, 3]),
        (["warm_up=yes"], [1, 2, 3, 4]),
        (["warm_up=True"], [1, 2, 3, 4]),
        (["warm_up=false"], []),
        (["attack=None"], [1]),
        (["status=done", "epoch=3"], [1, 2, 3, 4]),
        (["train_loss>2.5"], [3, 4]),
        (["train_loss!=nan"], [1, 2, 3, 4]),
        (["vocab_size>0"], []),  # of another task
        (["width=2", "b=many"], []),
    ],
)
def test_conditions(runs, conditions, losses):
    assert [run.last["train_loss"] for run in select(runs, conditions)] == losses


@pytest.mark.parametrize(
    "condition, said",
    [
        ("b", "'b' is not a condition: write NAME=VALUE"),
        ("=2", "is not a condition"),
        ("q>=many", ">= needs a number, not 'many'"),
        ("q>=nan", ">= needs a number, not 'nan'"),
        ("beta=2", "'beta=2' names no symbol: choose one of task, data, partition, n, k, b, q"),
    ],
)
def test_wrong_conditions_name_what_is_legal(runs, condition, said):
    with pytest.raises(ConfigError) as error:
        select(runs, [condition])
    assert said in str(error.value)


def test_a_metric_that_is_nan_is_found(tiny, tmp_path):
    for seed, loss in enumerate((1.0, float("nan"), float("inf"))):
        store_run(tmp_path, tiny(seed=seed), [loss] * 3)
    runs = load_runs(tmp_path)
    assert [run.symbols["seed"] for run in select(runs, ["train_loss=nan"])] == [1]
    assert [run.symbols["seed"] for run in select(runs, ["train_loss!=NaN"])] == [0, 2]
    assert [run.symbols["seed"] for run in select(runs, ["train_loss=inf"])] == [2]


def test_what_differs_and_what_is_common(runs):
    assert varying(runs) == ["b", "q", "local_steps", "attack", "seed"]
    assert varying(runs[:1]) == [] and varying([]) == [] and in_common([]) == {}
    common = in_common(runs)
    assert (common["k"], common["width"], common["task"]) == (4, 2, "cifar")
    assert "gamma" not in common and "b" not in common  # the default, and not common
    assert labels(runs)[0] == "b=0, q=0, seed=0"
    assert labels(runs)[2] == "b=1, q=1, attack=negation, seed=1"
    assert labels(runs[1:3], but=["seed"]) == ["attack=label-flip", "attack=negation"]


def test_a_bare_name_matches_any_parameters(tiny, tmp_path):
    for attack in ("alie", "alie:z=2", "negation"):
        store_run(tmp_path, tiny(q=2, attack=attack, rule="nnm+centered-clipping:tau=3"), [1] * 3)
    runs = load_runs(tmp_path)
    chosen = [len(select(runs, [f"attack{x}"])) for x in ("=alie", "!=alie", "=alie:z=2", "=ali")]
    assert chosen == [2, 1, 1, 0]
    assert len(select(runs, ["rule=nnm+centered-clipping"])) == 3


def test_an_attack_is_shown_with_a_scale_that_is_not_its_own(tiny, tmp_path):
    for scale in (None, 7.5):
        store_run(tmp_path, tiny(q=1, attack="negation", attack_scale=scale, seed=0), [1, 1, 1])
    store_run(tmp_path, tiny(), [1, 1, 1])
    runs = load_runs(tmp_path)
    assert "attack_scale" in varying(runs)
    assert sorted(labels(runs))[-1].endswith("attack=negation, attack_scale=7.5")


def test_the_decay_epoch_does_not_count_where_alpha_does_not_decay(tiny, tmp_path):
    store_run(tmp_path, tiny(alpha=1, alpha_decay_epoch=3), [1, 1, 1])
    store_run(tmp_path, tiny(alpha=0.5, alpha_decay_epoch=2), [1, 1, 1])
    assert varying(load_runs(tmp_path)) == ["alpha"]
    store_run(tmp_path, tiny(alpha=0.5, alpha_decay_epoch=1), [1, 1, 1])
    assert varying(load_runs(tmp_path)) == ["alpha", "alpha_decay_epoch"]


def test_names_are_short_and_find_their_run(tiny, home, runs, tmp_path):
    names = short_names([run.path for run in runs], home)
    assert all(len(name) == 6 and path.name[-12:][:6] == name for path, name in names.items())
    for run in runs:
        for text in (names[run.path], run.path.name, str(run.path), run.path.name[-12:]):
            assert find_run(text, runs, home) == run.path
    assert find_run("negation", runs, home) == runs[2].path
    with pytest.raises(ConfigError, match=r"'label-flip' is part of 2 runs \(.*\): name one"):
        find_run("label-flip", runs, home)
    with pytest.raises(ConfigError, match="'zebra' is no run folder, nor part of the name of one"):
        find_run("zebra", runs, home)
    for name in ("a", "b"):  # one run in two folders
        store_run(tmp_path / name, tiny(), [1, 1, 1])
    keep(tmp_path / "mine", tiny(seed=4), 3)
    twice = load_runs(tmp_path)
    found = short_names([run.path for run in twice], tmp_path)
    assert sorted(found.values()) == sorted(str(path.relative_to(tmp_path)) for path in found)


def test_names_of_repeats_are_short_too(tiny, tmp_path):
    folder = tmp_path / f"{tiny().slug}-repeats"
    for seed in (0, 1):
        keep(folder / f"seed{seed}", tiny(seed=seed), 3)
    store_run(tmp_path, tiny(), [1, 1, 1])  # the first of them by itself
    runs = load_runs(tmp_path)
    digits, names = tiny().identity[:6], short_names([run.path for run in runs], tmp_path)
    assert sorted(names.values()) == [digits, f"{digits}/seed0", f"{digits}/seed1"]
    for run in runs:
        assert find_run(names[run.path], runs, tmp_path) == run.path
    with pytest.raises(ConfigError, match="is no run folder"):
        find_run(f"{digits}/seed2", runs, tmp_path)


def test_a_folder_in_which_nothing_was_computed_does_not_make_a_name_ambiguous(tiny, tmp_path):
    store_run(tmp_path / "demo", tiny(), [1, 1, 1])
    keep(tmp_path / tiny().slug, tiny())
    runs, digits = load_runs(tmp_path), tiny().identity[:6]
    assert len(runs) == 2
    assert find_run(digits, runs, tmp_path) == tmp_path / "demo" / tiny().slug


def test_plugins_are_shown_only_where_they_tell_runs_apart(runs):
    def used(run, attack, digit):
        stored = {**run.config, "attack": attack, "sources": [["own.py", 64 * digit]]}
        return replace(run, config=stored)

    assert "sources" not in in_common(runs)  # none of them uses a plug-in
    one, other = runs[1], used(runs[1], "mine", "a")
    assert varying([one, other]) == ["attack"]
    edited = used(runs[1], "mine", "b")
    assert varying([one, other, edited]) == ["attack", "sources"]
    assert labels([other, edited]) == ["sources=own.py:" + 12 * digit for digit in "ab"]
