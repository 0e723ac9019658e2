"""Roles of a distributed run as real processes of a test, which none of them outlives."""

import os
import subprocess
import sys
import time
from pathlib import Path

import slsgd_mx
from slsgd_mx.parameter_server.launcher import find_port
from slsgd_mx.parameter_server.node import Cluster

PATIENCE = 120  # seconds until a test gives up
COMMAND = "import sys; from slsgd_mx.cli import main; main(prog_name='slsgd-mx')"


def environment(**more):
    home = str(Path(slsgd_mx.__file__).parent.parent)
    paths = [home, str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths), **more}


def alive(pid):
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_until(condition, what="it"):
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"{what} did not happen within {PATIENCE} seconds"
        time.sleep(0.02)


class Roles:
    """Processes started one by one, each with a log; ``host`` makes them run elsewhere."""

    def __init__(self, folder, workers, servers, host="127.0.0.1"):
        self.folder, self.cluster = Path(folder), Cluster(workers, servers, host, find_port())
        self.processes = {}

    def start(self, name, *arguments, code=COMMAND, prefix=(), node=None):
        """A role; ``name`` is that of its log, ``arguments`` follow ``slsgd-mx``."""
        role = name.split("-")[0]
        own = {**self.cluster.variables(role), "DMLC_NODE_HOST": node or self.cluster.host}
        with open(self.log(name), "ab") as log:
            self.processes[name] = subprocess.Popen(
                [*prefix, sys.executable, "-c", code, *map(str, arguments)],
                env=environment(**own),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return self.processes[name]

    def log(self, name):
        return self.folder / f"{name}.log"

    def wait(self):
        """The exit codes of all, once they have ended."""
        give_up = time.monotonic() + PATIENCE
        return {n: p.wait(max(0.1, give_up - time.monotonic())) for n, p in self.processes.items()}

    def stop(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
