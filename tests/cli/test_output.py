"""Tables, JSON, and progress with and without a terminal."""

import json
import math
import time
from types import SimpleNamespace

import click
import numpy as np
import pytest
from click.testing import CliRunner

from slsgd_mx.cli import progress
from slsgd_mx.cli.output import json_option, print_json, say, table, to_plain
from slsgd_mx.cli.progress import Counter, Overall, ProgressBar
from slsgd_mx.config import RunConfig
from slsgd_mx.runs.trainer import Progress


def test_columns_are_aligned_and_headers_broken(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    rows = [["one", "done", "0.25"], ["two", "running", ""]]
    assert table(["run", "status", "test_accuracy"], rows).splitlines() == [
        "                  test",
        "run  status   accuracy",
        "one  done         0.25",
        "two  running",
    ]
    monkeypatch.setenv("COLUMNS", "20")
    assert table(["run", "status", "test_accuracy"], rows, first=2).splitlines() == [
        "one  done",
        "    test_accuracy=0.25",
        "two  running",
    ]


def test_names_that_look_like_numbers_are_names():
    assert table(["run", "b"], [["1e2", "10"], ["200a57", "2"]]).splitlines() == [
        "run      b",
        "1e2     10",
        "200a57   2",
    ]


def test_json_is_strict():
    document = {"a": np.array([1.0, math.nan]), "b": math.inf, "c": np.int64(2), "d": (True, None)}
    assert to_plain(document) == {"a": [1.0, None], "b": None, "c": 2, "d": [True, None]}
    json.dumps(to_plain(document), allow_nan=False)


def test_the_option_of_an_outer_command_holds_for_an_inner_one():
    @click.command()
    @json_option
    def inner():
        say("for people")
        print_json({"x": 1})

    @click.command()
    @json_option
    @click.pass_context
    def outer(ctx):
        with inner.make_context("inner", [], parent=ctx) as context:
            inner.invoke(context)

    asked = CliRunner().invoke(outer, ["--json"])
    assert json.loads(asked.stdout) == {"x": 1} and asked.stderr == "for people\n"
    assert CliRunner().invoke(outer, []).stdout == "for people\n"


# ---- progress ------------------------------------------------------------------------------


def walk(config, start=0):
    """What the trainer reports, one second for each epoch."""
    yield Progress(start, config)
    for t in range(start + 1, config.epochs + 1):
        metrics = {"train_loss": 2.0 / t, "test_loss": 2.5 / t, "test_accuracy": 0.1 * t}
        yield Progress(t, config, 1.0, 500, metrics if config.is_evaluated(t) else None)


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=1000.0)
    fake = SimpleNamespace(monotonic=lambda: now.seconds, time=time.time)
    monkeypatch.setattr(progress, "time", fake)
    return now


def test_without_a_terminal_every_evaluation_is_a_line(tmp_path, capsys, clock):
    config = RunConfig(epochs=6, eval_every=2)
    with ProgressBar(config, tmp_path) as bar:
        for report in walk(config, start=1):
            bar(report)
            clock.seconds += 60
    assert capsys.readouterr().err.splitlines() == [
        f"resuming after epoch 1: {tmp_path}",
        "epoch 2/6: train loss 1, test loss 1.25, test accuracy 0.2; 4 minutes left",
        "epoch 4/6: train loss 0.5, test loss 0.625, test accuracy 0.4; 2 minutes left",
        "epoch 6/6: train loss 0.3333, test loss 0.4167, test accuracy 0.6",
    ]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_on_a_terminal_the_bar_fits(tmp_path, capsys, monkeypatch, width):
    monkeypatch.setattr(progress, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    config = RunConfig(epochs=800, eval_every=1)
    with ProgressBar(config, tmp_path) as bar:
        for report in list(walk(config))[:4]:
            bar(report)
        shown = str(bar.bar)
    assert len(shown) <= width and "3/800" in shown and "left" in shown
    assert ("train loss 0.6667" in shown) == (width >= 80)
    assert "test accuracy 0.3" in shown or width < 80
    assert ("500 images/s" in shown and "alpha 1" in shown) == (width == 140)
    assert "epoch 1/" not in capsys.readouterr().err


def test_a_sweep_without_a_terminal_reports_runs_and_minutes(capsys, clock):
    step = SimpleNamespace()
    plan = SimpleNamespace(to_do=[step, step], epochs=10)
    job = SimpleNamespace(name="a")
    with Overall(plan) as display:
        for t in range(5):
            clock.seconds += 30
            display(job, {"event": "epoch", "epoch": t})
        display(job, {"event": "end", "status": "failed"})
    assert capsys.readouterr().err.splitlines() == [
        "epochs 2/10: 0/2 runs, 1 running; 4 minutes left",
        "epochs 4/10: 0/2 runs, 1 running; 3 minutes left",
        "epochs 5/10: 1/2 runs, 0 running, 1 failed; 2 minutes left",
    ]


def test_a_counter_without_a_terminal(capsys, clock):
    with Counter(4, "epochs:") as counter:
        for _ in range(4):
            clock.seconds += 40
            counter.update()
    assert capsys.readouterr().err.splitlines() == [
        "epochs: 2/4; 80 seconds left",
        "epochs: 4/4; 0 seconds left",
    ]


def test_half_of_a_character_is_printed_as_its_code():
    """Somebody else's configuration or folder may hold it, and no terminal can print it."""
    command = click.Command("x", callback=lambda: say("rule=\ud800, \u00e9"))
    assert CliRunner().invoke(command).output == "rule=\\ud800, \u00e9\n"
