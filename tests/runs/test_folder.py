"""Run folders: whole files or none, rows, checkpoints, locks."""

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from slsgd_mx.errors import DivergedError, RunError
from slsgd_mx.runs.folder import RunStore, list_checkpoints, load_newest
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.system.files import digest, load_arrays, save_arrays, write_atomically

VALUES = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "v": np.float32([-0.0, 1e-45])}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def store(folder, tiny):
    with RunStore(folder, tiny()) as opened:
        opened.resume()
        yield opened


def row(store, epoch):
    return {**dict.fromkeys(store.columns, 0.5), "epoch": epoch, "refused_devices": ""}


def leftovers(folder):
    return [path.name for path in folder.rglob("*.tmp")]


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-7])


def empty(path):
    path.write_bytes(b"")


# ---- files whole or not at all -------------------------------------------------------------


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, failing):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError):
        write_atomically(path, b"new")
    with pytest.raises(OSError):
        save_arrays(path, VALUES)
    assert path.read_bytes() == b"old" and leftovers(tmp_path) == []


def test_arrays_come_back_bit_for_bit(tmp_path):
    save_arrays(tmp_path / "x", VALUES)
    loaded = load_arrays(tmp_path / "x")
    assert {k: v.tobytes() for k, v in loaded.items()} == {
        k: v.tobytes() for k, v in VALUES.items()
    }
    assert loaded["w"].shape == (2, 3) and leftovers(tmp_path) == []
    save_arrays(tmp_path / "y", VALUES)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_arrays_cut_short_are_an_error(tmp_path):
    save_arrays(tmp_path / "x", VALUES)
    truncate(tmp_path / "x")
    with pytest.raises(RunError, match="is corrupt"):
        load_arrays(tmp_path / "x")


def test_leftovers_of_a_crash_are_removed(folder, tiny):
    for name in ("config.json.tmp", "checkpoint/writing.tmp", "checkpoint/writing.tmp.part.tmp"):
        (folder / "checkpoint").mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"half")
    with RunStore(folder, tiny()):
        assert leftovers(folder) == []


# ---- rows ----------------------------------------------------------------------------------


def test_rows_come_back_exactly(store, folder):
    value = 0.1 + 0.2
    store.append({**row(store, 1), "train_loss": value, "test_loss": np.float64("nan")})
    (read,) = read_metrics(folder)
    assert float(read["train_loss"]) == value and read["test_loss"] == "nan"
    assert list(read) == list(store.columns)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_last_row_cut_short_is_left_out(store, folder, cut):
    for epoch in (1, 2, 3):
        store.append(row(store, epoch))
    path = folder / "metrics.csv"
    path.write_bytes(path.read_bytes()[:-cut])
    assert [r["epoch"] for r in store.rows()] == ["1", "2"]


def test_resuming_cuts_rows_newer_than_the_checkpoint(store, folder):
    for epoch in (1, 2, 3, 4):
        store.append(row(store, epoch))
        if epoch == 2:
            store.save_checkpoint(2, VALUES, {})
    whole = (folder / "metrics.csv").read_bytes().splitlines(keepends=True)
    assert store.resume()[0] == 2
    assert (folder / "metrics.csv").read_bytes() == b"".join(whole[:3])
    store.append(row(store, 3))
    assert [r["epoch"] for r in store.rows()] == ["1", "2", "3"]


@pytest.mark.parametrize("text", [None, "epoch,alpha\ngarbage\n", "epoch,alpha\n1,\0\0\0\n"])
def test_damaged_metrics_are_a_clear_error(store, folder, text):
    """Rows up to the checkpoint cannot be computed again: never go on without them."""
    store.append(row(store, 1))
    store.save_checkpoint(1, VALUES, {})
    if text is None:
        (folder / "metrics.csv").unlink()
    else:
        (folder / "metrics.csv").write_text(text)
    with pytest.raises(RunError, match=r"metrics\.csv"):
        store.resume()


# ---- checkpoints ---------------------------------------------------------------------------


def test_checkpoint_round_trip(store):
    store.save_checkpoint(7, VALUES, {"refused": 2, "seconds": 0.1})
    epoch, values, notes = load_newest(store.folder / "checkpoint")
    assert (epoch, notes) == (7, {"refused": 2, "seconds": 0.1})
    assert {k: v.tobytes() for k, v in values.items()} == {
        k: v.tobytes() for k, v in VALUES.items()
    }


def test_the_two_newest_are_kept(store, folder):
    for epoch in (8, 9, 10, 11):
        store.save_checkpoint(epoch, VALUES, {})
    names = [path.name[:12] for path in list_checkpoints(folder / "checkpoint")]
    assert names == ["epoch-000011", "epoch-000010"] and leftovers(folder) == []


@pytest.mark.parametrize("harm", [damage, truncate, empty])
def test_a_corrupt_checkpoint_falls_back_to_the_one_before(store, folder, harm, capsys):
    store.save_checkpoint(1, VALUES, {})
    store.save_checkpoint(2, VALUES, {})
    harm(list_checkpoints(folder / "checkpoint")[0])
    assert load_newest(folder / "checkpoint")[0] == 1
    said = capsys.readouterr()
    assert "epoch-000002" in said.out + said.err and "corrupt" in said.out + said.err


