"""Run folders: whole files or none, rows, checkpoints, locks."""

import dataclasses
import fcntl
import json
import os
import threading

import numpy as np
import pytest
from helpers.run_folders import VALUES, bits, cut, flip, leftovers, made_up_row

from slsgd_mx.errors import ConfigError, DivergedError, FailedError, RunError
from slsgd_mx.runs.folder import KEPT_CHECKPOINTS, RunFolder, list_checkpoints, load_newest
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.runs.records import load_run
from slsgd_mx.runs.trainer import _Tally
from slsgd_mx.system import files
from slsgd_mx.system.files import (
    digest,
    load_arrays,
    save_arrays,
    write_atomically,
)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def run_folder(folder, tiny):
    with RunFolder(folder, tiny()) as opened:
        opened.resume()
        yield opened


def empty(path):
    path.write_bytes(b"")


class Disk:
    """Records what is synced and renamed, by inode."""

    def __init__(self, monkeypatch):
        self.did, sync, rename = [], os.fsync, os.replace
        note = lambda *act: self.did.append(act)  # noqa: E731
        monkeypatch.setattr(os, "fsync", lambda f: note("sync", os.fstat(f).st_ino) or sync(f))
        monkeypatch.setattr(
            os, "replace", lambda a, b: note("rename", os.stat(a).st_ino) or rename(a, b)
        )

    def expect(self, path, *more):
        """The file was synced before it was renamed, and its folder afterwards."""
        file, folder = os.stat(path).st_ino, os.stat(path.parent).st_ino
        once = [("rename", file), ("sync", folder)]
        assert self.did == [("sync", file), *once, *(once if more else [])]
        self.did.clear()


def test_files_and_their_folder_are_on_the_disk_before_a_write_ends(
    run_folder, folder, tmp_path, monkeypatch
):
    disk = Disk(monkeypatch)
    write_atomically(tmp_path / "file", b"text")
    disk.expect(tmp_path / "file")
    save_arrays(tmp_path / "arrays", VALUES)
    disk.expect(tmp_path / "arrays")
    run_folder.save_checkpoint(1, VALUES, {})
    assert disk.did.pop(0) == ("sync", os.stat(folder / "pushes.csv").st_ino)
    disk.expect(list_checkpoints(folder / "checkpoint")[0], "renamed twice")
    run_folder.append(made_up_row(run_folder, 1))
    assert disk.did == [("sync", os.stat(folder / "metrics.csv").st_ino)]


def test_new_folders_are_on_the_disk_before_a_run_starts(tmp_path, tiny, monkeypatch):
    disk = Disk(monkeypatch)
    with RunFolder(tmp_path / "runs" / "new", tiny()):
        synced = {inode for did, inode in disk.did if did == "sync"}
    above = (tmp_path, tmp_path / "runs", tmp_path / "runs" / "new")
    assert {os.stat(folder).st_ino for folder in above} <= synced


@pytest.mark.parametrize(
    "notes",
    [{"news": 1}, {"accepted": "a"}, {"refused_devices": 3}, {"refused_devices": [3]}],
    ids=str,
)
def test_notes_of_a_checkpoint_that_are_not_understood_are_an_error(tmp_path, notes):
    """Those of a newer version, or of somebody who wishes no good."""
    tally = _Tally(accepted=3, refused_devices=["1:7"], seconds=0.5)
    assert _Tally.from_notes(dataclasses.asdict(tally), tmp_path) == tally
    with pytest.raises(RunError, match=f"does not understand .{next(iter(notes))}.: move it away"):
        _Tally.from_notes({**dataclasses.asdict(tally), **notes}, tmp_path)


def test_a_name_that_is_not_utf8_is_refused_before_training(tmp_path, tiny):
    """MXNet could not save the model."""
    folder = tmp_path / os.fsdecode(b"M\xfcller")
    with pytest.raises(RunError, match="that name is not UTF-8"), RunFolder(folder, tiny()):
        pass
    assert not folder.exists()
    save_arrays(tmp_path / "Müller", VALUES)
    assert load_arrays(tmp_path / "Müller").keys() == VALUES.keys()


def test_leftovers_of_a_crash_are_removed(folder, tiny):
    for name in ("config.json.tmp", "checkpoint/writing.tmp", "checkpoint/writing.tmp.part.tmp"):
        (folder / "checkpoint").mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"half")
    with RunFolder(folder, tiny()):
        assert leftovers(folder) == []


def test_rows_come_back_exactly(run_folder, folder):
    value = 0.1 + 0.2
    run_folder.append(
        {**made_up_row(run_folder, 1), "train_loss": value, "test_loss": np.float64("nan")}
    )
    (read,) = read_metrics(folder)
    assert float(read["train_loss"]) == value and read["test_loss"] == "nan"
    assert list(read) == list(run_folder.columns)


@pytest.mark.parametrize("size", [1, 5, 20])
def test_a_last_row_cut_short_is_left_out(run_folder, folder, size):
    for epoch in (1, 2, 3):
        run_folder.append(made_up_row(run_folder, epoch))
    path = folder / "metrics.csv"
    path.write_bytes(path.read_bytes()[:-size])
    assert [r["epoch"] for r in run_folder.rows()] == ["1", "2"]


