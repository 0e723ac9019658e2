"""Runs that share a prefix: which runs do, which may start from it, how a run adopts it."""

import dataclasses
import json
import os
import shutil

import pytest
from helpers.run_folders import bits, cut, cut_lines, flip, interrupt, numbers

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import DivergedError, RunError
from slsgd_mx.runs.checkpoints import list_checkpoints, newest_epoch
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.runs.prefix import check_prefix, prefix_of
from slsgd_mx.runs.trainer import train
from slsgd_mx.system.files import load_arrays
from slsgd_mx.tasks.sizes import SIZES

FAULTS = dict(q=1, b=1, attack="nan", drop_rate=0.2)  # so that rows count more than zeros
SHORT = dict(epochs=4, eval_every=2, alpha=0.5, alpha_decay_epoch=2)  # to be computed
DECAYING = dict(epochs=6, eval_every=2, alpha=0.5, alpha_decay_epoch=4)
on_every_task = pytest.mark.parametrize("tiny", SIZES, indirect=True)
on_text = pytest.mark.parametrize("tiny", ["lstm"], indirect=True)  # the quicker one


# ---- what runs share -----------------------------------------------------------------------


@on_every_task
def test_the_prefix_ends_where_alpha_decays(tiny):
    config = tiny(**DECAYING, **FAULTS)
    prefix = prefix_of(config)
    assert prefix == dataclasses.replace(config, epochs=4, alpha=1.0)
    for alpha in (1, 0.8, 0.2):
        other = dataclasses.replace(config, alpha=alpha)
        assert prefix_of(other) == prefix
        check_prefix(prefix, other)
    assert prefix_of(prefix) is None


@pytest.mark.parametrize(
    "changes",
    [
        dict(alpha_decay_epoch=6),  # T
        dict(alpha_decay_epoch=8),
        dict(alpha_decay_epoch=0),
        dict(alpha_decay_epoch=3),  # not evaluated
        dict(alpha_schedule="constant"),
        dict(alpha_schedule="inverse-square"),
    ],
    ids=str,
)
def test_runs_without_a_prefix(tiny, changes):
    assert prefix_of(tiny(**{**DECAYING, **changes})) is None


# ---- who may begin from it -----------------------------------------------------------------

OTHER = dict(
    n=9, k=5, b=1, q=2, gamma=0.2, passes=2, local_steps=(1, 2), batch_size=5, rule="mean",
    attack="nan", attacker_start="pulled", attack_scale=3.0, drop_rate=0.1, nonfinite="keep",
    selection="permutation", warm_up=False, seed=1, eval_every=1, deadline=3.0,
    boost=2.0, partition_seed=1, poisoned_devices=3, precision="bfloat16",
)  # fmt: skip


def refusal(prefix, config):
    with pytest.raises(RunError) as error:
        check_prefix(prefix, config)
    said = str(error.value)
    assert said.startswith("a run cannot continue one with different ")
    return said.split(" different ", 1)[1]


def test_every_other_difference_is_refused_by_its_name(tiny):
    """A new option has to be listed here: it must not change a run from its middle on."""
    names = {field.name for field in dataclasses.fields(RunConfig)}
    free = {"sizes", "sources", "epochs", "alpha", "alpha_schedule", "alpha_decay_epoch"}
    assert names - set(OTHER) == free
    config = tiny(**DECAYING, q=1)
    for name, value in OTHER.items():
        q = 0 if name == "poisoned_devices" else 1
        other = tiny(**{**DECAYING, "q": q, "epochs": 4, "alpha": 1, name: value})
        assert name in refusal(other, config).split(", "), name


@pytest.mark.parametrize(
    "change, said",
    [
        (dict(alpha=1, width=3), "sizes"),
        (dict(alpha=1, train_images=96), "sizes"),
        (dict(alpha=1, test_images=21), "sizes"),
        (dict(alpha=1, partition="unbalanced"), "sizes"),
        (dict(alpha_schedule="constant"), "alpha before the prefix ends"),
        (dict(alpha_decay_epoch=2), "alpha before the prefix ends"),
        (dict(alpha_decay_epoch=3), "alpha before the prefix ends"),
        (dict(alpha_schedule="inverse-square", alpha=1), "alpha before the prefix ends"),
    ],
)
def test_other_sizes_and_another_alpha_in_the_shared_epochs_are_refused(tiny, change, said):
    other = tiny(**{**DECAYING, "epochs": 4, **change})
    assert refusal(other, tiny(**DECAYING)) == said


