"""What works on this machine: the checks behind ``slsgd-mx doctor``.

MXNet and the parameter server are tried in a child process with a time limit, so that a crash or a
blocked port there is a finding and not the end of this command.
"""

from __future__ import annotations

import importlib.util
import math
import os
import platform
import select
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from slsgd_mx.errors import SlsgdError
from slsgd_mx.system.machine import cpu_flags, total_memory
from slsgd_mx.system.precision import FLAGS, no_gain
from slsgd_mx.system.processes import Child, Message, Report, how_it_ended
from slsgd_mx.system.threads import VARIABLE, available_cores, cores_to_share, thread_count

PATIENCE = 90.0  # seconds for MXNet, and again for the parameter server
LITTLE_DISK, LITTLE_MEMORY = 1e9, 2e9  # bytes


@dataclass(frozen=True)
class Check:
    """One finding; ``ok`` is None for a fact that is neither good nor bad."""

    name: str
    ok: Optional[bool]
    text: str


def examine(report: Callable[[Check], None]) -> List[Check]:
    """Make all checks, reporting each as soon as it is known."""
    found: List[Check] = []
    with tempfile.TemporaryDirectory() as folder:
        for check in (
            check_python,
            lambda: check_mxnet(folder),
            check_numpy,
            check_cores,
            check_memory,
            check_bfloat16,
            check_kernel,
            check_words,
            check_data,
            lambda: check_parameter_server(folder),
            check_disk,
            check_extras,
        ):
            found.append(check())
            report(found[-1])
    return found


def check_python() -> Check:
    fits = (3, 8) <= sys.version_info[:2] < (3, 13)
    text = f"{platform.python_version()} on {platform.system()}, {platform.machine()}"
    return Check("Python", fits, text if fits else f"{text}: needs 3.8 to 3.12")


def check_mxnet(folder: str) -> Check:
    result = _try_in_child("slsgd_mx.doctor:try_mxnet", folder)
    if result["status"] == "done":
        return Check("MXNet", True, f"{result['version']}, computes")
    return Check("MXNet", False, f"does not work: {result['why']}")


def check_numpy() -> Check:
    import numpy as np

    fits = int(np.__version__.split(".")[0]) < 2
    text = np.__version__ if fits else f"{np.__version__}: MXNet 1.9.1 needs NumPy < 2"
    return Check("NumPy", fits, text)


def check_cores() -> Check:
    cores = available_cores()
    value = os.environ.get(VARIABLE)
    said = f"{VARIABLE}={value}" if value else f"{VARIABLE} is not set"
    shared = "1 core" if cores_to_share() == 1 else f"{cores_to_share()} cores"
    one = "a run uses 1 thread" if thread_count() == 1 else f"a run uses {thread_count()} threads"
    return Check("cores", None, f"{cores}; {said}: {one}, sweeps share {shared}")


def check_memory() -> Check:
    total = total_memory()
    free = min(available_memory(), total)
    text = f"{total / 1e9:.1f} GB" + (f", {free / 1e9:.1f} GB available" if free < total else "")
    little = free < LITTLE_MEMORY
    return Check("memory", None, text + "; the paper's networks need 1.1 GB a process" * little)


def available_memory() -> float:
    """Bytes that new processes can use; infinite where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return math.inf
    values = {line.split(":")[0]: line.split()[1] for line in lines}
    return float(values.get("MemAvailable", "inf")) * 1024


def check_bfloat16() -> Check:
    flags = cpu_flags() & set(FLAGS)
    text = f"yes ({', '.join(sorted(flags))})" if flags else "no: this CPU has no such instructions"
    return Check(
        "bfloat16", None, text + "; without AMX slower than float32" * bool(no_gain("bfloat16"))
    )


def check_kernel() -> Check:
    from slsgd_mx.rules.compiled import describe_kernel

    return Check("compiled kernel", None, describe_kernel())


def check_words() -> Check:
    from slsgd_mx.data.numbers import describe_numbers

    return Check("text reader", None, describe_numbers())


def check_data() -> Check:
    from slsgd_mx.data.fetch import where
    from slsgd_mx.data.registry import DATASETS

    places = {name: where(name) for name in DATASETS}
    words = [
        f"{name} in {place.folder}" if place.present else f"{name} missing"
        for name, place in places.items()
    ]
    missing = [name for name, place in places.items() if not place.present]
    remedy = f"; slsgd-mx data fetch {' '.join(missing)} downloads it" if missing else ""
    return Check("data", None, ", ".join(words) + remedy)


def check_parameter_server(folder: str) -> Check:
    began = time.monotonic()
    result = _try_in_child("slsgd_mx.doctor:try_parameter_server", folder)
    seconds = time.monotonic() - began
    if result["status"] == "done":
        text = f"works on loopback: scheduler, server and worker in {seconds:.0f} s"
        return Check("parameter server", True, text)
    return Check("parameter server", False, f"slsgd-mx launch does not work: {result['why']}")


def check_disk() -> Check:
    folder = Path("runs") if Path("runs").is_dir() else Path()
    free = shutil.disk_usage(folder).free
    fits = free >= LITTLE_DISK and os.access(folder, os.W_OK)
    where = f"{free / 1e9:.1f} GB free in {folder.resolve()}"
    bad = "" if os.access(folder, os.W_OK) else ", which cannot be written"
    return Check("disk", fits, where + (bad or "; runs need 1 GB or more" * (not fits)))


def check_extras() -> Check:
    names = {"tensorboardX": "[tensorboard]"}
    words = [
        f"{name} installed" if importlib.util.find_spec(name) else f'no {name} (pip install '
        f'"slsgd-mx{extra}")'
        for name, extra in names.items()
    ]  # fmt: skip
    return Check("extras", None, ", ".join(words))


def _try_in_child(name: str, folder: str, patience: Optional[float] = None) -> Dict[str, Any]:
    """The end of a job in a child process, which is killed after ``patience`` seconds."""
    patience = PATIENCE if patience is None else patience
    child = Child(1)
    try:
        child.send({"do": name, "folder": folder}, last=True)
        give_up = time.monotonic() + patience
        while not child.ended:
            left = give_up - time.monotonic()
            if left <= 0 or not select.select([child.pipe], [], [], left)[0]:
                return {"status": "failed", "why": f"no answer within {patience:.0f} seconds"}
            for message in child.read():
                if message["event"] == "end":
                    return message
        return {"status": "failed", "why": f"its process {how_it_ended(child.process.wait())}"}
    finally:
        child.process.kill()  # its own children receive a signal when it dies
        child.process.wait()
        child.close()


# ---- in the child processes ----------------------------------------------------------------


def try_mxnet(job: Message, report: Report) -> Message:
    """Import MXNet and compute something."""
    from slsgd_mx.system.mxnet import mx

    value = mx.nd.dot(mx.nd.ones((2, 3)), mx.nd.ones((3, 2))).asnumpy()
    if value.tolist() != [[3.0, 3.0], [3.0, 3.0]]:
        raise SlsgdError(f"it computes {value.tolist()} instead of 3")
    return {"version": mx.__version__}


def try_parameter_server(job: Message, report: Report) -> Message:
    """Train a tiny problem for one epoch with one server and one worker."""
    from slsgd_mx.config import RunConfig
    from slsgd_mx.parameter_server.launcher import Options, launch
    from slsgd_mx.tasks.problems.sizes import Problem

    sizes = Problem(dimension=2, samples=2)
    config = RunConfig(sizes, n=1, k=1, epochs=1, eval_every=1, batch_size=2)
    launch(config, Path(job["folder"]) / "run", options=Options(1, 1, patience=20.0, restarts=0))
    return {}