def test_no_sound_checkpoint_is_an_error_that_loses_nothing(store, folder):
    for epoch in (1, 2):
        store.append(row(store, epoch))
        store.save_checkpoint(epoch, VALUES, {})
    for path in list_checkpoints(folder / "checkpoint"):
        damage(path)
    before = (folder / "metrics.csv").read_bytes()
    with pytest.raises(RunError, match="no checkpoint in .* is sound: remove the folder"):
        store.resume()
    assert (folder / "metrics.csv").read_bytes() == before
    assert len(list_checkpoints(folder / "checkpoint")) == 2


def test_no_checkpoint_starts_from_nothing(store, folder):
    store.append(row(store, 1))
    assert store.resume() == (0, None, {}) and store.rows() == []
    assert load_newest(folder / "checkpoint") == (0, None, {})


# ---- whose folder --------------------------------------------------------------------------


def test_another_configuration_is_refused_by_its_differences(store, folder, tiny):
    before = (folder / "config.json").read_bytes()
    store.__exit__()
    for changed in (tiny(b=1, gamma=0.5), tiny(width=3)):
        other = RunStore(folder, changed)
        for act in (other.__enter__, other.finished):
            with pytest.raises(RunError) as error:
                act()
            said = str(error.value)
            assert "holds another run" in said and "--out" in said
            if changed.b:
                assert "b=0 there, 1 here" in said and "gamma=0.1 there, 0.5 here" in said
                assert "alpha" not in said and "task" not in said
            else:
                assert "width" in said
    assert (folder / "config.json").read_bytes() == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"task": {"kind": "magic"}}'])
def test_a_configuration_that_cannot_be_read(folder, tiny, text):
    folder.mkdir()
    (folder / "config.json").write_text(text)
    with pytest.raises(RunError, match=r"config\.json cannot be read"):
        RunStore(folder, tiny()).finished()


def test_a_folder_of_something_else_is_left_alone(folder, tiny):
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="is not empty and not a run"), RunStore(folder, tiny()):
        pass
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]


def test_a_folder_is_held_by_one_at_a_time(store, folder, tiny):
    with pytest.raises(RunError, match="in use by another process"), RunStore(folder, tiny()):
        pass
    store.__exit__()
    with RunStore(folder, tiny()):
        pass


def test_a_folder_held_by_another_process(folder, tiny):
    with RunStore(folder, tiny()):
        pass
    hold = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX)"
    call = [sys.executable, "-c", hold + "; print(1, flush=True); input()", str(folder / ".lock")]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(RunError, match="in use by another process"), RunStore(folder, tiny()):
            pass
        other.communicate(b"\n")
    with RunStore(folder, tiny()):
        pass


# ---- the end of a run ----------------------------------------------------------------------


def finish(store):
    epochs = range(1, store.config.epochs + 1)
    for epoch in epochs:
        store.append(row(store, epoch))
    store.save_checkpoint(epochs[-1], VALUES, {})
    assert not store.finished()
    store.finish(VALUES)


def test_finish(store, folder):
    finish(store)
    last = str(store.config.epochs)
    row, model = (folder / "DONE").read_text().splitlines()
    assert store.finished() and json.loads(row)["epoch"] == last
    assert model == f"model {digest(folder / 'model.params')}"
    assert load_arrays(folder / "model.params")["w"].tobytes() == VALUES["w"].tobytes()
    assert list_checkpoints(folder / "checkpoint") == [] and leftovers(folder) == []


@pytest.mark.parametrize("lines", [0, 1, -1])
def test_a_finished_run_whose_metrics_were_cut_is_not_trusted(store, folder, lines):
    finish(store)
    metrics = folder / "metrics.csv"
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:lines]))
    with pytest.raises(RunError, match="metrics.csv is damaged"):
        store.finished()


def test_diverged_is_said_again(store, folder):
    with pytest.raises(DivergedError) as first:
        store.mark_diverged(4)
    with pytest.raises(DivergedError) as second:
        store.finished()
    assert str(first.value) == str(second.value) and "in epoch 4" in str(first.value)


SESSION = {"after_epoch": 0, "threads": 1, "cpu": "c", "mxnet": "m", "numpy": "n"}
SESSION.update(slsgd_mx="s", data_sha256="d")


def test_manifest_keeps_every_session(store, folder, capsys):
    store.begin_session(SESSION)
    store.begin_session({**SESSION, "after_epoch": 5})
    assert [session["after_epoch"] for session in store.sessions()] == [0, 5]
    assert capsys.readouterr().err == ""
    store.begin_session({**SESSION, "after_epoch": 6, "threads": 2})
    assert "threads 1 -> 2" in capsys.readouterr().err
    for damage in ("{cut sho", "[]", '{"sessions": 3}'):
        (folder / "manifest.json").write_text(damage)
        with pytest.raises(RunError, match="manifest.json is damaged"):
            store.begin_session({**SESSION, "after_epoch": 7})


def test_a_run_does_not_go_on_with_other_data(store):
    store.begin_session(SESSION)
    with pytest.raises(RunError, match="other data .*d there, e here"):
        store.begin_session({**SESSION, "after_epoch": 5, "data_sha256": "e"})
    store.begin_session({**SESSION, "data_sha256": "e"})  # from the start: nothing is mixed
