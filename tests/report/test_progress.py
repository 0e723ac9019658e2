"""Progress and time left, from plan.json and run folders."""

import json
import threading
import time

import pytest
from click.testing import CliRunner
from helpers.run_folders import keep, store_run

from slsgd_mx.cli import main
from slsgd_mx.report.progress import measure, read_plan
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.records import load_runs
from slsgd_mx.sweeps.plan import make_plan

pytest.importorskip("plotly")


def write_plan(home, started, *runs):
    steps = [dict(zip(("folder", "start", "epochs"), run)) for run in runs]
    (home / "plan.json").write_text(json.dumps({"started": started, "runs": steps}))


def test_the_pace_is_that_of_the_sweep(tiny, tmp_path):
    store_run(tmp_path, tiny(seed=0), [1, 1, 1])
    keep(tmp_path / tiny(seed=1).slug, tiny(seed=1), 1)
    runs = [(tiny(seed=0).slug, 1, 3), (tiny(seed=1).slug, 0, 3), ("later", 0, 4)]
    write_plan(tmp_path, 1000.0, *runs)
    now = measure(tmp_path, load_runs(tmp_path), now=1030.0)
    assert now.epochs == 2 + 1 + 0 and now.epochs_total == 2 + 3 + 4
    assert (now.ended, now.runs, now.unfinished) == (1, 3, True)
    assert now.seconds_left == pytest.approx(6 * 30 / 3)


def test_a_run_that_diverged_has_nothing_left(tiny, tmp_path):
    store_run(tmp_path, tiny(), [1, 1], diverged=True)
    write_plan(tmp_path, 0.0, (tiny().slug, 0, 3))
    now = measure(tmp_path, load_runs(tmp_path))
    assert now.epochs == now.epochs_total == 3 and not now.unfinished
    assert now.seconds_left is None


def test_without_a_plan_the_running_sessions_give_the_pace(tiny, tmp_path):
    config = tiny(epochs=10)
    keep(tmp_path / "run", config, 4)
    session = {"started": "1970-01-01T00:10:00Z", "after_epoch": 2}
    (tmp_path / "run" / "manifest.json").write_text(json.dumps({"sessions": [session]}))
    with RunFolder(tmp_path / "run", config):  # it is running
        now = measure(tmp_path, load_runs(tmp_path), now=620.0)
    assert now.running == ["run"] and now.unfinished
    assert now.seconds_left == pytest.approx(6 * 20 / 2)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", '{"runs": 3, "started": 1}', '{"runs": [{}]}', "[" * 100_000),
        '{"started": 1, "runs": [{"folder": "a", "start": 0, "epochs": Infinity}]}',
        '{"started": 1, "runs": [{"folder": "a", "start": -1, "epochs": 3}]}',
        '{"started": -Infinity, "runs": []}',
    ],
)
def test_a_damaged_plan_is_ignored(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    assert read_plan(tmp_path) is None
    assert measure(tmp_path, []).runs == 0


def test_a_plan_that_has_ended_does_not_hide_later_runs(tiny, tmp_path):
    store_run(tmp_path, tiny(), [1, 1, 1])
    store_run(tmp_path, tiny(seed=1), [1, 1, 1])
    write_plan(tmp_path, 1000.0, (tiny().slug, 0, 3))
    assert not measure(tmp_path, load_runs(tmp_path)).unfinished
    keep(tmp_path / "later", tiny(seed=2), 1)
    now = measure(tmp_path, load_runs(tmp_path))
    assert (now.ended, now.runs, now.epochs, now.epochs_total) == (1, 2, 4, 6)
    assert now.seconds_left is None  # nothing is running
    session = {"started": "1970-01-01T00:10:00Z", "after_epoch": 0}
    (tmp_path / "later" / "manifest.json").write_text(json.dumps({"sessions": [session]}))
    with RunFolder(tmp_path / "later", tiny(seed=2)):
        now = measure(tmp_path, load_runs(tmp_path), now=620.0)
    assert now.running == ["later"] and now.seconds_left == pytest.approx(2 * 20 / 1)


def test_runs_that_were_left_before_the_sweep_are_not_waited_for(tiny, tmp_path):
    store_run(tmp_path, tiny(), [1, 1, 1])
    write_plan(tmp_path, 1000.0, (tiny().slug, 0, 3))
    keep(tmp_path / "old", tiny(seed=2), 1)
    session = {"started": "1970-01-01T00:10:00Z", "after_epoch": 0}
    (tmp_path / "old" / "manifest.json").write_text(json.dumps({"sessions": [session]}))
    now = measure(tmp_path, load_runs(tmp_path), now=1060.0)
    assert (now.runs, now.epochs_total, now.unfinished) == (1, 3, False)


def test_planning_writes_no_plan(tiny, tmp_path):
    make_plan({"fig": [tiny()]}, tmp_path)
    assert read_plan(tmp_path) is None


def test_watching_ends_when_all_runs_have_ended(tiny, elsewhere, tmp_path):
    home, page = tmp_path / "runs", tmp_path / "report.html"
    home.mkdir()
    write_plan(home, time.time(), (tiny().slug, 0, 3))
    seen = []

    def finish():
        while not page.exists():
            time.sleep(0.05)
        seen.append('"watch":1.0' in page.read_text())
        store_run(home, tiny(), [1, 1, 1])

    helper = threading.Thread(target=finish)
    helper.start()
    done = CliRunner().invoke(main, ["report", "--watch", "--every", "1"])
    helper.join()
    assert done.exit_code == 0, done.output
    assert seen == [True] and '"watch":null' in page.read_text()
    assert "1 run, 0 figures: open report.html" in done.output


def test_watching_runs_that_have_ended_ends_at_once(tiny, elsewhere, tmp_path, monkeypatch):
    def wait(seconds):
        raise AssertionError("nothing to wait for")

    store_run(tmp_path / "runs", tiny(), [1, 1, 1])
    monkeypatch.setattr("slsgd_mx.cli.report.time.sleep", wait)
    done = CliRunner().invoke(main, ["report", "--watch"])
    assert done.exit_code == 0, done.output
