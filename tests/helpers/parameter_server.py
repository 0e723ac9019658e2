"""Roles of a distributed run as child processes of a test, all ended when the test ends."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import slsgd_mx
from slsgd_mx.parameter_server.launcher import find_port
from slsgd_mx.parameter_server.node import Cluster
from slsgd_mx.parameter_server.secret import VARIABLE, new_secret

PATIENCE = 300  # seconds until a test gives up, on a busy machine
COMMAND = """
from slsgd_mx.cli import main
from slsgd_mx.figures import build
build.draw_runs = lambda *arguments: None  # which takes longer than the training
main(prog_name='slsgd-mx')
"""
SMOKE = "--preset smoke --train-images 80 --test-images 20 -n 8 -k 4 --batch-size 10 --width 2"


def environment(**more):
    home = str(Path(slsgd_mx.__file__).parent.parent)
    paths = [home, str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths), **more}


def parent(pid):
    """The parent of a living process; None if there is no such process, or only a zombie."""
    with contextlib.suppress(OSError):
        state, parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
        return None if state in "ZX" else int(parent)


def alive(pid):
    return parent(pid) is not None


def children(pid):
    """The living processes that a process started; none without /proc."""
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    return [child for child in pids if parent(child) == pid]


def capture(*command, **options):
    """Run a command to its end, with its output as text; fails if it takes too long."""
    options = {"env": environment(), "capture_output": True, "text": True, **options}
    return subprocess.run(list(map(str, command)), timeout=PATIENCE, **options)


def wait_until(condition, what="it"):
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"{what} did not happen within {PATIENCE} seconds"
        time.sleep(0.02)


class Roles:
    """Processes started one by one, each with a log; ``host`` is the scheduler's address."""

    def __init__(self, folder, workers, servers, host="127.0.0.1"):
        self.folder, self.cluster = Path(folder), Cluster(workers, servers, host, find_port())
        self.processes, self.secret = {}, new_secret()

    def start(self, name, *arguments, code=COMMAND, prefix=(), node=None, secret=None):
        """Start a role; ``name`` is also the name of its log, ``arguments`` follow ``slsgd-mx``."""
        role = name.split("-")[0]
        own = {**self.cluster.variables(role), "DMLC_NODE_HOST": node or self.cluster.host}
        own[VARIABLE] = secret or self.secret
        command = [*prefix, sys.executable, "-c", code, *map(str, arguments)]
        with open(self.log(name), "ab") as log:
            streams = dict(stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
            self.processes[name] = subprocess.Popen(command, env=environment(**own), **streams)
        return self.processes[name]

    def start_all(
        self,
        words,
        patience=30,
        code=COMMAND,
        server=COMMAND,
        different=(),
        places=None,
        secrets=None,
    ):
        """Start all roles, on ``places[name]``; ``different`` are further words of worker 1.

        ``code`` is what workers execute, ``server`` what the others do.
        """
        names = ["scheduler", *(f"server-{number}" for number in range(self.cluster.servers))]
        for name in [*names, *(f"worker-{number}" for number in range(self.cluster.workers))]:
            role, place = name.split("-")[0], places[name] if places else {}
            arguments = ["dist", role, "--patience", patience]
            if role == "worker":
                arguments += ["--", *words, *(different if name == "worker-1" else ())]
            program = code if role == "worker" else server
            own = (secrets or {}).get(name)
            self.start(name, *arguments, code=program, secret=own, **place)

    def say(self, *texts):
        """In how many logs of workers each of the texts occurs."""
        numbers = range(self.cluster.workers)
        logs = [self.log(f"worker-{number}").read_text() for number in numbers]
        return [sum(text in log for log in logs) for text in texts]

    def log(self, name):
        return self.folder / f"{name}.log"

    def wait(self):
        """Wait for all processes to end; return their exit codes."""
        give_up = time.monotonic() + PATIENCE
        return {n: p.wait(max(0.1, give_up - time.monotonic())) for n, p in self.processes.items()}

    def stop(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
