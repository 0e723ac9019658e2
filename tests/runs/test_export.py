"""Runs as one table and as event files."""

import sys
from types import SimpleNamespace

import pytest
from helpers.run_folders import store_run

from slsgd_mx.errors import RunError
from slsgd_mx.runs.export import tidy, wide, write_events
from slsgd_mx.runs.records import load_runs


@pytest.fixture
def runs(tiny, tmp_path):
    store_run(tmp_path / "runs", tiny(gamma=0.1), [3, 2, 1])
    store_run(
        tmp_path / "runs" / "deep", tiny(q=1, gamma=0.30000000000000004), [6, 5, float("nan")]
    )
    return sorted(load_runs(tmp_path / "runs"), key=lambda run: run.symbols["q"])


def test_tidy_has_a_row_for_each_run_evaluation_and_metric(runs):
    header, rows = tidy(runs)
    assert len(rows) == 2 * 3 * 3 and all(len(row) == len(header) for row in rows)
    last = dict(zip(header, rows[-4]))
    assert (last["run"], last["status"], last["q"]) == (str(runs[1].path), "done", "1")
    assert (last["epoch"], last["metric"], last["value"]) == (2, "test_accuracy", "5.0")
    assert last["gamma"] == "0.30000000000000004" and last["attack"] == "label-flip"
    assert dict(zip(header, rows[0]))["attack"] == "" and rows[-1][-1] == "nan"


def test_wide_has_a_row_for_each_run_and_evaluation(runs):
    header, rows = wide(runs)
    assert len(rows) == 2 * 3 and len(set(header)) == len(header)
    first = dict(zip(header, rows[0]))
    assert (first["epoch"], first["train_loss"], first["alpha"], first["alpha_t"]) == (
        1,
        3,
        "1.0",
        1,
    )
    assert first["epochs"] == "3" and "units_per_second" in header


def test_no_runs_make_a_table_without_rows():
    assert tidy([]) == (["run", "status", "epoch", "metric", "value"], [])
    assert wide([])[1] == []


def test_event_files_without_the_package_name_the_remedy(runs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(RunError, match=r'pip install "slsgd-mx\[tensorboard\]"'):
        write_events(runs, tmp_path / "runs", tmp_path / "events")
    assert not (tmp_path / "events").exists()


def test_event_files_hold_the_finite_numbers_by_epoch(runs, tmp_path, monkeypatch):
    written = {}

    class Writer:
        def __init__(self, folder):
            self.scalars = written[folder] = []

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            pass

        def add_text(self, tag, text):
            assert tag == "config" and '"gamma"' in text

        def add_scalar(self, tag, value, step):
            self.scalars.append((tag, value, step))

    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=Writer))
    folders = write_events(runs, tmp_path / "runs", tmp_path / "events")
    assert [str(folder) for folder in folders] == list(written)
    assert folders[1] == tmp_path / "events" / "deep" / runs[1].path.name
    losses = [row for row in written[str(folders[1])] if row[0] == "train_loss"]
    assert losses == [("train_loss", 6.0, 1), ("train_loss", 5.0, 2)]
    assert not any(tag in ("epoch", "refused_devices") for tag, *_ in written[str(folders[0])])


def test_event_files_are_replaced(runs, tmp_path):
    pytest.importorskip("tensorboardX")
    for _ in range(2):
        folders = write_events(runs, tmp_path / "runs", tmp_path / "events")
    files = list((tmp_path / "events").rglob("events.out.tfevents.*"))
    assert len(files) == len(folders) == 2 and all(file.stat().st_size > 500 for file in files)
