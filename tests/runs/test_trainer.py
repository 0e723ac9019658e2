"""From a configuration to a finished folder: repeats, resumes, failures, in one process."""

import dataclasses
import math
import os
import signal
import time
from types import SimpleNamespace

import pytest
from helpers.run_folders import cut, interrupt, numbers

from slsgd_mx.core.algorithm import select_devices, select_poisoned
from slsgd_mx.errors import DivergedError, FailedError, InUseError, RunError
from slsgd_mx.runs import trainer
from slsgd_mx.runs.folder import RunFolder, list_checkpoints, load_newest
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.runs.status import read_outcome
from slsgd_mx.runs.trainer import train
from slsgd_mx.system import signals
from slsgd_mx.tasks.sizes import SIZES

pytestmark = pytest.mark.parametrize("tiny", SIZES, indirect=True)


@pytest.fixture(scope="module")
def config(tiny):
    """Rows less often than epochs, so that counts are pending at most checkpoints."""
    faults = dict(q=1, b=1, attack="nan", drop_rate=0.2)
    return tiny(epochs=7, eval_every=3, alpha=0.5, alpha_decay_epoch=2, **faults)


@pytest.fixture(scope="module")
def unbroken(config, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("unbroken") / "run")


def test_rows_of_an_unbroken_run(unbroken, config):
    assert [row["epoch"] for row in unbroken.rows] == ["3", "6", "7"]  # the last always
    assert [float(row["alpha"]) for row in unbroken.rows] == [0.5] * 3
    assert unbroken.resumed_from == 0
    for row, epochs in zip(unbroken.rows, (3, 3, 1)):
        pushes = sum(int(row[name]) for name in ("accepted", "refused", "missing"))
        assert pushes == epochs * config.k
        last = float(row[config.sizes.metrics[-1]])
        assert 0 <= last <= 1 if config.sizes.task == "cifar" else 1 < last < 30
        assert float(row["seconds"]) > 0


def test_repeating_a_run_gives_the_same_bytes_and_reports_every_epoch(unbroken, config, tmp_path):
    heard = []
    again = train(config, tmp_path / "again", listener=heard.append, checkpoint_seconds=0)
    assert numbers(again.folder) == numbers(unbroken.folder)
    assert [progress.epoch for progress in heard] == list(range(8))
    assert [progress.epoch for progress in heard if progress.metrics] == [3, 6, 7]
    assert tuple(heard[3].metrics) == config.sizes.metrics
    assert all(progress.seconds > 0 for progress in heard[1:])


def test_another_seed_gives_another_run(unbroken, config, tmp_path):
    other = train(dataclasses.replace(config, seed=1), tmp_path / "other")
    assert numbers(other.folder)[0] != numbers(unbroken.folder)[0]
    assert numbers(other.folder)[1] != numbers(unbroken.folder)[1]


@pytest.mark.parametrize("epochs", [(1,), (2, 5), (1, 2, 3, 4, 5, 6), (7,)])
def test_resumed_equals_unbroken(unbroken, config, tmp_path, epochs):
    for epoch in epochs:
        interrupt(config, tmp_path / "run", epoch)
    resumed = train(config, tmp_path / "run")
    assert resumed.resumed_from == epochs[-1]
    assert numbers(resumed.folder) == numbers(unbroken.folder)
    sessions = RunFolder(tmp_path / "run", config).sessions()
    assert [session["after_epoch"] for session in sessions] == [0, *epochs]
    assert sessions[0]["mxnet"].startswith("1.9") and len(sessions[0]["data_sha256"]) == 64


def test_interrupted_in_the_middle_of_an_epoch(unbroken, config, tmp_path, monkeypatch):
    run_epoch = trainer.run_epoch

    def interrupted(t, *args):
        if t == 5:
            raise KeyboardInterrupt
        return run_epoch(t, *args)

    monkeypatch.setattr(trainer, "run_epoch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run")
    monkeypatch.undo()
    resumed = train(config, tmp_path / "run")
    assert resumed.resumed_from == 4
    assert numbers(resumed.folder) == numbers(unbroken.folder)


def test_a_checkpoint_that_is_being_written_is_not_interrupted(
    unbroken, config, tmp_path, monkeypatch
):
    """The interrupt comes afterwards; else the save would be made again, on top of itself."""
    saved, save, before = [], RunFolder.save_checkpoint, signal.getsignal(signal.SIGINT)

    def save_and_signal(self, t, *more):
        if t == 3:
            os.kill(os.getpid(), signal.SIGINT)
        save(self, t, *more)
        saved.append(t)

    monkeypatch.setattr(RunFolder, "save_checkpoint", save_and_signal)
    monkeypatch.setattr(signals, "_received", [])
    signal.signal(signal.SIGINT, signals._handle)
    try:
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path / "run", checkpoint_seconds=0)
    finally:
        signal.signal(signal.SIGINT, before)
        signals._received.clear()
    assert saved == [1, 2, 3]
    resumed = train(config, tmp_path / "run")
    assert resumed.resumed_from == 3 and numbers(resumed.folder) == numbers(unbroken.folder)