@pytest.mark.parametrize("text", [None, "epoch,alpha\ngarbage\n", "epoch,alpha\n1,\0\0\0\n"])
def test_damaged_metrics_are_a_clear_error(run_folder, folder, text):
    """Rows up to the checkpoint cannot be computed again: never go on without them."""
    run_folder.append(made_up_row(run_folder, 1))
    run_folder.save_checkpoint(1, VALUES, {})
    if text is None:
        (folder / "metrics.csv").unlink()
    else:
        (folder / "metrics.csv").write_text(text)
    with pytest.raises(RunError, match=r"metrics\.csv"):
        run_folder.resume()


def test_checkpoint_round_trip(run_folder):
    run_folder.save_checkpoint(7, VALUES, {"refused": 2, "seconds": 0.1})
    epoch, values, notes = load_newest(run_folder.path / "checkpoint")
    assert notes.pop("digests").keys() == {"rows", "pushes"}
    assert (epoch, notes) == (7, {"refused": 2, "seconds": 0.1})
    assert bits(values) == bits(VALUES)


@pytest.mark.parametrize("harm", [flip, cut, empty])
def test_a_corrupt_checkpoint_falls_back_to_the_one_before(run_folder, folder, harm, capsys):
    run_folder.save_checkpoint(1, VALUES, {})
    run_folder.save_checkpoint(2, VALUES, {})
    (newest, _) = list_checkpoints(folder / "checkpoint")
    harm(newest)
    damaged = newest.read_bytes()
    assert load_newest(folder / "checkpoint")[0] == 1
    said = capsys.readouterr().err
    assert f"{newest} is corrupt and was renamed; resuming from epoch-000001" in said
    assert not newest.exists() and newest.with_suffix(".corrupt").read_bytes() == damaged
    assert load_newest(folder / "checkpoint")[0] == 1 and capsys.readouterr().err == ""


def test_no_sound_checkpoint_is_an_error_that_loses_nothing(run_folder, folder):
    for epoch in (1, 2):
        run_folder.append(made_up_row(run_folder, epoch))
        run_folder.save_checkpoint(epoch, VALUES, {})
    for path in list_checkpoints(folder / "checkpoint"):
        flip(path)
    before = (folder / "metrics.csv").read_bytes()
    with pytest.raises(RunError, match="no checkpoint in .* is intact: remove the folder"):
        run_folder.resume()
    assert (folder / "metrics.csv").read_bytes() == before
    assert len(list_checkpoints(folder / "checkpoint")) == 2


def test_a_folder_that_has_the_name_of_an_old_checkpoint_is_left_alone(run_folder, folder):
    run_folder.save_checkpoint(1, VALUES, {})
    (old,) = list_checkpoints(folder / "checkpoint")
    old.unlink()
    (old / "mine").mkdir(parents=True)
    for epoch in (2, 3, 4):
        run_folder.save_checkpoint(epoch, VALUES, {})
    assert len(list_checkpoints(folder / "checkpoint")) == KEPT_CHECKPOINTS + 1
    run_folder.append(made_up_row(run_folder, 1))
    run_folder.finish(VALUES)
    assert list_checkpoints(folder / "checkpoint") == [old] and (old / "mine").exists()


def test_other_files_are_no_checkpoints(run_folder, folder):
    for name in ("epoch-\u00b2\u00b2.x.params", "epoch-\u0661.x.params", "epoch-.params"):
        (folder / "checkpoint" / name).touch()
    assert list_checkpoints(folder / "checkpoint") == []


def test_no_checkpoint_starts_from_nothing(run_folder, folder):
    run_folder.append(made_up_row(run_folder, 1))
    assert run_folder.resume() == (0, None, {}) and run_folder.rows() == []
    assert load_newest(folder / "checkpoint") == (0, None, {})


def test_another_configuration_is_refused_by_its_differences(run_folder, folder, tiny):
    before = (folder / "config.json").read_bytes()
    run_folder.__exit__()
    for changed in (tiny(b=1, gamma=0.5), tiny(width=3)):
        other = RunFolder(folder, changed)
        for act in (other.__enter__, other.finished):
            with pytest.raises(RunError) as error:
                act()
            said = str(error.value)
            assert "holds another run" in said and "--out" in said
            if changed.b:
                assert "b=0 there, 1 here" in said and "gamma=0.1 there, 0.5 here" in said
                assert "alpha" not in said and "task" not in said
            else:
                assert "(width=2 there, 3 here)" in said
    assert (folder / "config.json").read_bytes() == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"task": {"kind": "magic"}}'])
def test_a_configuration_that_cannot_be_read(folder, tiny, text):
    folder.mkdir()
    (folder / "config.json").write_text(text)
    with pytest.raises(RunError, match=r"config\.json cannot be read"):
        RunFolder(folder, tiny()).finished()


def test_a_folder_of_something_else_is_left_alone(folder, tiny):
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="is not empty and not a run"), RunFolder(folder, tiny()):
        pass
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]


