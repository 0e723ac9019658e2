"""Pushes in a mapped file: peak memory of 1,000 pushes of the CNN, and the cost of the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator

from benchmarks.report import Line
from benchmarks.trimming import D
from slsgd_mx.system.slot_memory import VARIABLE

RUN = """
import hashlib, json, sys, time
import numpy as np
from slsgd_mx.core.model_server import ModelServer
from slsgd_mx.system.arrays import as_ndarray

def peak_memory():  # of this program; getrusage would count that of the process that started it
    with open("/proc/self/status") as file:
        return 1024 * int(next(line for line in file if line.startswith("VmHWM")).split()[1])

k, b, d, folder = *map(int, sys.argv[1:4]), sys.argv[4]
server = ModelServer(k, b, slot_folder=folder)
server.init("w", np.zeros(d, np.float32))
server.start(0)
values = np.random.default_rng(0).standard_normal(2 * d, np.float32)
began = time.process_time()
for slot in range(k):
    start = slot * 977 % d
    server.push("w", as_ndarray(values[start : start + d]), slot)
server.update(0.5)
digest = hashlib.sha256(server.values()["w"].tobytes()).hexdigest()
print(json.dumps({
    "seconds": time.process_time() - began, "digest": digest, "mapped": server._memory.mapped,
    "peak": peak_memory(),
}))
"""


def lines(few: int = 50, many: int = 1000) -> Iterator[Line]:
    """Peak resident memory counts the pages of the file that are mapped at the same time."""
    memory, file = (measure(few, few // 5, limit) for limit in ("100GB", "0"))
    if memory["digest"] != file["digest"] or memory["mapped"] or not file["mapped"]:
        raise RuntimeError("pushes in a file give other bits")
    detail = (
        f"CPU time {file['seconds']:.1f} against {memory['seconds']:.1f} s, k={few}, equal bits"
    )
    ratio = file["seconds"] / memory["seconds"]
    yield Line("an epoch's pushes in a file / in memory", ratio, detail, at_most=10)
    free = _free_disk()
    if free < 6 * many * D:
        print(f"{many} pushes skipped: they need {4e-9 * many * D:.0f} GB of disk in TMPDIR")
        return
    large = measure(many, many // 5, "1GB")
    size = 4 * many * D
    detail = f"{size / 1e9:.1f} GB of pushes, {large['seconds']:.0f} s of CPU time"
    what = f"peak resident memory, GB: {many:,} pushes of {D:,} values"
    yield Line(what, large["peak"] / 1e9, detail, at_most=2)


def measure(k: int, b: int, limit: str) -> Dict[str, Any]:
    """Push k models and aggregate them, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        call = [sys.executable, "-c", RUN, *map(str, (k, b, D)), folder]
        environment = {**os.environ, VARIABLE: limit}
        done = subprocess.run(call, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def _free_disk() -> int:
    space = os.statvfs(Path(tempfile.gettempdir()))
    return space.f_bavail * space.f_frsize
