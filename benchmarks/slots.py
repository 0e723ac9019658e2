"""Pushes in a mapped file: peak memory of 1,000 pushes of the CNN, and the cost of the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Dict, Iterator

from benchmarks.report import AnyLine, Line, Skipped
from benchmarks.trimming import D
from slsgd_mx.parameter_server.protocol import shard_ranges
from slsgd_mx.system.slot_memory import VARIABLE

RUN = """
import hashlib, json, sys, time
import numpy as np
from slsgd_mx.core.model_server import ModelServer
from slsgd_mx.system.arrays import as_ndarray
from slsgd_mx.system.machine import peak_memory

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

SERVER = """
import json, sys, time
from pathlib import Path
import numpy as np
from slsgd_mx.core.collusion import Settings
from slsgd_mx.parameter_server.commands import Commit, Configure, Weigh, to_json
from slsgd_mx.parameter_server.protocol import (
    HEADER, HELLO, MODEL, PRODUCTS, STATUS, Header, Status,
    key_on, products_size, shard_blocks, shard_ranges, status_size,
)
from slsgd_mx.parameter_server.secret import Secret
from slsgd_mx.parameter_server.shard_server import ShardServer
from slsgd_mx.system.machine import peak_memory

k, b, d, servers, folder = *map(int, sys.argv[1:5]), sys.argv[5]
secret, complaints, settings = Secret("known to the benchmark"), [], Settings(k, b)
server = ShardServer(secret, complaints.append, slot_folder=Path(folder))
(start, stop), (first, last) = (f(d, servers)[0] for f in (shard_ranges, shard_blocks))

def command(what):
    server.command(secret.seal(to_json(what)))

def push(kind, pushed, stored, epoch, slot):
    key = key_on(0, servers, kind)
    pushed[:HEADER] = secret.header(key, Header(epoch, slot, 0))
    server.push(key, pushed, stored)

began = time.process_time()
command(Configure(settings, 1, servers, d, [], 0, 0))
sizes = {
    MODEL: HEADER + stop - start, STATUS: status_size(k),
    PRODUCTS: products_size(settings, last - first),
}
stored = {kind: np.zeros(size, np.float32) for kind, size in sizes.items()}
for kind, array in stored.items():
    push(kind, array.copy(), array, 0, HELLO)
values = np.random.default_rng(0).standard_normal(2 * d, np.float32)
pushed = np.empty_like(stored[MODEL])
for slot in range(k):
    place = slot * 977 % d
    pushed[HEADER:] = values[place : place + stop - start]
    push(MODEL, pushed, stored[MODEL], 1, slot)
command(Weigh(1, list(range(k))))
command(Commit(1, 0.5, list(range(k)), [], True))
status = Status.from_array(stored[STATUS])
if complaints or (status.epoch, status.applied) != (1, 1):
    raise SystemExit(f"the server did not aggregate: {complaints}")
print(json.dumps({
    "seconds": time.process_time() - began, "mapped": server.shard._memory.mapped,
    "values": stop - start, "peak": peak_memory(),
}))
"""


def lines(few: int = 50) -> Iterator[AnyLine]:
    """Peak resident memory counts the pages of the file that are mapped at the same time.

    The server is one of two: the file is five times the limit, and half as large as in one process.
    """
    memory, file = (measure(few, few // 5, limit) for limit in ("100GB", "0"))
    if memory["digest"] != file["digest"] or memory["mapped"] or not file["mapped"]:
        raise RuntimeError("pushes in a file give other bits")
    detail = (
        f"CPU time {file['seconds']:.1f} against {memory['seconds']:.1f} s, k={few}, equal bits"
    )
    ratio = file["seconds"] / memory["seconds"]
    yield Line("an epoch's pushes in a file / in memory", ratio, detail, at_most=10)
    yield many_pushes(1000)
    yield many_pushes_to_a_server(1000, servers=2)


def server_lines() -> Iterator[AnyLine]:
    """The same on one server, which has the whole model: 10.5 GB."""
    yield many_pushes_to_a_server(1000, servers=1)


def many_pushes(k: int) -> AnyLine:
    """In one process."""
    what = f"peak resident memory, GB: {k:,} pushes of {D:,} values"
    obstacle = lack_of_disk(4 * k * D)
    if obstacle:
        return Skipped(what, obstacle)
    return memory_line(what, measure(k, k // 5, "1GB"), k * D)


def many_pushes_to_a_server(k: int, servers: int) -> AnyLine:
    """On the first of some servers of a parameter server."""
    (start, stop), *_ = shard_ranges(D, servers)
    what = f"... on a parameter server: {k:,} pushes of {stop - start:,}"
    obstacle = lack_of_disk(4 * k * (stop - start))
    if obstacle:
        return Skipped(what, obstacle)
    found = ask(SERVER, "1GB", k, k // 5, D, servers)
    detail = "" if servers == 1 else f", one of {servers} servers"
    return memory_line(what, found, k * (stop - start), detail)


def memory_line(what: str, found: Dict[str, Any], values: int, more: str = "") -> Line:
    if not found["mapped"]:
        raise RuntimeError(f"{what}: the pushes are not in a file")
    detail = f"{4e-9 * values:.1f} GB of pushes{more}, {found['seconds']:.0f} s of CPU time"
    return Line(what, found["peak"] / 1e9, detail, at_most=2)


def measure(k: int, b: int, limit: str) -> Dict[str, Any]:
    """Push k models and aggregate them, in a process of its own."""
    return ask(RUN, limit, k, b, D)


def ask(program: str, limit: str, *numbers: int) -> Dict[str, Any]:
    """What a program prints that keeps more pushes than the limit in a file."""
    with tempfile.TemporaryDirectory() as folder:
        call = [sys.executable, "-c", program, *map(str, numbers), folder]
        environment = {**os.environ, VARIABLE: limit}
        done = subprocess.run(call, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def lack_of_disk(size: int) -> str:
    """Why a file of a size cannot be made, with a half more to spare; "" if it can."""
    space = os.statvfs(tempfile.gettempdir())
    if space.f_bavail * space.f_frsize >= 1.5 * size:
        return ""
    return f"needs {1.5e-9 * size:.0f} GB of disk in {tempfile.gettempdir()} (TMPDIR)"
