"""Runs whose pushes are in a file: equal bytes, nothing left behind, full disks."""

import pytest
from helpers.run_folders import numbers

from slsgd_mx.errors import DiskError
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.trainer import train
from slsgd_mx.system import slot_memory


def test_a_run_has_the_same_bytes_and_leaves_no_file(tmp_path, tiny, monkeypatch):
    config, seen = tiny(epochs=2, b=1, q=1), []
    for limit in ("1GB", "0"):
        monkeypatch.setenv(slot_memory.VARIABLE, limit)
        folder = tmp_path / limit
        train(config, folder, listener=lambda progress: None)
        seen.append((numbers(folder), (folder / "model.params").read_bytes()))
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            [".lock", "DONE", "checkpoint", "config.json", "manifest.json", "metrics.csv"]
            + ["model.params", "pushes.csv"]
        )
    assert seen[0] == seen[1]


def test_the_file_that_a_crash_left_is_removed_at_the_next_start(tmp_path, tiny):
    config = tiny()
    with RunFolder(tmp_path / "run", config):
        (tmp_path / "run" / "slots.a1b2.tmp").write_bytes(b"x")
        (tmp_path / "run" / "slots.csv").write_text("a user's")
    with RunFolder(tmp_path / "run", config):
        assert [path.name for path in (tmp_path / "run").glob("slots*")] == ["slots.csv"]


def test_a_full_disk_is_an_error_before_the_first_epoch(tmp_path, tiny, monkeypatch):
    def no_space(handle, count):
        raise OSError(28, "No space left on device")

    monkeypatch.setenv(slot_memory.VARIABLE, "0")
    monkeypatch.setattr(slot_memory, "_reserve", no_space)
    epochs = []
    with pytest.raises(DiskError, match=r"No space left on device \(4 pushes of .*free some space"):
        train(tiny(), tmp_path / "run", listener=lambda progress: epochs.append(progress.epoch))
    assert epochs == []
    monkeypatch.setattr(slot_memory, "_reserve", lambda handle, count: None)
    monkeypatch.delenv(slot_memory.VARIABLE)
    assert train(tiny(), tmp_path / "run").resumed_from == 0
