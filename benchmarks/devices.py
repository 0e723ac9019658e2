"""Many devices: set-up, memory and the cost of an epoch over n and k, with a small task."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Dict, Iterator

from benchmarks.report import Line

SAMPLES = 40_000  # of 16 pixels, divided among the devices
RUN = """
import json, sys, time
import numpy as np
from slsgd_mx import ArraysTask, ModelServer, RunConfig
from slsgd_mx.core.algorithm import initialize, run_epoch
from slsgd_mx.system.machine import peak_memory
from slsgd_mx.system.mxnet import mx

samples, n, k, epochs = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
x = rng.integers(0, 256, (samples + 100, 1, 4, 4), dtype=np.uint8)
y = rng.integers(0, 2, samples + 100)
net = mx.gluon.nn.HybridSequential()
net.add(mx.gluon.nn.Dense(2))

began = time.process_time()
own = ArraysTask(net, x[:samples], y[:samples], x[samples:], y[samples:], loss_images=100)
once = dict(batch_size=4, local_steps=(1, 1), warm_up=False)
config = RunConfig(sizes=own.sizes, n=n, k=k, b=k // 5, **once)
task, server = own.build(config), ModelServer(k, config.b)
initialize(config, task, server)
ready = time.process_time() - began
costs = []
for t in range(1, epochs + 1):
    began = time.process_time()
    run_epoch(t, config, task, server, server.begin(t))
    costs.append(time.process_time() - began)
print(json.dumps({"ready": ready, "epoch": min(costs), "memory": peak_memory()}))
"""


def lines() -> Iterator[Line]:
    """Costs are CPU times of one thread; the least of a few epochs."""
    found = {(n, k): measure(n, k) for n, k in ((100, 10), (1_000, 10), (10_000, 10))}
    found.update({(10_000, k): measure(10_000, k) for k in (100, 1_000)})
    ready = found[10_000, 100]["ready"]
    yield Line("CPU seconds to set up n=10,000 devices, k=100", ready, "small images", at_most=5)
    grown = found[10_000, 10]["memory"] - found[100, 10]["memory"]
    what = "memory of n=10,000 devices minus that of n=100, MB"
    yield Line(what, grown / 1e6, f"the same {SAMPLES:,} samples", at_most=20)
    for n in (1_000, 10_000):
        yield ratio(found, (n, 10), (100, 10), f"epoch with n={n:,} / n=100, k=10", 1, 2)
    for k in (100, 1_000):
        what = f"epoch with k={k:,} / k=10, for each device, n=10,000"
        yield ratio(found, (10_000, k), (10_000, 10), what, k // 10, 2)


def ratio(found: Dict, one: tuple, other: tuple, what: str, times: int, at_most: float) -> Line:
    costs = found[one]["epoch"], found[other]["epoch"]
    detail = f"{1e3 * costs[0]:.1f} ms against {1e3 * costs[1]:.1f} ms"
    return Line(what, costs[0] / costs[1] / times, detail, at_most=at_most)


def measure(n: int, k: int, epochs: int = 3) -> Dict[str, Any]:
    """Set up and compute a few epochs in a process of its own."""
    call = [sys.executable, "-c", RUN, *map(str, (SAMPLES, n, k, epochs))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(call, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)
