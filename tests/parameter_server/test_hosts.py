"""Four hosts with addresses of their own, one of them cut off in mid-epoch and all restarted."""

import itertools
import os
import shutil
import subprocess
import sys

import pytest
from helpers.parameter_server import COMMAND, Roles, wait_until
from helpers.run_folders import numbers

from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.runs.trainer import train

HOSTS = ("scheduler", "server-0", "worker-0", "worker-1")
PATIENCE = 6
TRAIN = """
import time
from slsgd_mx import trainer
from slsgd_mx.cli import main

run_epoch = trainer.run_epoch

def slow_epoch(t, *arguments):  # so that there is a middle of an epoch
    time.sleep(0.3)
    return run_epoch(t, *arguments)

trainer.run_epoch = slow_epoch
main(prog_name="slsgd-mx")
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Hosts:
    """Network namespaces, one a host, and one more for the switch between them."""

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
        """Pull a host's plug (``down``), or put it back (``up``)."""
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
        pytest.skip(f"this machine makes no network namespaces: {error.stderr.strip()}")
    yield made
    made.remove()


def start_all(folder, hosts, words):
    """One role a host, as whatever places processes on machines would start them."""
    roles = Roles(folder, workers=2, servers=1, host=hosts.addresses["scheduler"])
    for name in HOSTS:
        role = name.split("-")[0]
        arguments = ["dist", role, "--patience", PATIENCE]
        roles.start(
            name,
            *(arguments + ["--", *words] if role == "worker" else arguments),
            code=TRAIN if role == "worker" else COMMAND,
            prefix=["ip", "netns", "exec", hosts.names[name]],
            node=hosts.addresses[name],
        )
    return roles


def test_a_link_is_cut_and_all_is_well_after_a_restart(hosts, tiny, tmp_path):
    sizes = (
        "--train-images 80 --test-images 20 -n 8 -k 4 --batch-size 10 --width 2 --loss-images 80"
    )
    symbols = "--epochs 12 --eval-every 1 --q 1 --b 1 --no-warm-up"
    words = ["cifar", "--preset", "smoke", *sizes.split(), *symbols.split()]
    words += ["--out", tmp_path / "run"]
    config = tiny(epochs=12, q=1, b=1, warm_up=False, alpha_decay_epoch=20)
    alone = train(config, tmp_path / "alone")

    roles = start_all(tmp_path, hosts, words)
    try:
        wait_until(lambda: len(read_metrics(tmp_path / "run")) >= 3, "epoch 3")
        hosts.link("worker-1", "down")
        codes = roles.wait()  # each notices by itself
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
    said = itertools.chain(*(roles.log(name).read_text().splitlines() for name in HOSTS[2:]))
    assert any("resuming after epoch" in line for line in said)
