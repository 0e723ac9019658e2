"""How far stored runs got, found out without changing anything on disk."""

import os
import shutil

import pytest
from helpers.run_folders import VALUES, cut, cut_lines, keep

from slsgd_mx.runs import checkpoints
from slsgd_mx.runs.checkpoints import list_checkpoints, newest_epoch
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.runs.status import Outcome, read_outcome


@pytest.fixture
def config(tiny):
    return tiny(epochs=6, eval_every=2)


@pytest.fixture
def look(config, tmp_path):
    """``look(folder)``: its outcome, after making sure that looking changed nothing."""

    def state():
        paths = [tmp_path, *sorted(tmp_path.rglob("*"))]
        return [
            (path, os.stat(path).st_mtime_ns, path.read_bytes() if path.is_file() else None)
            for path in paths
        ]

    def look(folder):
        before = state()
        outcome = read_outcome(folder, config)
        assert state() == before
        return outcome

    return look


def test_done(look, config, tmp_path):
    folder = keep(tmp_path / "run", config, 6)
    outcome = look(folder)
    assert (outcome.state, outcome.epoch, outcome.why) == ("done", 6, "")
    assert outcome.rows == read_metrics(folder)
    assert [row["epoch"] for row in outcome.rows] == ["2", "4", "6"]


def test_diverged(look, config, tmp_path):
    folder = keep(tmp_path / "run", config, 4, diverged=True)
    outcome = look(folder)
    assert (outcome.state, outcome.epoch) == ("diverged", 4)
    assert "stopped being finite or a metric became NaN in epoch 4" in outcome.why
    assert outcome.rows == read_metrics(folder) and len(outcome.rows) == 2


def test_failed(look, config, tmp_path):
    folder = keep(tmp_path / "run", config, 4)
    (folder / "FAILED").write_text("no update was applied")
    assert look(folder) == Outcome("failed", why="no update was applied")


@pytest.mark.parametrize("rows", [None, b"", b"\xff\xfe\x00", b"epoch,alpha\n2,1.0\n"])
def test_a_diverged_run_that_lost_its_rows_is_damaged(look, config, tmp_path, rows):
    folder = keep(tmp_path / "run", config, 4, diverged=True)
    (folder / "metrics.csv").unlink()
    if rows is not None:
        (folder / "metrics.csv").write_bytes(rows)
    outcome = look(folder)
    assert (outcome.state, outcome.epoch, outcome.rows) == ("damaged", 0, ())
    assert "metrics.csv is damaged" in outcome.why


def test_missing(look, config, tmp_path):
    assert look(tmp_path / "run") == Outcome("missing")
    keep(tmp_path / "run", config)  # as after a kill in the first epoch
    assert look(tmp_path / "run") == Outcome("missing")
    # as after a kill while the folder was being made
    for name in ("metrics.csv", "pushes.csv", "config.json"):
        (tmp_path / "run" / name).unlink()
    (tmp_path / "run" / "config.json.tmp").write_text("{")
    assert look(tmp_path / "run") == Outcome("missing")


def test_begun(look, config, tmp_path):
    folder = keep(tmp_path / "run", config, 2, 3)
    assert look(folder) == Outcome("begun", 3)
    (folder / "checkpoint" / "writing.tmp").write_bytes(b"half")
    assert look(folder) == Outcome("begun", 3)


def test_corrupt_checkpoints_are_ignored_and_left_alone(look, config, tmp_path, capsys):
    folder = keep(tmp_path / "run", config, 2, 3)
    newest, older = list_checkpoints(folder / "checkpoint")
    assert newest_epoch(folder / "checkpoint") == 3
    cut(newest)
    assert newest_epoch(folder / "checkpoint") == 2
    assert look(folder) == Outcome("begun", 2)
    assert capsys.readouterr().err == "" and newest.exists()
    cut(older)
    outcome = look(folder)
    assert outcome.state == "damaged" and "no checkpoint in" in outcome.why
    assert newest_epoch(tmp_path / "nothing") == 0


def test_a_run_that_goes_on_while_one_looks(config, tmp_path, monkeypatch):
    """Its checkpoints are replaced between listing and reading them."""
    folder = keep(tmp_path / "run", config, 2, 3)
    digest, newest = checkpoints.digest, list_checkpoints(folder / "checkpoint")[0]

    def go_on(path):
        if path == newest:
            monkeypatch.undo()
            for epoch in (4, 5):
                checkpoints.save_checkpoint(folder / "checkpoint", epoch, VALUES, {})
            for old in list_checkpoints(folder / "checkpoint")[2:]:
                old.unlink()
        return digest(path)

    monkeypatch.setattr(checkpoints, "digest", go_on)
    assert read_outcome(folder, config) == Outcome("begun", 5)
    assert not newest.exists()


def change_a_cell(path):
    path.write_text(path.read_text()[:-4] + "0.7\n")


@pytest.mark.parametrize(
    "name, act, word",
    [
        ("metrics.csv", lambda path: cut_lines(path, 0), "metrics.csv is damaged"),
        ("metrics.csv", lambda path: cut_lines(path, 1), "metrics.csv is damaged"),
        ("metrics.csv", lambda path: cut_lines(path, -1), "metrics.csv is damaged"),
        ("metrics.csv", cut, "metrics.csv is damaged"),
        ("metrics.csv", change_a_cell, "metrics.csv is damaged"),
        ("metrics.csv", lambda path: path.write_bytes(b"\xff\xfe\x00"), "metrics.csv is damaged"),
        ("config.json", lambda path: path.write_text("{"), "config.json cannot be read"),
    ],
)
def test_damaged(look, config, tmp_path, name, act, word):
    folder = keep(tmp_path / "run", config, 6)
    assert look(folder).state == "done"
    act(folder / name)
    outcome = look(folder)
    assert (outcome.state, outcome.epoch, outcome.rows) == ("damaged", 0, ())
    assert word in outcome.why and str(folder) in outcome.why


def test_a_folder_of_something_else(look, config, tiny, tmp_path):
    folder = keep(tmp_path / "run", tiny(epochs=6, eval_every=2, seed=7), 6)
    outcome = look(folder)
    assert outcome.state == "damaged" and "seed=7 there, 0 here" in outcome.why
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    outcome = look(folder)
    assert outcome.state == "damaged" and "is not empty and not a run" in outcome.why
    outcome = look(folder / "thesis.tex")
    assert outcome.state == "damaged" and "is a file" in outcome.why