def test_rows_newer_than_the_checkpoint_are_computed_again(unbroken, config, tmp_path, monkeypatch):
    """As after kill -9: the row of epoch 3 is there, the newest checkpoint is of epoch 2."""
    save = RunFolder.save_checkpoint
    save_early = lambda self, t, *more: save(self, t, *more) if t <= 2 else None  # noqa: E731
    monkeypatch.setattr(RunFolder, "save_checkpoint", save_early)
    interrupt(config, tmp_path / "run", 4, checkpoint_seconds=0)
    assert [row["epoch"] for row in read_metrics(tmp_path / "run")] == ["3"]
    monkeypatch.undo()
    resumed = train(config, tmp_path / "run")
    assert resumed.resumed_from == 2
    assert numbers(resumed.folder) == numbers(unbroken.folder)


def test_a_corrupt_checkpoint_costs_epochs_but_no_bytes(unbroken, config, tmp_path):
    interrupt(config, tmp_path / "run", 5, checkpoint_seconds=0)
    paths = list_checkpoints(tmp_path / "run" / "checkpoint")
    assert [path.name.split(".")[0] for path in paths] == ["epoch-000005", "epoch-000004"]
    epoch, values, notes = load_newest(tmp_path / "run" / "checkpoint")
    assert epoch == 5 and len(values) == {"cifar": 28, "lstm": 10, "problem": 1}[config.sizes.task]
    assert notes["accepted"] + notes["refused"] + notes["missing"] == 2 * config.k  # since row 3
    cut(paths[0])
    resumed = train(config, tmp_path / "run", checkpoint_seconds=0)
    assert resumed.resumed_from == 4
    assert numbers(resumed.folder) == numbers(unbroken.folder)


def test_a_done_run_returns_at_once(unbroken, config, monkeypatch):
    monkeypatch.setattr(trainer, "build_task", None)  # calling it would fail
    before = {path: path.stat().st_mtime_ns for path in unbroken.folder.rglob("*")}
    heard = []
    again = train(config, unbroken.folder, listener=heard.append)
    assert again.rows == unbroken.rows and again.resumed_from == config.epochs and heard == []
    assert {path: path.stat().st_mtime_ns for path in unbroken.folder.rglob("*")} == before


def test_a_run_that_another_process_finishes_meanwhile(config, tmp_path, monkeypatch):
    """Between the first look at the folder and its lock: what is done must not be undone."""
    build_task = trainer.build_task

    def slow_build(*args):
        monkeypatch.undo()
        train(config, tmp_path / "run")
        return build_task(*args)

    monkeypatch.setattr(trainer, "build_task", slow_build)
    result = train(config, tmp_path / "run")
    assert result.resumed_from == 7 and [row["epoch"] for row in result.rows] == ["3", "6", "7"]


def test_units_count_what_every_worker_trained_on(tiny, tmp_path):
    heard, config = [], tiny(epochs=2, passes=2)
    train(config, tmp_path / "run", listener=heard.append)
    one_pass = {"cifar": 10, "lstm": 3 * 4 * 3, "problem": 10}[config.sizes.task]
    assert [progress.units for progress in heard] == [0] + 2 * [config.k * 2 * one_pass]


def test_units_per_second_are_those_since_the_last_row(tiny, tmp_path):
    heard = []
    result = train(tiny(epochs=3, eval_every=2), tmp_path / "run", listener=heard.append)
    for row, since in zip(result.rows, (heard[1:3], heard[3:])):
        seconds, units = (sum(getattr(p, name) for p in since) for name in ("seconds", "units"))
        assert float(row["seconds"]) == pytest.approx(seconds)
        assert float(row["units_per_second"]) == pytest.approx(units / seconds)


def test_checkpoints_are_written_every_checkpoint_seconds(tiny, tmp_path, monkeypatch):
    """Every epoch takes ten seconds on this clock, and a checkpoint is due after 25."""
    epochs, saved, save = [], [], RunFolder.save_checkpoint
    clock = SimpleNamespace(monotonic=lambda: 10.0 * len(epochs), perf_counter=time.perf_counter)
    monkeypatch.setattr(trainer, "time", clock)
    spy = lambda self, t, *more: saved.append(t) or save(self, t, *more)  # noqa: E731
    monkeypatch.setattr(RunFolder, "save_checkpoint", spy)
    train(tiny(epochs=9), tmp_path / "run", listener=epochs.append, checkpoint_seconds=25)
    assert saved == [4, 7]  # the clock shows 10 before epoch 1 ends, 40 at the end of epoch 4


