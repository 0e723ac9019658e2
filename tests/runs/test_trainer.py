"""From a configuration to a finished folder: repeats, resumes, failures, in one process."""

import itertools

import pytest
from helpers.run_folders import numbers

from slsgd_mx.config import RunConfig
from slsgd_mx.core.algorithm import select_devices, select_poisoned
from slsgd_mx.errors import DivergedError, RunError
from slsgd_mx.runs import trainer
from slsgd_mx.runs.folder import COST_COLUMNS, RunStore, list_checkpoints, load_newest
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.runs.trainer import train
from slsgd_mx.tasks.sizes import SIZES

pytestmark = pytest.mark.parametrize("tiny", SIZES, indirect=True)


def stop_at(epoch):
    def listener(progress):
        if progress.epoch == epoch:
            raise KeyboardInterrupt

    return listener


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


def test_repeating_a_run_gives_the_same_bytes(unbroken, config, tmp_path):
    again = train(config, tmp_path / "again", checkpoint_seconds=0)
    assert numbers(again.folder) == numbers(unbroken.folder)


def test_another_seed_gives_another_run(unbroken, tiny, tmp_path):
    values = {**unbroken_values(unbroken), "seed": 1}
    other = train(tiny(**values), tmp_path / "other")
    assert numbers(other.folder)[0] != numbers(unbroken.folder)[0]
    assert numbers(other.folder)[1] != numbers(unbroken.folder)[1]


def unbroken_values(unbroken):
    values = RunConfig.from_json((unbroken.folder / "config.json").read_text()).to_dict()
    values.pop("task")
    return values


@pytest.mark.parametrize("epochs", [(1,), (2, 5), (1, 2, 3, 4, 5, 6), (7,)])
def test_resumed_equals_unbroken(unbroken, config, tmp_path, epochs):
    for epoch in epochs:
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path / "run", listener=stop_at(epoch))
    resumed = train(config, tmp_path / "run")
    assert resumed.resumed_from == epochs[-1]
    assert numbers(resumed.folder) == numbers(unbroken.folder)


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


def test_rows_newer_than_the_checkpoint_are_computed_again(unbroken, config, tmp_path, monkeypatch):
    """As after kill -9: the row of epoch 3 is there, the newest checkpoint is of epoch 2."""
    save = RunStore.save_checkpoint
    monkeypatch.setattr(
        RunStore, "save_checkpoint", lambda self, t, *more: save(self, t, *more) if t <= 2 else None
    )
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", listener=stop_at(4), checkpoint_seconds=0)
    assert [row["epoch"] for row in read_metrics(tmp_path / "run")] == ["3"]
    monkeypatch.undo()
    resumed = train(config, tmp_path / "run")
    assert resumed.resumed_from == 2
    assert numbers(resumed.folder) == numbers(unbroken.folder)


def test_a_corrupt_checkpoint_costs_epochs_but_no_bytes(unbroken, config, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", listener=stop_at(5), checkpoint_seconds=0)
    newest = list_checkpoints(tmp_path / "run" / "checkpoint")[0]
    newest.write_bytes(newest.read_bytes()[:-50])
    resumed = train(config, tmp_path / "run", checkpoint_seconds=0)
    assert resumed.resumed_from == 4
    assert numbers(resumed.folder) == numbers(unbroken.folder)


def test_a_folder_from_before_there_were_costs_goes_on(unbroken, config, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", listener=stop_at(4))
    metrics = tmp_path / "run" / "metrics.csv"
    lines = metrics.read_text().splitlines()
    metrics.write_text("".join(line.rsplit(",", len(COST_COLUMNS))[0] + "\n" for line in lines))
    resumed = train(config, tmp_path / "run")
    assert numbers(resumed.folder) == numbers(unbroken.folder)
    assert [row["bytes_sent"] for row in resumed.rows] == ["", "0", "0"]


def test_checkpoints_hold_the_epochs_they_are_named_after(config, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", listener=stop_at(4), checkpoint_seconds=0)
    paths = list_checkpoints(tmp_path / "run" / "checkpoint")
    assert [path.name.split(".")[0] for path in paths] == ["epoch-000004", "epoch-000003"]
    epoch, values, notes = load_newest(tmp_path / "run" / "checkpoint")
    assert epoch == 4 and len(values) == {"cifar": 28, "lstm": 10, "problem": 1}[config.sizes.task]
    assert notes["accepted"] + notes["refused"] + notes["missing"] == config.k  # since row 3


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
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", listener=stop_at(1))
        raise KeyboardInterrupt  # returning at once is right as well
    assert [row["epoch"] for row in train(config, tmp_path / "run").rows] == ["3", "6", "7"]


def test_the_listener_hears_every_epoch(config, tmp_path):
    heard = []
    train(config, tmp_path / "run", listener=heard.append)
    assert [progress.epoch for progress in heard] == list(range(8))
    evaluated = [progress.epoch for progress in heard if progress.metrics]
    assert evaluated == [3, 6, 7]
    assert tuple(heard[3].metrics) == config.sizes.metrics
    unit = {"cifar": 10, "lstm": 3 * 4 * 3, "problem": 10}[config.sizes.task]  # of one worker
    assert all(progress.units % unit == 0 and progress.seconds > 0 for progress in heard[1:])


def test_manifest_names_the_sessions(config, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", listener=stop_at(3))
    train(config, tmp_path / "run")
    sessions = RunStore(tmp_path / "run", config).sessions()
    assert [session["after_epoch"] for session in sessions] == [0, 3]
    assert sessions[0]["mxnet"].startswith("1.9") and len(sessions[0]["data_sha256"]) == 64


# ---- pushes that are not finite ------------------------------------------------------------


def test_refused_pushes_are_counted_and_named(tiny, tmp_path):
    config = tiny(q=1, attack="nan", epochs=4, eval_every=2)
    rows = train(config, tmp_path / "run").rows
    assert [row["refused"] for row in rows] == ["2", "2"]
    assert [row["accepted"] for row in rows] == ["6", "6"]
    named = itertools.chain.from_iterable(row["refused_devices"].split() for row in rows)
    expected = []
    for t in range(1, 5):
        (slot,) = select_poisoned(config, t)
        expected.append(f"{t}:{select_devices(config, t)[slot]}")
    assert list(named) == expected


def test_too_few_pushes_leave_the_model_and_are_counted(tiny, tmp_path):
    config = tiny(q=2, b=1, attack="inf", epochs=3)
    rows = train(config, tmp_path / "run").rows
    assert [row["skipped"] for row in rows] == ["1", "1", "1"]
    assert len({row["train_loss"] for row in rows}) == 1  # x_t = x_0 throughout


def test_the_decay_epoch_parts_the_rows_of_two_runs(tiny, tmp_path):
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
        with pytest.raises(DivergedError, match="stopped being finite in epoch 1") as error:
            train(config, tmp_path / "run")
        said.append(str(error.value))
    assert said[0] == said[1] and isinstance(error.value, RunError)
    (row,) = read_metrics(tmp_path / "run")
    assert row["epoch"] == "1" and not (tmp_path / "run" / "DONE").exists()
