"""The undisturbed runs that chaos compares with, and processes that do not hang."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from helpers.parameter_server import children, environment
from helpers.run_folders import numbers

from chaos import victim
from slsgd_mx.runs.verify import VERIFIED, verify_run

VICTIM = victim.__file__
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["chaos.__main__", "slsgd_mx.cli.training", "slsgd_mx.cli.running"])
SIZES = "--preset smoke --train-images 80 --test-images 20 -n 8 -k 4 --batch-size 10 --width 2"
RUN = f"cifar {SIZES} --q 1 --b 1 --attack nan --alpha 0.5 --alpha-decay-epoch 4 --eval-every 1"
FIGURE = (
    "fig11 --preset smoke --vocab-size 24 --bptt 4 --device-batches 1 --loss-batches 2 "
    "--test-batches 1 -n 8 -k 5 --batch-size 3 --width 8 --no-warm-up --repeats 1 --epochs 12 "
    "--alpha-decay-epoch 2 --eval-every 1 --jobs 2"
)
ONE_AT_A_TIME = threading.Lock()  # multiprocessing loses exit codes if two threads ask for them
EPOCHS = {"short": 8, "long": 30}
PATIENCE = 300  # seconds until a process counts as hanging


class Lost(Exception):
    """What chaos looks for: other bytes, a traceback, a process that hangs or cannot go on."""


class Process:
    """A command of slsgd-mx as users start it, which may be hit; its output is kept."""

    def __init__(self, words):
        call = [sys.executable, VICTIM, "/nowhere", 0, 0, *words]
        self.process = subprocess.Popen(
            list(map(str, call)),
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def hit(self, pid, number):
        """Send a signal, if the process is still there."""
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def roles(self):
        """The process itself and those that it started."""
        return [self.process.pid, *children(self.process.pid)]

    def end(self):
        """Wait until it and all that it started have ended; return exit code and output."""
        try:
            said = self.process.communicate(timeout=PATIENCE)[0]
            return check_end(self.process.returncode, said)
        except subprocess.TimeoutExpired:
            for pid in self.roles()[::-1]:
                self.hit(pid, signal.SIGKILL)
            return check_end(None, self.process.communicate()[0])


def call(words, below="/nowhere", number=0, lose=False, limit=0):
    """Run a command to its end, or to its death at a call; return exit code and output.

    The process is forked from one that has imported everything. ``limit`` is the size in bytes
    that no file of it may exceed.
    """
    with tempfile.NamedTemporaryFile() as log:
        arguments = (log.name, limit, below, number, lose, *words)
        process = FORKS.Process(target=victim.forked, args=arguments)
        with ONE_AT_A_TIME:
            process.start()
        code, give_up = None, time.monotonic() + PATIENCE
        while code is None and time.monotonic() < give_up:
            time.sleep(0.02)
            with ONE_AT_A_TIME:
                code = process.exitcode
        if code is None:
            process.kill()
        return check_end(code, log.read())


def check_end(code, said):
    """Exit code and output as text; a traceback or no exit code, from hanging, raises Lost.

    Python shows a traceback itself if Ctrl-C arrives while it imports the command, which later adds
    the number of the signal to the exception.
    """
    said = said.decode(errors="replace")
    if code is None:
        raise Lost(f"it hangs: {said[-500:]}")
    if "Traceback" in said and not re.search("^KeyboardInterrupt$", said, re.M):
        raise Lost(f"a traceback: {said[-1500:]}")
    return code, said


class World:
    """The numbers of undisturbed runs, computed once."""

    def __init__(self, home):
        self.home = Path(home)
        self.expected, self.calls, self.reached = {}, 0, set()
        for name in (*EPOCHS, "figure"):
            folder = self.home / name
            code, said = Process(self.run(name, folder)).end()
            if code:
                raise Lost(f"the undisturbed run failed: {said}")
            self.expected[name] = self.read(name, folder)
        self.calls = self.count_calls(self.home / "calls")

    def count_calls(self, folder):
        """How many file-system calls a short run makes in its folder."""
        return int(call(self.run("short", folder), folder)[1].rsplit("calls ", 1)[1])

    @staticmethod
    def read(name, folder):
        """The bytes that have to repeat."""
        return drawn(folder) if name == "figure" else numbers(folder)

    @staticmethod
    def run(name, folder):
        """The words of a command, whose files are all in the folder."""
        if name == "figure":
            return [*FIGURE.split(), "--runs", folder / "runs", "--figures", folder / "pictures"]
        return [*RUN.split(), "--epochs", EPOCHS[name], "--out", folder]

    def finish(self, name, folder, words=None, saved=0):
        """Run the command again to its end; the bytes must be those of the undisturbed run.

        It may compute no epoch again that was saved before.
        """
        words = words or self.run(name, folder)
        code, said = call(words) if name == "short" else Process(words).end()
        if code:
            raise Lost(f"it does not go on, exit code {code}: {said[-800:]}")
        check_start(said, saved)
        self.compare(name, folder)
        check = verify_run(folder) if name in EPOCHS else None
        if check and check.result != VERIFIED:
            raise Lost(f"the finished run is {check.result}: {check.why}")

    def compare(self, name, folder, parts=slice(None)):
        """Compare bytes with those of the undisturbed run: rows, model, pushes."""
        if self.read(name, folder)[parts] != self.expected[name][parts]:
            raise Lost("the bytes differ from those of the undisturbed run")


def check_start(said, saved):
    """A command that goes on may not compute an epoch that was saved before."""
    first = re.search(r"^epoch (\d+)/", said, re.M)
    if first and int(first[1]) <= saved:
        raise Lost(f"epoch {saved} was saved, but epoch {first[1]} was computed again")


def drawn(home):
    """The numbers of a figure and the models of its runs."""
    models = {path.parent.name: path.read_bytes() for path in home.glob("runs/*/model.params")}
    return (home / "pictures" / "fig11.csv").read_bytes(), models


def wait(process, seconds):
    """Let a process run for some time, or to its end if that comes first."""
    give_up = time.monotonic() + seconds
    while process.process.poll() is None and time.monotonic() < give_up:
        time.sleep(0.01)
    return process.process.poll() is None
