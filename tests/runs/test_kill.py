"""Real processes that are really killed, interrupted and terminated."""

import random
import shlex
import signal
import subprocess
import sys
import time

import pytest
from helpers.parameter_server import COMMAND, PATIENCE
from helpers.run_folders import leftovers, numbers

from slsgd_mx.runs.folder import list_checkpoints, load_newest
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.runs.trainer import train
from slsgd_mx.system.processes import environment

TRAIN = """
import os, signal, sys, time
from slsgd_mx.config import RunConfig
from slsgd_mx.runs.trainer import train

config, folder, last_words = sys.argv[1:]
rename = os.replace

def rename_or_die(source, target):
    if last_words and last_words in str(target):
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)

def wait_to_be_killed(progress):  # however late that is on a busy machine
    while not last_words and progress.epoch == progress.config.epochs - 2:
        time.sleep(0.1)

os.replace = rename_or_die
train(RunConfig.from_json(config), folder, listener=wait_to_be_killed, checkpoint_seconds=0)
"""


@pytest.fixture
def start():
    """``start(code, *arguments)``: a Python process that does not outlive the test."""
    started = []

    def start(code, *arguments, **options):
        call = [sys.executable, "-c", code, *map(str, arguments)]
        started.append(subprocess.Popen(call, env=environment(threads=1), **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def wait_for_rows(process, folder, count):
    """Return as soon as metrics.csv has ``count`` rows; fail if the process ends before."""
    give_up = time.monotonic() + PATIENCE
    while len(read_metrics(folder)) < count:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < give_up, f"no rows in {PATIENCE} seconds"
        time.sleep(0.002)


@pytest.fixture
def run_and_kill(start, tmp_path):
    """Start a run, kill it some time after its first rows, or when it renames a certain file."""

    def run_and_kill(config, rows=0, last_words=""):
        folder = tmp_path / "run"
        process = start(TRAIN, config.to_json(), folder, last_words)
        if not last_words:
            wait_for_rows(process, folder, rows)
            time.sleep(random.Random(rows).uniform(0, 0.05))
            process.kill()
        assert process.wait(PATIENCE) == -signal.SIGKILL
        assert not (folder / "DONE").exists()
        return folder

    return run_and_kill


def test_killed_at_several_moments_and_resumed_equals_unbroken(run_and_kill, tiny, tmp_path):
    config = tiny(epochs=24, q=1, b=1, attack="nan", alpha=0.5, alpha_decay_epoch=6)
    whole = train(config, tmp_path / "whole")
    folder = run_and_kill(config, rows=3)  # somewhere in the fourth epoch or the fifth
    run_and_kill(config, last_words="epoch-000009")  # row 9 is written, its checkpoint is not
    assert len(read_metrics(folder)) == 9
    assert load_newest(folder / "checkpoint")[0] == 8
    run_and_kill(config, last_words="DONE")  # the last moment there is
    assert (folder / "model.params").exists()
    train(config, folder)
    assert numbers(folder) == numbers(whole.folder)
    assert leftovers(folder) == list_checkpoints(folder / "checkpoint") == []


@pytest.mark.parametrize("tiny", ["lstm"], indirect=True)
def test_a_killed_language_model_resumed_equals_unbroken(run_and_kill, tiny, tmp_path):
    config = tiny(epochs=30, q=1, b=1, alpha=0.5, alpha_decay_epoch=6)
    whole = train(config, tmp_path / "whole")
    folder = run_and_kill(config, rows=3)
    assert load_newest(folder / "checkpoint")[0] < 30
    assert train(config, folder).resumed_from >= 2  # row 3 is on disk, its checkpoint may not be
    assert numbers(folder) == numbers(whole.folder)


@pytest.mark.parametrize(
    "number, exit_code",
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_interrupted_from_outside(start, tmp_path, number, exit_code):
    """It saves, has its own exit code, and prints a command that resumes and can be pasted."""
    folder = tmp_path / "a run"
    sizes = "--preset smoke --train-images 80 --test-images 20 -n 8 -k 4 --batch-size 10 --width 2"
    arguments = ["cifar", *sizes.split(), "--eval-every", 1, "--epochs", 5000, "--out", folder]
    process = start(COMMAND, *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wait_for_rows(process, folder, 2)
    process.send_signal(number)
    said = process.communicate(timeout=PATIENCE)[0].decode()
    assert process.returncode == exit_code
    assert "Traceback" not in said
    rows = read_metrics(folder)
    epoch = load_newest(folder / "checkpoint")[0]
    assert len(rows) - 1 <= epoch <= len(rows)  # all but the epoch under way, without a timer
    (line,) = [line for line in said.splitlines() if line.strip().startswith("slsgd-mx cifar")]
    assert shlex.split(line)[1:] == [str(argument) for argument in arguments]