@pytest.mark.parametrize("epochs", [3, 6, 8])
def test_a_prefix_that_is_too_long_or_ends_between_evaluations(tiny, epochs):
    late = {**DECAYING, "alpha_decay_epoch": 8}
    said = f"cannot continue from epoch {epochs}: it needs a multiple of eval_every=2 below T=6"
    with pytest.raises(RunError, match=said):
        check_prefix(tiny(**{**late, "epochs": epochs}), tiny(**late))


@pytest.mark.parametrize(
    "changes", [dict(epochs=2), dict(epochs=4, alpha=0.3), dict(epochs=4, alpha_decay_epoch=5)]
)
def test_what_comes_after_the_prefix_does_not_matter(tiny, changes):
    check_prefix(tiny(**{**DECAYING, **changes}), tiny(**DECAYING))


# ---- taking it over ------------------------------------------------------------------------


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def config(tiny):
    return tiny(**SHORT, **FAULTS)


@pytest.fixture(scope="module")
def prefix(config, tmp_path_factory):
    """The folder of the finished prefix: look, and change nothing."""
    return train(prefix_of(config), tmp_path_factory.mktemp("prefix") / "beginning").folder


@pytest.fixture(scope="module")
def unbroken(config, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("unbroken") / "run").folder


@pytest.fixture
def copied(prefix, tmp_path):
    """A copy of the prefix to do harm to."""
    return shutil.copytree(prefix, tmp_path / "copied")


@on_every_task
def test_runs_begun_from_one_prefix_equal_unbroken_ones(config, prefix, unbroken, tmp_path):
    before = content(prefix)
    half = train(config, tmp_path / "half", prefix=prefix)
    fedavg = dataclasses.replace(config, alpha=1.0)
    whole = train(fedavg, tmp_path / "whole")
    one = train(fedavg, tmp_path / "one", prefix=str(prefix))
    assert half.resumed_from == one.resumed_from == 2 and whole.resumed_from == 0
    assert numbers(half.folder) == numbers(unbroken)
    assert numbers(one.folder) == numbers(whole.folder)
    assert numbers(one.folder)[0][:2] == numbers(half.folder)[0][:2] == numbers(prefix)[0]
    assert numbers(one.folder)[1] != numbers(half.folder)[1]
    assert content(prefix) == before
    first, own = json.loads((half.folder / "manifest.json").read_text())["sessions"]
    assert (first["prefix"], first["after_epoch"]) == (prefix.name, 0)
    assert "prefix" not in own and own["after_epoch"] == 2


@on_text
@pytest.mark.parametrize(
    "last_words, failure, again",
    [
        ("metrics.csv", KeyboardInterrupt(), "prefix"),
        ("manifest.json", KeyboardInterrupt(), "prefix"),
        ("epoch-000002", KeyboardInterrupt(), "prefix"),
        ("epoch-000002", KeyboardInterrupt(), "alone"),
        ("epoch-000002", OSError(28, "No space left on device"), "prefix"),
    ],
)
def test_killed_or_out_of_space_between_the_writes(
    config, prefix, unbroken, tmp_path, monkeypatch, last_words, failure, again
):
    rename = os.replace

    def rename_or_die(source, target):
        if last_words in str(target):
            raise failure
        rename(source, target)

    monkeypatch.setattr(os, "replace", rename_or_die)
    with pytest.raises((KeyboardInterrupt, RunError)) as error:
        train(config, tmp_path / "run", prefix=prefix)
    if isinstance(failure, OSError):
        assert error.match("No space left on device.*free some space")
    monkeypatch.undo()
    assert newest_epoch(tmp_path / "run" / "checkpoint") == 0
    assert len(read_metrics(tmp_path / "run")) == (0 if last_words == "metrics.csv" else 1)
    result = train(config, tmp_path / "run", prefix=prefix if again == "prefix" else None)
    assert result.resumed_from == (2 if again == "prefix" else 0)
    assert numbers(result.folder) == numbers(unbroken)


