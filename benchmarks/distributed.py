"""The parameter server with two one-thread workers against one process with two threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from statistics import mean
from typing import Any, Dict, Iterator, List

from benchmarks.report import Line
from slsgd_mx import Cifar, Lstm, RunConfig

K = 10
CNN = Cifar(data="synthetic", train_images=2_000, test_images=250, loss_images=250)
TEXT = Lstm(data="synthetic", device_batches=3, loss_batches=3, test_batches=1)

RUN = """
import json, sys, time
from slsgd_mx.config import RunConfig

config, folder, options = RunConfig.from_json(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])

def loopback():
    with open("/proc/net/dev") as file:
        line = next(line for line in file if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[8])

if options is None:
    from slsgd_mx.runs.trainer import train
else:
    from functools import partial
    from slsgd_mx.parameter_server.launcher import Options, launch
    train = partial(launch, options=Options(**options))
seen = []
result = train(config, folder, listener=lambda p: seen.append((p.seconds, loopback())))
print(json.dumps({"seconds": [s for s, _ in seen[1:]], "wire": [b for _, b in seen],
                  "rows": result.rows}))
"""


def lines(rounds: int = 1) -> Iterator[Line]:
    """Compare epochs with fewer images than the paper's, in which transfers weigh more."""
    cores = 2  # the targets are set for 2 cores
    cnn = RunConfig(sizes=CNN, n=K, k=K, b=2, warm_up=False, epochs=3, eval_every=3)
    size = 4 * 2_626_634
    yield from compare("CNN", cnn, rounds, cores, at_most=1.02, size=size)
    text = RunConfig(
        sizes=TEXT, n=K, k=K, gamma=20, batch_size=20, b=2, warm_up=False, epochs=2, eval_every=2
    )
    yield from compare("LSTM", text, rounds, cores, at_most=0.9)
    few = replace(CNN, train_images=100, test_images=10, loss_images=10)
    yield aggregation(replace(cnn, sizes=few, batch_size=10, epochs=12, eval_every=1))


def compare(
    name: str, config: RunConfig, rounds: int, cores: int, at_most: float, size: int = 0
) -> Iterator[Line]:
    """Seconds of an epoch with one worker per core, relative to one process with all cores."""
    alone: List[float] = []
    together: List[float] = []
    for _ in range(rounds):
        alone += compute(config, None, threads=cores)["seconds"][1:]
        found = compute(config, {"workers": cores, "servers": 1}, threads=1)
        together += found["seconds"][1:]
    ours, theirs = mean(together), mean(alone)
    detail = f"{ours:.2f} s an epoch against {theirs:.2f} s, {cores} workers of 1 thread"
    yield Line(
        f"{name} epoch, parameter server / one process", ours / theirs, detail, None, at_most
    )
    if size:
        yield wire(found, config, (K + cores) * size)


def wire(found: Dict[str, Any], config: RunConfig, expected: int) -> Line:
    """Bytes on the loopback device per epoch, relative to the size of the models sent."""
    between = found["wire"][-2] - found["wire"][1]  # the last report includes an evaluation
    sent = between / (config.epochs - 2)
    counted = int(found["rows"][-1]["bytes_sent"]) / config.epochs
    detail = f"{sent / 1e6:.1f} MB an epoch on the wire, {counted / 1e6:.1f} MB in the metrics"
    what = "bytes on the wire / (k pushes + W pulls) of the model"
    return Line(what, sent / expected, detail, at_most=1.05)


def aggregation(config: RunConfig) -> Line:
    """Aggregation time of the slower of two servers, relative to one: the least of the epochs."""
    seconds = {}
    for servers in (1, 2):
        found = compute(config, {"workers": 2, "servers": servers}, threads=1)
        seconds[servers] = min(float(row["aggregation_seconds"]) for row in found["rows"][1:])
    detail = f"{1e3 * seconds[2]:.0f} ms against {1e3 * seconds[1]:.0f} ms, k={K}, b=2"
    return Line("aggregation on 2 servers / on 1", seconds[2] / seconds[1], detail, at_most=0.75)


def compute(config: RunConfig, options: Any, threads: int) -> Dict[str, Any]:
    """Run in a separate process; return seconds per epoch, bytes on the wire and the rows."""
    with tempfile.TemporaryDirectory() as folder:
        call = [sys.executable, "-c", RUN, config.to_json(), f"{folder}/run", json.dumps(options)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        done = subprocess.run(call, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)