def test_looking_at_a_lock_does_not_stop_a_run(folder, tiny):
    """Lists take the lock for a moment, to see whether the run is running."""
    RunFolder(folder, tiny()).__enter__().__exit__()
    looking = files.open_lock(folder / ".lock", make=False)
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.1, looking.close).start()
    with RunFolder(folder, tiny()):
        assert looking.closed


def test_a_folder_is_held_by_one_at_a_time(run_folder, folder, tiny):
    with pytest.raises(RunError, match="in use by another process"), RunFolder(folder, tiny()):
        pass
    run_folder.__exit__()
    with RunFolder(folder, tiny()):
        pass


def test_finish(run_folder, folder):
    last = run_folder.config.epochs
    for epoch in range(1, last + 1):
        run_folder.append(made_up_row(run_folder, epoch))
    run_folder.save_checkpoint(last, VALUES, {})
    assert not run_folder.finished()
    run_folder.finish(VALUES)
    row, config, rows, pushes, model = (folder / "DONE").read_text().splitlines()
    assert run_folder.finished() and json.loads(row)["epoch"] == str(last)
    assert model == f"model {digest(folder / 'model.params')}"
    assert config == f"config {digest(folder / 'config.json')}"
    assert rows == f"rows {digest(folder / 'metrics.csv')}"
    assert pushes == f"pushes {digest(folder / 'pushes.csv')}"
    assert bits(load_arrays(folder / "model.params")) == bits(VALUES)
    assert list_checkpoints(folder / "checkpoint") == [] and leftovers(folder) == []


SESSION = {"after_epoch": 0, "threads": 1, "cpu": "c", "mxnet": "m", "numpy": "n"}
SESSION.update(slsgd_mx="s", data_sha256="d")


def test_manifest_keeps_every_session(run_folder, folder, capsys):
    run_folder.begin_session(SESSION)
    run_folder.begin_session({**SESSION, "after_epoch": 5})
    assert [session["after_epoch"] for session in run_folder.sessions()] == [0, 5]
    assert capsys.readouterr().err == ""
    run_folder.begin_session({**SESSION, "after_epoch": 6, "threads": 2})
    assert "threads 1 -> 2" in capsys.readouterr().err
    for name in ("cpu", "mxnet", "numpy", "slsgd_mx"):
        run_folder.begin_session({**SESSION, "after_epoch": 6})
        capsys.readouterr()
        run_folder.begin_session({**SESSION, "after_epoch": 6, name: "other"})
        said = f"continues with {name} {SESSION[name]} -> other: its bytes may differ"
        assert said in capsys.readouterr().err
    for damage in ("{cut sho", "[]", '{"sessions": 3}'):
        (folder / "manifest.json").write_text(damage)
        with pytest.raises(RunError, match="manifest.json is damaged"):
            run_folder.begin_session({**SESSION, "after_epoch": 7})


def test_a_run_does_not_go_on_with_other_data(run_folder):
    run_folder.begin_session(SESSION)
    with pytest.raises(RunError, match="other data .*d there, e here"):
        run_folder.begin_session({**SESSION, "after_epoch": 5, "data_sha256": "e"})
    run_folder.begin_session({**SESSION, "data_sha256": "e"})  # from the start: nothing is mixed


@pytest.mark.parametrize(
    "error, before, rows, stays",
    [
        (TypeError("in a rule"), False, 0, False),
        (ConfigError("a wrong shape"), False, 0, False),
        (TypeError("in a rule"), True, 0, True),
        (TypeError("in a rule"), False, 1, True),
        (KeyboardInterrupt(), False, 0, True),
        (RunError("a full disk"), False, 0, True),
    ],
)
def test_only_a_new_folder_without_rows_is_removed_after_an_error(
    folder, tiny, error, before, rows, stays
):
    if before:
        with RunFolder(folder, tiny()):
            pass
    with pytest.raises(type(error)), RunFolder(folder, tiny()) as opened:
        opened.resume()
        for t in range(rows):
            opened.append(made_up_row(opened, t + 1))
        raise error
    assert folder.exists() == stays


@pytest.mark.parametrize("name, error", [("DIVERGED", DivergedError), ("FAILED", FailedError)])
def test_the_message_of_a_run_that_was_moved_names_its_new_folder(folder, tiny, name, error):
    with RunFolder(folder, tiny()):
        text = f"no luck; the rows are in {folder / 'metrics.csv'}. Lower --gamma"
        (folder / name).write_text(text)
    moved = folder.rename(folder.with_name(r"moved \1"))
    expected = f"no luck; the rows are in {moved / 'metrics.csv'}. Lower --gamma"
    with pytest.raises(error) as found:
        RunFolder(moved, tiny()).finished()
    assert str(found.value) == load_run(moved).why == expected


@pytest.mark.parametrize("rule, said", [("trimmed-mean", "Trim more"), ("mean", "Lower --gamma")])
def test_a_diverged_run_is_told_to_trim_only_if_its_rule_does(folder, tiny, rule, said):
    with pytest.raises(DivergedError, match=said), RunFolder(folder, tiny(rule=rule)) as opened:
        opened.mark_diverged(1)
