"""Processes of a distributed run that are killed, stopped, too slow or told rubbish."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from helpers.parameter_server import COMMAND, alive, environment, wait_until
from helpers.run_folders import numbers

from slsgd_mx.errors import LostError
from slsgd_mx.parameter_server import launcher
from slsgd_mx.parameter_server.launcher import Options, launch
from slsgd_mx.runs.checkpoints import newest_epoch
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.runs.trainer import train

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="MXNet's parameter server: Linux")


@pytest.fixture(scope="module")
def config(tiny):
    return tiny(epochs=12, eval_every=1, alpha=0.5, alpha_decay_epoch=2, q=1, b=1)


@pytest.fixture(scope="module")
def alone(config, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("alone") / "run")


@pytest.fixture
def attempts(monkeypatch):
    """The sets of processes that the launcher starts, each a dict by name."""
    started = []
    enter = launcher._Roles.__enter__

    def remember(self):
        started.append(self)
        return enter(self)

    monkeypatch.setattr(launcher._Roles, "__enter__", remember)
    yield started
    for roles in started:  # none of them is left, whatever happened
        assert not any(alive(process.pid) for process in roles.processes.values())
        with socket.socket() as visitor:
            assert visitor.connect_ex(("127.0.0.1", roles.port)) != 0  # nor is its port


def name_of(roles, who):
    """worker 0 and the other are known only once they have begun."""
    if who not in ("coordinator", "follower"):
        return who
    workers = {n: p for n, p in roles.processes.items() if n.startswith("worker")}
    return next(n for n, p in workers.items() if (p is roles.coordinator) == (who == "coordinator"))


def hit_at(epoch, attempts, who, number=signal.SIGKILL):
    """A listener that sends a signal to a role of the first attempt after an epoch."""
    hit = []

    def listen(progress):
        if progress.epoch == epoch and not hit:
            roles = attempts[-1]
            hit.append(name_of(roles, who))
            os.kill(roles.processes[hit[0]].pid, number)

    return listen


@pytest.mark.parametrize("who", ["coordinator", "follower", "server-1", "scheduler"])
def test_killed_and_restarted_equals_undisturbed(config, alone, attempts, tmp_path, who, capsys):
    listener = hit_at(3, attempts, who)
    result = launch(config, tmp_path / "run", listener=listener, options=Options(2, 2))
    assert len(attempts) == 2
    assert numbers(result.folder) == numbers(alone.folder)
    said = capsys.readouterr().err
    assert "was killed by SIGKILL: all start again from the last checkpoint" in said
    if who != "coordinator":  # who saved before it was started again
        assert result.rows[0]["epoch"] == "1" and len(read_metrics(result.folder)) == 12


def test_a_stopped_server_is_noticed_in_time(config, alone, attempts, tmp_path, capsys):
    listener = hit_at(3, attempts, "server-0", signal.SIGSTOP)
    began = time.monotonic()
    result = launch(config, tmp_path / "run", listener=listener, options=Options(2, 1, patience=4))
    assert len(attempts) >= 2 and time.monotonic() - began < 60
    assert numbers(result.folder) == numbers(alone.folder)
    assert "exited with 75" in capsys.readouterr().err


def test_a_device_too_slow_is_left_out_and_comes_back(tiny, attempts, tmp_path):
    """Stopped for a while, with a deadline: epochs go on without it, and then again with it."""
    config = tiny(epochs=400, eval_every=1, b=0, deadline=0.7)
    stopped, resumed = hit_at(3, attempts, "follower", signal.SIGSTOP), []

    def listen(progress):
        stopped(progress)
        if progress.epoch == 6:
            roles = attempts[-1]
            os.kill(roles.processes[name_of(roles, "follower")].pid, signal.SIGCONT)
            resumed.append(progress.epoch)
        if resumed and progress.epoch > 6:
            rows = read_metrics(tmp_path / "run")
            if rows and rows[-1]["accepted"] == "4":
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
    enter = launcher._Roles.__enter__

    def enter_and_kill(self):
        roles = enter(self)
        roles.processes["server-0"].kill()
        return roles

    monkeypatch.setattr(launcher._Roles, "__enter__", enter_and_kill)
    with pytest.raises(LostError) as error:
        launch(config, tmp_path / "run", options=Options(1, 1, restarts=1))
    assert len(attempts) == 2
    assert "server-0 was killed by SIGKILL. That was after 1 restart(s) without" in str(error.value)
    assert str(tmp_path / "run" / "logs") in str(error.value)


def test_strangers_cannot_change_a_bit(config, alone, attempts, tmp_path):
    """Bytes that are no message: at worst ps-lite gives up, and all start again."""
    knocks = []

    def knock():
        while True:
            if attempts and attempts[-1].processes:
                port = int(attempts[-1].port)
                with socket.socket() as stranger:
                    if stranger.connect_ex(("127.0.0.1", port)) == 0:
                        noise = os.urandom(64) if len(knocks) % 2 else b"GET / HTTP/1.1\r\n\r\n"
                        knocks.append(stranger.send(noise))
                        if len(knocks) == 4:
                            return
            time.sleep(0.5)

    threading.Thread(target=knock, daemon=True).start()
    result = launch(config, tmp_path / "run", options=Options(2, 1, restarts=10))
    assert knocks and numbers(result.folder) == numbers(alone.folder)


# ---- the launcher itself -------------------------------------------------------------------

SIZES = "--preset smoke --train-images 80 --test-images 20 -n 8 -k 4 --batch-size 10 --width 2"


@pytest.fixture
def launched(tmp_path):
    """The command under way, with two epochs done, and its words."""
    folder = tmp_path / "a run"
    words = ["launch", "--workers", "2", "--", "cifar", *SIZES.split()]
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


def children(pid):
    """Processes that a process started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[1] == str(pid):
            found.append(int(stat.parent.name))
    return found


def test_interrupted_it_saves_and_says_how_to_go_on(launched):
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


def test_killed_it_leaves_nobody_behind(launched):
    process, folder, _ = launched
    roles = children(process.pid)
    os.kill(roles[0], signal.SIGSTOP)  # one that could not end by itself
    process.kill()
    process.wait()
    wait_until(lambda: not any(alive(pid) for pid in roles), "the end of all roles")
