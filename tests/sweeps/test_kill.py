"""A whole figure in real processes that is killed, interrupted and run again.

Figure 11 has the fewest runs that share prefixes: four runs, two prefixes.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.parameter_server import COMMAND, alive, children

from slsgd_mx.cli import main, planning
from slsgd_mx.plugins import VARIABLE
from slsgd_mx.runs.checkpoints import newest_epoch
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.system.processes import environment
from slsgd_mx.system.threads import thread_count

SIZES = (
    "--preset smoke --vocab-size 24 --bptt 4 --device-batches 1 --loss-batches 2 --test-batches 1 "
    "-n 8 -k 5 --batch-size 3 --width 8 --no-warm-up --repeats 1"
)
FIGURE = f"fig11 {SIZES} --epochs 12 --alpha-decay-epoch 2 --eval-every 1".split()
PLANNED = 2 * 2 + 4 * 10  # epochs of the two prefixes, and of the four runs after them
PATIENCE = 300  # seconds


def arguments(home, *more):
    return [*FIGURE, "--runs", str(home / "the runs"), "--figures", str(home / "pictures"), *more]


HOLD = """
import time
from slsgd_mx.runs import trainer

run_epoch = trainer.run_epoch

def hold_epoch(t, *arguments):  # so that the command is still running when it is to be stopped
    while t == 6:
        time.sleep(0.01)
    return run_epoch(t, *arguments)

trainer.run_epoch = hold_epoch
"""


def stay_on_one_core():
    """By default the command then starts one process with one thread, on any machine."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


@pytest.fixture(scope="module")
def start():
    """``start(home, ...)``: the command in a process that does not outlive the tests.

    With ``hold``, no run gets beyond epoch 5.
    """
    started = []

    def start(home, *more, hold=False):
        plugins = {VARIABLE: str(home / "hold.py")} if hold else {}
        if hold:
            (home / "hold.py").write_text(HOLD)
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments(home, *more)],
            env=environment(thread_count(), **plugins),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a group to send Ctrl-C to, as a terminal does
            preexec_fn=stay_on_one_core,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def said_by(process):
    """All that it printed; waits for its end."""
    return process.communicate(timeout=PATIENCE)[0].decode()


def computed(text):
    """The number of epochs computed, according to the command."""
    (count,) = re.findall(r"^computed (\d+) epochs", text, re.MULTILINE)
    return int(count)


@pytest.fixture
def dry_run(monkeypatch):
    """``dry_run(home)``: epochs to compute, according to ``--dry-run``; without its forecast."""

    def dry_run(home):
        result = CliRunner().invoke(main, [*arguments(home), "--dry-run"])
        assert result.exit_code == 0, result.output
        (count,) = re.findall(r"^epochs to compute: (\d+) ", result.output, re.MULTILINE)
        return int(count)

    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    monkeypatch.setattr(planning, "_forecast", lambda *arguments: None)
    yield dry_run
    for number, handler in before:
        signal.signal(number, handler)


def run_folders(home):
    return [path.parent for path in (home / "the runs").glob("*/config.json")]


def done(home):
    return [folder for folder in run_folders(home) if (folder / "DONE").exists()]


def wait_until(process, condition):
    """Return as soon as the condition holds; fail if the command ends before."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, said_by(process)
        assert time.monotonic() < give_up, "the condition was not met in time"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def unbroken(start, tmp_path_factory):
    """The home of the figure computed without interruption, and the command's output."""
    home = tmp_path_factory.mktemp("unbroken")
    process = start(home)
    text = said_by(process)
    assert process.returncode == 0, text
    return home, text


def figure(home):
    return (home / "pictures" / "fig11.csv").read_bytes()


def test_a_dry_run_predicts_the_epochs_computed(unbroken, dry_run, tmp_path):
    home, text = unbroken
    assert dry_run(tmp_path) == computed(text) == PLANNED
    assert list(tmp_path.iterdir()) == []
    assert dry_run(home) == 0
    assert len(done(home)) == 6 and len(figure(home).splitlines()) == 1 + 4 * 12


def test_killed_and_interrupted_and_run_again_equals_unbroken(start, unbroken, dry_run, tmp_path):
    process = start(tmp_path, "--jobs", "2", hold=True)
    wait_until(process, lambda: len(done(tmp_path)) >= 1)
    started = children(process.pid)
    assert len(started) == 2 or not Path("/proc/self/stat").exists()
    process.kill()
    process.wait()
    assert len(done(tmp_path)) < 6 and not (tmp_path / "pictures").exists()
    give_up = time.monotonic() + PATIENCE
    while any(map(alive, started)):
        assert time.monotonic() < give_up, "a child outlives its command"
        time.sleep(0.02)

    process = start(tmp_path, "--jobs", "2", hold=True)

    def in_the_middle_of_a_run():
        running = [folder for folder in run_folders(tmp_path) if not (folder / "DONE").exists()]
        return any(4 <= len(read_metrics(folder)) < 8 for folder in running)

    wait_until(process, in_the_middle_of_a_run)
    started = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    text = said_by(process)
    assert process.returncode == 130 and "Traceback" not in text
    assert not any(map(alive, started))  # the command waited for them
    (line,) = [line for line in text.splitlines() if line.strip().startswith("slsgd-mx fig11")]
    assert shlex.split(line)[1:] == arguments(tmp_path, "--jobs", "2")
    begun = [folder for folder in run_folders(tmp_path) if folder not in done(tmp_path)]
    assert any(newest_epoch(folder / "checkpoint") >= 3 for folder in begun)
    for folder in begun:  # at most the current epoch is lost; or a prefix was being copied
        epoch, rows = newest_epoch(folder / "checkpoint"), len(read_metrics(folder))
        assert rows - 1 <= epoch <= rows or (epoch, rows) == (0, 2), folder

    left = dry_run(tmp_path)
    assert 0 < left < PLANNED
    process = start(tmp_path)
    text = said_by(process)
    assert process.returncode == 0, text
    assert computed(text) == left
    assert figure(tmp_path) == figure(unbroken[0])
    models = [
        {folder.name: (folder / "model.params").read_bytes() for folder in done(home)}
        for home in (tmp_path, unbroken[0])
    ]
    assert models[0] == models[1] and len(models[0]) == 6
