"""bfloat16 against float32, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Dict, Iterator, List

from benchmarks.report import AnyLine, Line, Skipped
from slsgd_mx.system.precision import obstacle

RUN = """
import json, sys, time
from slsgd_mx import Cifar, Lstm, RunConfig
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.build import build_task

def seconds(call):
    costs = []
    for _ in range(4):  # the first compiles the network
        began = time.perf_counter()
        call()
        mx.nd.waitall()
        costs.append(time.perf_counter() - began)
    return min(costs[1:])

def task_of(sizes, batch_size):
    once = dict(n=1, k=1, batch_size=batch_size, warm_up=False)
    task = build_task(RunConfig(sizes=sizes, precision=sys.argv[1], **once))
    task.initialize(0)
    return task

def images():
    sizes = Cifar(data="synthetic", train_images=500, test_images=250, loss_images=250)
    return task_of(sizes, 50)

def text():
    return task_of(Lstm(data="synthetic", device_batches=2, loss_batches=1, test_batches=1), 20)

work = {
    "CNN training": (images, lambda task: task.train(0, 10, 0.1, 0)),
    "CNN evaluation": (images, lambda task: task.evaluate()),
    "LSTM training": (text, lambda task: task.train(0, 2, 0.1, 0)),
}
tasks = {build: build() for build in {work[what][0] for what in sys.argv[2:]}}
print(json.dumps({
    what: seconds(lambda: work[what][1](tasks[work[what][0]])) for what in sys.argv[2:]
}))
"""
UNITS = {"CNN training": 500, "CNN evaluation": 500, "LSTM training": 2 * 20 * 35}
TARGETS = {"CNN training": 1.3, "CNN evaluation": 1.0, "LSTM training": 1.0}


def lines() -> Iterator[AnyLine]:
    """A worker's epoch and an evaluation at paper size; the LSTM with every type."""
    reason = obstacle("bfloat16")
    if reason:
        yield from (Skipped(line_name(what), reason) for what in UNITS)
        return
    low, full = fastest("bfloat16", "float32")
    for what, count in UNITS.items():
        detail = f"{count / low[what]:.0f} against {count / full[what]:.0f} images or tokens/s"
        ratio = full[what] / low[what]
        yield Line(line_name(what), ratio, detail, at_least=TARGETS[what])


def line_name(what: str) -> str:
    return f"{what}, bfloat16 / float32"


def fastest(*precisions: str, rounds: int = 2) -> List[Dict[str, float]]:
    """The least seconds of each kind of work in each precision, which take turns."""
    found = [[measure(name, *UNITS) for name in precisions] for _ in range(rounds)]
    return [{what: min(once[what] for once in each) for what in UNITS} for each in zip(*found)]


def measure(precision: str, *work: str) -> Dict[str, float]:
    """Seconds of some kinds of work, in a process with that precision."""
    call = [sys.executable, "-c", RUN, precision, *work]
    return json.loads(subprocess.run(call, stdout=subprocess.PIPE, check=True).stdout)
