"""Disks that are full or may not be written: a clear error, nothing lost, a rerun goes on."""

import os
from contextlib import contextmanager

import numpy as np
import pytest
from helpers.run_folders import keep, leftovers, made_up_row, numbers

from slsgd_mx.errors import RunError
from slsgd_mx.runs.folder import RunFolder, list_checkpoints, load_newest
from slsgd_mx.runs.trainer import train

SMALL, LARGE = ({"w": np.zeros(size, np.float32)} for size in (10, 100_000))
KEPT = "What was saved before is kept"


@contextmanager
def full_disk(size):
    """No file may grow beyond ``size`` bytes: the portable way to a disk that is full."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def run_folder(tmp_path, tiny):
    with RunFolder(tmp_path / "run", tiny()) as opened:
        opened.resume()
        yield opened


def test_a_checkpoint_that_does_not_fit_leaves_the_older_ones(run_folder):
    run_folder.save_checkpoint(1, SMALL, {})
    for size in (20_000, 399_000):  # in the middle, and just before the end
        with full_disk(size), pytest.raises(RunError, match="cannot write to .*" + KEPT):
            run_folder.save_checkpoint(2, LARGE, {})
        assert leftovers(run_folder.path) == []
    assert load_newest(run_folder.path / "checkpoint")[0] == 1
    run_folder.save_checkpoint(2, LARGE, {})
    assert load_newest(run_folder.path / "checkpoint")[0] == 2


def test_a_row_that_does_not_fit(run_folder):
    run_folder.append(made_up_row(run_folder, 1))
    size = (run_folder.path / "metrics.csv").stat().st_size
    with full_disk(size + 9), pytest.raises(RunError, match="cannot write to .*" + KEPT):
        run_folder.append(made_up_row(run_folder, 2))
    assert [r["epoch"] for r in run_folder.rows()] == ["1"]


def test_a_final_model_that_does_not_fit(run_folder):
    run_folder.append(made_up_row(run_folder, 1))
    run_folder.save_checkpoint(1, LARGE, {})
    with full_disk(20_000), pytest.raises(RunError, match=KEPT):
        run_folder.finish(LARGE)
    assert not run_folder.finished() and leftovers(run_folder.path) == []
    assert len(list_checkpoints(run_folder.path / "checkpoint")) == 1


def test_a_run_goes_on_after_the_disk_was_full(tmp_path, tiny):
    config = tiny(epochs=4)
    whole = train(config, tmp_path / "whole")
    limit = full_disk(600)

    def listener(progress):
        if progress.epoch == 2:
            limit.__enter__()

    try:
        with pytest.raises(RunError, match="cannot write to .*" + KEPT):
            train(config, tmp_path / "run", listener=listener)
    finally:
        limit.__exit__(None, None, None)
    assert leftovers(tmp_path) == []
    resumed = train(config, tmp_path / "run")
    assert numbers(resumed.folder) == numbers(whole.folder)


def test_a_full_disk_at_the_very_end_loses_nothing(tmp_path, tiny):
    """The last epochs are kept even where the final model cannot be written."""
    config = tiny(epochs=3)
    keep(tmp_path / "run", config)
    (tmp_path / "run" / "model.params").mkdir()  # nothing can be renamed to this
    with pytest.raises(RunError, match="cannot write to"):
        train(config, tmp_path / "run")
    (tmp_path / "run" / "model.params").rmdir()
    assert train(config, tmp_path / "run").resumed_from == 3


@pytest.mark.parametrize("place", ["file", "file/run"])
def test_a_file_in_place_of_the_folder(tmp_path, tiny, place):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunError, match="file"):
        train(tiny(), tmp_path / place)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_may_not_be_written(tmp_path, tiny):
    tmp_path.chmod(0o500)
    try:
        if os.access(tmp_path, os.W_OK):
            pytest.skip("this user may write everywhere")
        with pytest.raises(RunError, match="Permission denied"):
            train(tiny(), tmp_path / "run")
    finally:
        tmp_path.chmod(0o700)
