"""Distributed runs whose processes are killed, stopped, too slow or sent garbage."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from helpers.parameter_server import COMMAND, SMOKE, alive, children, environment, wait_until
from helpers.run_folders import numbers

from slsgd_mx.errors import LostError
from slsgd_mx.parameter_server import launcher
from slsgd_mx.parameter_server.launcher import Options, launch
from slsgd_mx.runs.checkpoints import newest_epoch
from slsgd_mx.runs.metrics import read_metrics

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="MXNet's parameter server: Linux")


@pytest.fixture
def attempts(monkeypatch):
    """The sets of processes that the launcher starts, one for each attempt."""
    started = []
    enter = launcher._Roles.__enter__

    def remember(self):
        started.append(self)
        return enter(self)

    monkeypatch.setattr(launcher._Roles, "__enter__", remember)
    yield started
    for roles in started:  # none of them is left, whatever happened
        assert not any(alive(child.process.pid) for child in roles.children.values())
        with socket.socket() as visitor:
            assert visitor.connect_ex(("127.0.0.1", roles.port)) != 0  # nor is its port


def hit_at(epoch, attempts, who, number=signal.SIGKILL):
    """A listener that sends a signal to a role of the first attempt after an epoch."""

    def listen(progress):  # of each epoch once
        if progress.epoch == epoch:
            roles = attempts[-1]  # which worker is worker 0 is known only once it has reported
            follower = {"worker-0": "worker-1", "worker-1": "worker-0"}[roles.coordinator]
            name = {"coordinator": roles.coordinator, "follower": follower}.get(who, who)
            os.kill(roles.children[name].process.pid, number)

    return listen


@pytest.mark.parametrize("who", ["coordinator", "follower", "server-1", "scheduler"])
def test_killed_and_restarted_equals_undisturbed(config, alone, attempts, tmp_path, who, capsys):
    listener, servers = hit_at(3, attempts, who), 2 if who == "server-1" else 1
    result = launch(config, tmp_path / "run", listener=listener, options=Options(2, servers))
    assert len(attempts) == 2
    assert numbers(result.folder) == numbers(alone.folder)
    said = capsys.readouterr().err
    assert "was killed by SIGKILL: restarting all processes from the last checkpoint" in said
    if who != "coordinator":  # who saved before it was started again
        assert result.rows[0]["epoch"] == "1" and len(read_metrics(result.folder)) == 12


def test_stopped_server_is_noticed_in_time(config, alone, attempts, tmp_path, capsys):
    listener = hit_at(3, attempts, "server-0", signal.SIGSTOP)
    began = time.monotonic()
    result = launch(config, tmp_path / "run", listener=listener, options=Options(2, 1, patience=4))
    assert len(attempts) >= 2 and time.monotonic() - began < 60
    assert numbers(result.folder) == numbers(alone.folder)
    assert "exited with 75" in capsys.readouterr().err


def test_slow_worker_is_left_out_until_it_catches_up(tiny, attempts, tmp_path):
    """With a deadline, epochs are committed without a stopped worker, which joins again later."""
    config = tiny(epochs=400, eval_every=1, b=0, deadline=0.7)
    stop = hit_at(3, attempts, "follower", signal.SIGSTOP)
    resume = hit_at(6, attempts, "follower", signal.SIGCONT)

    def listen(progress):
        stop(progress)
        resume(progress)
        if progress.epoch > 6 and read_metrics(tmp_path / "run")[-1]["accepted"] == "4":
            raise KeyboardInterrupt  # seen enough

    with pytest.raises(KeyboardInterrupt):
        launch(config, tmp_path / "run", listener=listen, options=Options(2, 1))
    rows = read_metrics(tmp_path / "run")
    assert len(attempts) == 1
    assert {row["missing"] for row in rows[:3]} == {"0"}
    assert [int(row["missing"]) for row in rows[4:6]] == [2, 2]  # the follower's share of k=4
    assert rows[-1]["missing"] == "0" or rows[-2]["missing"] == "0"


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


def test_garbage_on_the_port_does_not_change_the_result(config, alone, attempts, tmp_path):
    """ps-lite may abort on bytes that are not its messages; then all roles are restarted."""
    knocks = []

    def knock():
        while len(knocks) < 4:
            ports = [roles.port for roles in attempts[-1:] if roles.children]
            with socket.socket() as stranger:
                if ports and stranger.connect_ex(("127.0.0.1", ports[0])) == 0:
                    noise = os.urandom(64) if len(knocks) % 2 else b"GET / HTTP/1.1\r\n\r\n"
                    knocks.append(stranger.send(noise))
            time.sleep(0.5)

    threading.Thread(target=knock, daemon=True).start()
    result = launch(config, tmp_path / "run", options=Options(2, 1, restarts=10))
    assert knocks and numbers(result.folder) == numbers(alone.folder)


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
    said = process.communicate(timeout=60)[0].decode()
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