def test_a_busy_folder_is_refused_before_the_data_are_loaded(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "build_task", None)  # calling it would fail
    with RunFolder(tmp_path / "run", tiny()), pytest.raises(InUseError, match="run is in use"):
        train(tiny(), tmp_path / "run")


def test_refused_pushes_are_counted_and_named(tiny, tmp_path):
    config = tiny(q=1, attack="nan", epochs=4, eval_every=2)
    rows = train(config, tmp_path / "run").rows
    assert [row["refused"] for row in rows] == ["2", "2"]
    assert [row["accepted"] for row in rows] == ["6", "6"]
    poisoned = [select_devices(config, t)[select_poisoned(config, t)] for t in range(1, 5)]
    expected = [f"{t}:{device}" for t, (device,) in enumerate(poisoned, start=1)]
    assert " ".join(row["refused_devices"] for row in rows).split() == expected


def test_too_few_pushes_leave_the_model_and_are_counted(tiny, tmp_path):
    config = tiny(drop_rate=0.5, b=1, epochs=4)
    rows = train(config, tmp_path / "run").rows
    skipped = [row["skipped"] for row in rows]
    assert set(skipped) == {"0", "1"}
    for before, row in zip(rows, rows[1:]):
        assert (row["train_loss"] == before["train_loss"]) == (row["skipped"] == "1")


@pytest.mark.parametrize(
    "changes, said",
    [
        (dict(q=2, b=1, attack="inf"), "12 pushes 6 were refused because they were not finite"),
        (dict(q=2, b=1, attack="silent"), "of 12 pushes 6 did not arrive"),
    ],
)
def test_a_run_without_any_update_fails_and_keeps_its_rows(tiny, tmp_path, changes, said):
    config = tiny(epochs=3, **changes)
    for _ in range(2):
        with pytest.raises(FailedError, match="no update was applied in any of the 3 epochs") as no:
            train(config, tmp_path / "run")
        assert said in str(no.value)
        assert "lower --b, --q or --drop-rate" in str(no.value)
    rows = read_metrics(tmp_path / "run")
    assert [row["skipped"] for row in rows] == ["1", "1", "1"]
    assert len({row["train_loss"] for row in rows}) == 1  # x_t = x_0 throughout
    assert not (tmp_path / "run" / "DONE").exists()
    outcome = read_outcome(tmp_path / "run", config)
    assert outcome.state == "failed" and outcome.why == str(no.value)


def test_rows_of_two_alphas_differ_after_the_decay_epoch(tiny, tmp_path):
    lines = []
    for alpha in (0.9, 0.3):
        config = tiny(epochs=5, q=1, b=1, alpha=alpha, alpha_decay_epoch=3)
        lines.append(numbers(train(config, tmp_path / str(alpha)).folder)[0])
    assert lines[0][:4] == lines[1][:4]  # the header and epochs 1 to 3
    for one, other in zip(lines[0][4:], lines[1][4:]):
        assert one.split(",")[2:5] != other.split(",")[2:5]


def test_a_run_that_diverges_keeps_its_rows_and_says_so_again(tiny, tmp_path):
    config = tiny(q=1, attack="nan", nonfinite="keep", epochs=5)
    said = []
    for _ in range(2):
        with pytest.raises(
            DivergedError, match="stopped being finite or a metric became NaN in epoch 1"
        ) as error:
            train(config, tmp_path / "run")
        said.append(str(error.value))
    assert said[0] == said[1] and isinstance(error.value, RunError)
    (row,) = read_metrics(tmp_path / "run")
    assert row["epoch"] == "1" and not (tmp_path / "run" / "DONE").exists()


def test_a_metric_that_is_not_a_number_ends_a_run_with_a_finite_model(tiny, tmp_path, monkeypatch):
    config = tiny(epochs=3)
    *others, last = config.sizes.metrics
    found = {**dict.fromkeys(others, 1.0), last: math.nan}
    monkeypatch.setattr(trainer.ModelServer, "evaluate", lambda server, task: found)
    with pytest.raises(DivergedError, match="or a metric became NaN in epoch 1; the rows"):
        train(config, tmp_path / "run")
    (row,) = read_metrics(tmp_path / "run")
    assert (row["epoch"], row[last]) == ("1", "nan")
