"""Runs that share their beginning: which do, who may begin from it, how a run takes it over."""

import dataclasses
import json
import os
import shutil

import pytest
from helpers.run_folders import numbers

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import DivergedError, RunError
from slsgd_mx.runs.checkpoints import list_checkpoints, newest_epoch
from slsgd_mx.runs.folder import RunStore
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
)  # fmt: skip


def refusal(prefix, config):
    with pytest.raises(RunError) as error:
        check_prefix(prefix, config)
    said = str(error.value)
    assert said.startswith("a run cannot begin after one with other ")
    return said.split(" other ", 1)[1]


def test_every_other_difference_is_refused_by_its_name(tiny):
    """A new option has to be listed here: it must not change a run from its middle on."""
    names = {field.name for field in dataclasses.fields(RunConfig)}
    assert names - set(OTHER) == {"task", "epochs", "alpha", "alpha_schedule", "alpha_decay_epoch"}
    config = tiny(**DECAYING, q=1)
    for name, value in OTHER.items():
        other = tiny(**{**DECAYING, "q": 1, "epochs": 4, "alpha": 1, name: value})
        assert name in refusal(other, config).split(", "), name


@pytest.mark.parametrize(
    "change",
    [dict(width=3), dict(train_images=96), dict(test_images=21), dict(partition="unbalanced")],
    ids=str,
)
def test_another_size_of_the_task_is_refused(tiny, change):
    other = tiny(**{**DECAYING, "epochs": 4, "alpha": 1, **change})
    assert refusal(other, tiny(**DECAYING)) == "task"


@pytest.mark.parametrize(
    "changes",
    [
        dict(epochs=4, alpha_schedule="constant"),
        dict(epochs=4, alpha_decay_epoch=2),
        dict(epochs=4, alpha_decay_epoch=3),
        dict(epochs=4, alpha_schedule="inverse-square", alpha=1),
    ],
    ids=str,
)
def test_another_alpha_in_the_epochs_shared_is_refused(tiny, changes):
    other = tiny(**{**DECAYING, **changes})
    assert refusal(other, tiny(**DECAYING)) == "alpha before the prefix ends"


@pytest.mark.parametrize("epochs", [3, 6, 8])
def test_a_prefix_that_is_too_long_or_ends_between_evaluations(tiny, epochs):
    late = {**DECAYING, "alpha_decay_epoch": 8}
    said = f"cannot begin after epoch {epochs}: it needs a multiple of eval_every=2 below T=6"
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


def stop_at(epoch):
    def listener(progress):
        if progress.epoch == epoch:
            raise KeyboardInterrupt

    return listener


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


@on_text
def test_the_manifest_tells_where_a_run_began(config, prefix, tmp_path):
    folder = train(config, tmp_path / "run", prefix=prefix).folder
    first, own = json.loads((folder / "manifest.json").read_text())["sessions"]
    assert (first["prefix"], first["after_epoch"]) == (prefix.name, 0)
    assert "prefix" not in own and own["after_epoch"] == 2


@on_text
@pytest.mark.parametrize(
    "last_words, again",
    [
        ("metrics.csv", "prefix"),
        ("manifest.json", "prefix"),
        ("epoch-000002", "prefix"),
        ("epoch-000002", "alone"),
    ],
)
def test_killed_between_the_writes(
    config, prefix, unbroken, tmp_path, monkeypatch, last_words, again
):
    rename = os.replace

    def rename_or_die(source, target):
        if last_words in str(target):
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "replace", rename_or_die)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", prefix=prefix)
    monkeypatch.undo()
    assert newest_epoch(tmp_path / "run" / "checkpoint") == 0
    assert len(read_metrics(tmp_path / "run")) == (0 if last_words == "metrics.csv" else 1)
    result = train(config, tmp_path / "run", prefix=prefix if again == "prefix" else None)
    assert result.resumed_from == (2 if again == "prefix" else 0)
    assert numbers(result.folder) == numbers(unbroken)


@on_text
def test_a_full_disk_while_taking_over(config, prefix, unbroken, tmp_path, monkeypatch):
    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("slsgd_mx.store.save_checkpoint", fail)
    with pytest.raises(RunError, match="No space left on device.*free some space"):
        train(config, tmp_path / "run", prefix=prefix)
    monkeypatch.undo()
    assert numbers(train(config, tmp_path / "run", prefix=prefix).folder) == numbers(unbroken)


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def flip(path):
    harmed = bytearray(path.read_bytes())
    harmed[len(harmed) // 2] ^= 1
    path.write_bytes(harmed)


@on_text
@pytest.mark.parametrize("harm", [cut, flip, os.unlink])
def test_a_harmed_model_is_refused(config, prefix, copied, unbroken, tmp_path, harm):
    harm(copied / "model.params")
    with pytest.raises(RunError, match=r"model\.params is damaged: remove .*copied to compute"):
        train(config, tmp_path / "run", prefix=copied)
    assert list_checkpoints(tmp_path / "run" / "checkpoint") == []
    assert read_metrics(tmp_path / "run") == []
    if harm is flip:  # the run itself is not spoilt
        assert numbers(train(config, tmp_path / "run", prefix=prefix).folder) == numbers(unbroken)


@on_text
def test_the_model_of_a_finished_run(prefix, copied, config):
    store = RunStore(copied, prefix_of(config))
    stored = {key: value.tobytes() for key, value in load_arrays(prefix / "model.params").items()}
    assert {key: value.tobytes() for key, value in store.model().items()} == stored
    done = copied / "DONE"
    done.write_text(done.read_text().splitlines(keepends=True)[0])  # of a version without digest
    assert {key: value.tobytes() for key, value in store.model().items()} == stored
    cut(copied / "model.params")
    with pytest.raises(RunError, match=r"model\.params is corrupt"):
        store.model()


@on_text
def test_rows_of_the_prefix_that_were_cut_are_refused(config, copied, tmp_path):
    metrics = copied / "metrics.csv"
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(RunError, match=r"copied/metrics\.csv is damaged"):
        train(config, tmp_path / "run", prefix=copied)


@on_text
def test_a_prefix_that_is_not_finished_or_not_there(config, prefix, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(prefix_of(config), tmp_path / "begun", listener=stop_at(1))
    with pytest.raises(RunError, match="begun is not finished, and .*run begins after it"):
        train(config, tmp_path / "run", prefix=tmp_path / "begun")
    with pytest.raises(RunError, match="nowhere holds no run"):
        train(config, tmp_path / "run", prefix=tmp_path / "nowhere")
    other = dataclasses.replace(config, seed=1)
    with pytest.raises(RunError, match="cannot begin after one with other seed"):
        train(other, tmp_path / "other", prefix=prefix)
    for name in ("run", "other"):
        assert newest_epoch(tmp_path / name / "checkpoint") == 0


@on_text
def test_a_run_that_has_begun_goes_on_by_itself(config, unbroken, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", listener=stop_at(1))
    result = train(config, tmp_path / "run", prefix=tmp_path / "nowhere")
    assert result.resumed_from == 1 and numbers(result.folder) == numbers(unbroken)


@on_text
def test_other_data_than_the_prefix_had(config, prefix, copied, tmp_path):
    manifest = copied / "manifest.json"
    (session,) = json.loads(manifest.read_text())["sessions"]
    other = json.dumps({"sessions": [{**session, "data_sha256": "other"}]})
    manifest.write_text(other)
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
    with pytest.raises(RunError, match=r"beginning/metrics\.csv is damaged: put it back"):
        train(config, tmp_path / "late", prefix=folders[0])
    assert not (tmp_path / "late" / "DIVERGED").exists()
