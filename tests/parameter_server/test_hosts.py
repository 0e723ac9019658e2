"""Four hosts with their own addresses: one is disconnected during an epoch, all are restarted."""

import os
import shutil
import subprocess
import sys

import pytest
from helpers.parameter_server import SMOKE, Roles, wait_until
from helpers.run_folders import numbers

from slsgd_mx.runs.metrics import read_metrics

HOSTS = ("scheduler", "server-0", "worker-0", "worker-1")
PATIENCE = 6
TRAIN = """
import time
from slsgd_mx.cli import main
from slsgd_mx.runs import trainer

run_epoch = trainer.run_epoch

def slow_epoch(t, *arguments):  # so that the link can be cut during an epoch
    time.sleep(0.3)
    return run_epoch(t, *arguments)

trainer.run_epoch = slow_epoch
main(prog_name="slsgd-mx")
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Hosts:
    """Network namespaces: one for every host, and one for the switch between them."""

    def __init__(self, names):
        self.switch = f"slsgd-{os.getpid()}"
        self.names = {name: f"{self.switch}-{number}" for number, name in enumerate(names)}
        self.addresses = {name: f"10.77.0.{number}" for number, name in enumerate(names, start=1)}

    def connect(self):
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        for number, (name, host) in enumerate(self.names.items()):
            ip("netns", "add", host)
            pair = ("type", "veth", "peer", "name", "net0", "netns", host)
            ip("-n", self.switch, "link", "add", f"port{number}", *pair)
            ip("-n", self.switch, "link", "set", f"port{number}", "master", "bridge", "up")
            ip("-n", host, "addr", "add", f"{self.addresses[name]}/24", "dev", "net0")
            for device in ("lo", "net0"):
                ip("-n", host, "link", "set", device, "up")

    def link(self, name, state):
        """Disconnect a host (``down``), or connect it again (``up``)."""
        ip("-n", self.switch, "link", "set", f"port{list(self.names).index(name)}", state)

    def remove(self):
        for name in [*self.names.values(), self.switch]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.fixture
def hosts():
    if sys.platform != "linux" or not shutil.which("ip"):
        pytest.skip("network namespaces need Linux and iproute2")
    made = Hosts(HOSTS)
    try:
        made.connect()
    except subprocess.CalledProcessError as error:
        made.remove()
        pytest.skip(f"network namespaces are not available: {error.stderr.strip()}")
    yield made
    made.remove()


def start_all(folder, hosts, words):
    """Start one role on every host, as a cluster manager would."""
    roles = Roles(folder, workers=2, servers=1, host=hosts.addresses["scheduler"])
    inside = {name: ["ip", "netns", "exec", host] for name, host in hosts.names.items()}
    places = {name: dict(prefix=inside[name], node=hosts.addresses[name]) for name in HOSTS}
    roles.start_all(words, PATIENCE, TRAIN, places=places)
    return roles


def test_run_resumes_after_a_link_was_cut(hosts, alone, tmp_path):
    symbols = "--epochs 12 --eval-every 1 --q 1 --b 1 --alpha 0.5 --alpha-decay-epoch 2"
    words = ["cifar", *SMOKE.split(), "--loss-images", 80, *symbols.split()]
    words += ["--out", tmp_path / "run"]

    roles = start_all(tmp_path, hosts, words)
    try:
        wait_until(lambda: len(read_metrics(tmp_path / "run")) >= 3, "epoch 3")
        hosts.link("worker-1", "down")
        codes = roles.wait()  # every role notices it
    finally:
        roles.stop()
    assert set(codes.values()) == {75}, codes
    assert not (tmp_path / "run" / "DONE").exists()
    before = len(read_metrics(tmp_path / "run"))
    assert 3 <= before < 12

    hosts.link("worker-1", "up")
    roles = start_all(tmp_path, hosts, words)
    try:
        assert set(roles.wait().values()) == {0}
    finally:
        roles.stop()
    assert numbers(tmp_path / "run") == numbers(alone.folder)
    assert roles.say("resuming after epoch")[0] >= 1