@on_text
@pytest.mark.parametrize(
    "name, harm",
    [*(("model.params", harm) for harm in (cut, flip, os.unlink))]
    + [("metrics.csv", lambda path: cut_lines(path, -1))],
)
def test_a_damaged_prefix_is_refused(config, prefix, copied, unbroken, tmp_path, name, harm):
    harm(copied / name)
    said = rf"copied/{name} is (damaged|missing).*remove .*copied to (compute|start) the run again"
    with pytest.raises(RunError, match=said):
        train(config, tmp_path / "run", prefix=copied)
    assert list_checkpoints(tmp_path / "run" / "checkpoint") == []
    assert read_metrics(tmp_path / "run") == []
    if harm is flip:  # the run itself is not spoilt
        assert numbers(train(config, tmp_path / "run", prefix=prefix).folder) == numbers(unbroken)


@on_text
def test_the_model_of_a_finished_run(prefix, copied, config):
    folder = RunFolder(copied, prefix_of(config))
    stored = bits(load_arrays(prefix / "model.params"))
    assert bits(folder.model()) == stored
    cut_lines(copied / "DONE", 1)  # of a version without digest
    assert bits(folder.model()) == stored
    cut(copied / "model.params")
    with pytest.raises(RunError, match=r"model\.params is corrupt"):
        folder.model()


@on_text
def test_a_prefix_that_is_not_finished_or_not_there(config, prefix, tmp_path):
    interrupt(prefix_of(config), tmp_path / "begun", 1)
    with pytest.raises(RunError, match="begun is not finished, but .*run continues it"):
        train(config, tmp_path / "run", prefix=tmp_path / "begun")
    with pytest.raises(RunError, match="nowhere holds no run"):
        train(config, tmp_path / "run", prefix=tmp_path / "nowhere")
    other = dataclasses.replace(config, seed=1)
    with pytest.raises(RunError, match="cannot continue one with different seed"):
        train(other, tmp_path / "other", prefix=prefix)
    for name in ("run", "other"):
        assert newest_epoch(tmp_path / name / "checkpoint") == 0


@on_text
def test_a_run_that_has_begun_goes_on_by_itself(config, unbroken, tmp_path):
    interrupt(config, tmp_path / "run", 1)
    result = train(config, tmp_path / "run", prefix=tmp_path / "nowhere")
    assert result.resumed_from == 1 and numbers(result.folder) == numbers(unbroken)


@on_text
def test_other_data_than_the_prefix_had(config, prefix, copied, tmp_path):
    manifest = copied / "manifest.json"
    (session,) = json.loads(manifest.read_text())["sessions"]
    manifest.write_text(json.dumps({"sessions": [{**session, "data_sha256": "other"}]}))
    with pytest.raises(RunError, match="computed on other data .*other there"):
        train(config, tmp_path / "run", prefix=copied)
    assert len(read_metrics(tmp_path / "run")) == 1  # nothing was computed on top


@on_every_task
def test_a_prefix_that_diverged(tiny, tmp_path):
    harm = dict(q=1, attack="nan", nonfinite="keep")
    config = tiny(**SHORT, **harm)
    folders = [tmp_path / name for name in ("beginning", "branch", "alone")]
    said = []
    for folder, run in zip(folders, (prefix_of(config), config, config)):
        begin = folders[0] if folder.name == "branch" else None
        for _ in range(2):  # the second time it is only said
            with pytest.raises(DivergedError, match="in epoch 1;") as error:
                train(run, folder, prefix=begin)
            said.append(str(error.value).replace(folder.name, "run"))
    assert len(set(said)) == 1
    assert numbers(folders[1]) == numbers(folders[2])
    assert [row["epoch"] for row in read_metrics(folders[1])] == ["1"]
    (folders[0] / "metrics.csv").unlink()
    with pytest.raises(RunError, match=r"beginning/metrics\.csv is damaged: restore it"):
        train(config, tmp_path / "late", prefix=folders[0])
    assert not (tmp_path / "late" / "DIVERGED").exists()


@on_text
def test_rows_without_a_checkpoint_are_kept_aside_when_a_prefix_is_adopted(tiny, tmp_path):
    config = tiny(**SHORT)
    train(prefix_of(config), tmp_path / "prefix")
    interrupt(config, tmp_path / "run", 3)
    before = (tmp_path / "run" / "metrics.csv").read_bytes()
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    resumed = train(config, tmp_path / "run", prefix=tmp_path / "prefix")
    assert (tmp_path / "run" / "metrics.csv.before-1").read_bytes() == before
    assert numbers(resumed.folder) == numbers(train(config, tmp_path / "whole").folder)
