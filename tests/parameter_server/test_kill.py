"""Distributed runs whose processes are killed, stopped or too slow, and their memory."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.parameter_server import (
    COMMAND,
    PATIENCE,
    SMOKE,
    alive,
    children,
    environment,
    wait_until,
)
from helpers.run_folders import numbers

from slsgd_mx.errors import LostError
from slsgd_mx.parameter_server import launcher
from slsgd_mx.parameter_server.launcher import Options, launch
from slsgd_mx.runs.checkpoints import newest_epoch
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.runs.trainer import train

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="MXNet's parameter server: Linux")


def hit(roles, who, number=signal.SIGKILL):
    """Send a signal to a role; which worker is worker 0 is known once it has reported."""
    follower = {"worker-0": "worker-1", "worker-1": "worker-0"}[roles.coordinator]
    name = {"coordinator": roles.coordinator, "follower": follower}.get(who, who)
    os.kill(roles.children[name].process.pid, number)


def hit_at(attempts, hits):
    """A listener that sends signals after an epoch: ``{epoch: [(role, signal), ...]}``."""

    def listen(progress):  # of each epoch once
        for who, number in hits.get(progress.epoch, ()):
            hit(attempts[-1], who, number)

    return listen


STOP, KILL = signal.SIGSTOP, signal.SIGKILL
PATIENT = dict(patience=6, restarts=20)  # on a busy machine roles may miss each other's heartbeats


@pytest.mark.parametrize("who", ["coordinator", "follower", "server-1", "scheduler"])
def test_killed_and_restarted_equals_undisturbed(config, alone, attempts, tmp_path, who, capsys):
    hold = [("follower", STOP)] if who == "scheduler" else []  # else the run might end without it
    listener, servers = hit_at(attempts, {3: [*hold, (who, KILL)]}), 2 if who == "server-1" else 1
    result = launch(config, tmp_path / "run", listener=listener, options=Options(2, servers))
    assert len(attempts) == 2
    assert numbers(result.folder) == numbers(alone.folder)
    said = capsys.readouterr().err
    assert "was killed by SIGKILL: restarting all processes from the last checkpoint" in said
    assert "all processes were restarted 1 time(s)" in said
    if who != "coordinator":  # who saved before it was started again
        assert result.rows[0]["epoch"] == "1" and len(read_metrics(result.folder)) == 12


@pytest.mark.parametrize("tiny", ["lstm"], indirect=True)
def test_the_language_model_survives_a_killed_worker_and_server(tiny, attempts, tmp_path):
    config = tiny(epochs=12, q=1, b=1, alpha=0.5, alpha_decay_epoch=2)
    whole = train(config, tmp_path / "alone")
    listener = hit_at(attempts, {2: [("follower", KILL)], 6: [("server-2", KILL)]})
    result = launch(config, tmp_path / "run", listener=listener, options=Options(2, 3))
    assert len(attempts) == 3
    assert numbers(result.folder) == numbers(whole.folder)


@pytest.mark.parametrize("who", ["server-0", "scheduler"])
def test_stopped_role_is_noticed(config, alone, attempts, tmp_path, capsys, who):
    """By its heartbeats: all others exit, and are restarted."""
    hold = [("follower", STOP)] if who == "scheduler" else []  # else the run might end without it
    listener = hit_at(attempts, {3: [*hold, (who, STOP)]})
    result = launch(config, tmp_path / "run", listener=listener, options=Options(2, 1, **PATIENT))
    assert len(attempts) >= 2
    assert numbers(result.folder) == numbers(alone.folder)
    assert "exited with 75" in capsys.readouterr().err
    if who == "scheduler":
        logs = [path.read_text() for path in (result.folder / "logs").iterdir()]
        assert any("no heartbeat from the scheduler for 6 seconds" in log for log in logs)


def test_slow_worker_is_left_out_until_it_catches_up(tiny, attempts, tmp_path):
    """With a deadline, epochs are committed without a stopped worker, which joins again later.

    On a busy machine any epoch may miss pushes, and the launcher hears of it late: the test stops
    the worker after an epoch that is complete, and looks at epochs that began after that.
    """
    config = tiny(epochs=5000, eval_every=1, b=0, deadline=1.5)
    stopped, resumed = [], []  # the last row on disk when that happened

    def listen(progress):
        rows = read_metrics(tmp_path / "run")
        complete = bool(rows) and rows[-1]["accepted"] == "4"
        if not stopped and complete:
            hit(attempts[-1], "follower", signal.SIGSTOP)
            stopped.append(len(read_metrics(tmp_path / "run")))
        elif stopped and not resumed and len(rows) >= stopped[0] + 3:
            hit(attempts[-1], "follower", signal.SIGCONT)
            resumed.append(len(rows))
        elif resumed and len(rows) > resumed[0] and complete:
            raise KeyboardInterrupt  # seen enough

    with pytest.raises(KeyboardInterrupt):
        launch(config, tmp_path / "run", listener=listen, options=Options(2, 1))
    missing = {int(row["epoch"]): int(row["missing"]) for row in read_metrics(tmp_path / "run")}
    assert len(attempts) == 1
    without = range(stopped[0] + 2, resumed[0] + 1)  # it may have pushed in the epoch before
    assert without and all(missing[epoch] >= 2 for epoch in without)  # its share of k=4


def memory_of(roles):
    """Resident megabytes of every role."""
    found = {}
    for name, child in roles.children.items():
        text = Path(f"/proc/{child.process.pid}/status").read_text()
        found[name] = int(text.split("VmRSS:")[1].split()[0]) / 1024
    return found


@pytest.mark.parametrize("tiny", ["problem"], indirect=True)
def test_memory_of_every_role_is_bounded(tiny, attempts, tmp_path):
    """SLSGD_MX_EPOCHS=1000 runs it for longer."""
    epochs = int(os.environ.get("SLSGD_MX_EPOCHS", 150))
    config = tiny(epochs=epochs, eval_every=epochs // 10)
    seen = {}

    def listen(progress):
        if progress.epoch in (epochs // 3, epochs - 10):
            seen[progress.epoch] = memory_of(attempts[-1])

    launch(config, tmp_path / "run", listener=listen, options=Options(2, 2))
    early, late = seen.values()
    print(epochs, early, late)
    growth = {name: late[name] - early[name] for name in early}
    assert len(growth) == 5 and max(growth.values()) < 8, growth  # of about 150 MB


def test_restarts_are_bounded(config, attempts, tmp_path, monkeypatch):
    """Every attempt is killed before its first epoch."""
    watch = launcher._Roles.watch

    def kill_and_watch(self, progress):
        self.children["server-0"].process.kill()
        watch(self, progress)

    monkeypatch.setattr(launcher._Roles, "watch", kill_and_watch)
    with pytest.raises(LostError) as error:
        launch(config, tmp_path / "run", options=Options(1, 1, restarts=1))
    assert len(attempts) == 2
    assert "server-0 was killed by SIGKILL. That was after 1 restart(s) without" in str(error.value)
    assert str(tmp_path / "run" / "logs") in str(error.value)


@pytest.fixture
def launched(tmp_path):
    """A running ``launch`` command after two epochs: its process, run folder and arguments."""
    folder = tmp_path / "a run"
    words = ["launch", "--workers", "2", "--", "cifar", *SMOKE.split()]
    words += ["--eval-every", "1", "--epochs", "5000", "--out", str(folder)]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    wait_until(lambda: len(read_metrics(folder)) >= 2 or process.poll() is not None, "epoch 2")
    yield process, folder, words
    process.kill()
    process.communicate()


def test_interrupted_launcher_saves_and_prints_the_command_that_resumes(launched):
    process, folder, words = launched
    roles = children(process.pid)
    assert len(roles) == 4
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=PATIENCE)[0].decode()
    assert process.returncode == 130 and "Traceback" not in said
    assert not any(alive(pid) for pid in roles)
    assert len(read_metrics(folder)) - 1 <= newest_epoch(folder / "checkpoint")
    (line,) = [line for line in said.splitlines() if line.strip().startswith("slsgd-mx launch")]
    assert shlex.split(line)[1:] == words


def test_killed_launcher_leaves_no_process_behind(launched):
    process, folder, _ = launched
    roles = children(process.pid)
    os.kill(roles[0], signal.SIGSTOP)  # it cannot exit by itself
    process.kill()
    process.wait()
    wait_until(lambda: not any(alive(pid) for pid in roles), "the end of all roles")
