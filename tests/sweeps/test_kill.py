"""A whole figure in real processes that is killed, interrupted and run again.

Figure 11 has the fewest runs that share their beginnings: four after two.
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

import slsgd_mx
from slsgd_mx.cli import main, planning
from slsgd_mx.runs.checkpoints import newest_epoch
from slsgd_mx.runs.metrics import read_metrics

COMMAND = "import sys; from slsgd_mx.cli import main; main(prog_name='slsgd-mx')"
SIZES = (
    "--preset smoke --vocab-size 24 --bptt 4 --device-batches 2 --loss-batches 4 --test-batches 3 "
    "-n 8 -k 5 --batch-size 3 --width 8 --no-warm-up --repeats 1"
)
FIGURE = [
    "fig11",
    *SIZES.split(),
    "--epochs",
    "16",
    "--alpha-decay-epoch",
    "2",
    "--eval-every",
    "1",
]
PLANNED = 2 * 2 + 4 * 14  # epochs of two beginnings of 2 and of the four runs after them
PATIENCE = 300  # seconds


def arguments(home, *more):
    return [*FIGURE, "--runs", str(home / "the runs"), "--out", str(home / "pictures"), *more]


def stay_on_one_core():
    """Then a process has one thread, on any machine, and there is one unless we ask for more."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


@pytest.fixture(scope="module")
def start():
    """``start(home, ...)``: the command in a process that does not outlive the tests."""
    package = str(Path(slsgd_mx.__file__).parent.parent)
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    started = []

    def start(home, *more):
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments(home, *more)],
            env={**os.environ, "PYTHONPATH": path},
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
    """All it printed, once it has ended."""
    return process.communicate(timeout=PATIENCE)[0].decode()


def computed(text):
    """Epochs that were computed, as the command says."""
    (count,) = re.findall(r"^computed (\d+) epochs", text, re.MULTILINE)
    return int(count)


@pytest.fixture
def dry_run(monkeypatch):
    """``dry_run(home)``: epochs to compute, as ``--dry-run`` says; without its calibration."""

    def dry_run(home):
        result = CliRunner().invoke(main, [*arguments(home), "--dry-run"])
        assert result.exit_code == 0, result.output
        (count,) = re.findall(r"^epochs to compute: (\d+) ", result.output, re.MULTILINE)
        return int(count)

    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    monkeypatch.setattr(planning, "_show_forecast", lambda *arguments: None)
    yield dry_run
    for number, handler in before:
        signal.signal(number, handler)


def run_folders(home):
    return [path.parent for path in (home / "the runs").glob("*/config.json")]


def done(home):
    return [folder for folder in run_folders(home) if (folder / "DONE").exists()]


def wait_until(process, condition):
    """Return as soon as it holds; fail if the command ends before."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, said_by(process)
        assert time.monotonic() < give_up, "it did not get there"
        time.sleep(0.002)


def children(pid):
    """Processes that a process has started, with the time they began; none without /proc."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        fields = stat(path)
        if fields and int(fields[1]) == pid:
            found[path] = fields[19]
    return found


def stat(path):
    """State, parent and so on of a process; nothing once it has ended."""
    try:
        fields = path.read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []
    return [] if fields[0] in "ZX" else fields  # a zombie holds nothing


def is_there(path, began):
    fields = stat(path)
    return bool(fields) and fields[19] == began


@pytest.fixture(scope="module")
def unbroken(start, tmp_path_factory):
    """Home of the figure computed without interruption, and what the command said."""
    home = tmp_path_factory.mktemp("unbroken")
    process = start(home)
    text = said_by(process)
    assert process.returncode == 0, text
    return home, text


def figure(home):
    return (home / "pictures" / "fig11.csv").read_bytes()


def test_what_a_dry_run_says_is_what_is_computed(unbroken, dry_run, tmp_path):
    home, text = unbroken
    assert dry_run(tmp_path) == computed(text) == PLANNED
    assert list(tmp_path.iterdir()) == []
    assert dry_run(home) == 0
    assert len(done(home)) == 6 and len(figure(home).splitlines()) == 1 + 4 * 16


def test_killed_and_interrupted_and_run_again_equals_unbroken(start, unbroken, dry_run, tmp_path):
    process = start(tmp_path, "--jobs", "2")
    wait_until(process, lambda: len(done(tmp_path)) >= 1)
    workers = children(process.pid)
    assert len(workers) == 2 or not Path("/proc/self/stat").exists()
    process.kill()
    process.wait()
    assert len(done(tmp_path)) < 6 and not (tmp_path / "pictures").exists()
    give_up = time.monotonic() + PATIENCE / 10
    while any(is_there(*worker) for worker in workers.items()):
        assert time.monotonic() < give_up, "a worker outlives its command"
        time.sleep(0.02)

    process = start(tmp_path, "--jobs", "2")

    def in_the_middle_of_a_run():
        going_on = [folder for folder in run_folders(tmp_path) if not (folder / "DONE").exists()]
        return any(4 <= len(read_metrics(folder)) < 8 for folder in going_on)

    wait_until(process, in_the_middle_of_a_run)
    workers = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    text = said_by(process)
    assert process.returncode == 130 and "Traceback" not in text
    assert not any(is_there(*worker) for worker in workers.items())  # it waited for them
    (line,) = [line for line in text.splitlines() if line.strip().startswith("slsgd-mx fig11")]
    assert shlex.split(line)[1:] == arguments(tmp_path, "--jobs", "2")
    begun = [folder for folder in run_folders(tmp_path) if folder not in done(tmp_path)]
    assert any(newest_epoch(folder / "checkpoint") >= 3 for folder in begun)
    for folder in begun:  # all but the epoch under way, or nothing but a beginning half copied
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
