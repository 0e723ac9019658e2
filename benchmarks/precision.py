"""Training the CNN in bfloat16 against float32, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Iterator

from benchmarks.report import Line
from slsgd_mx.system.precision import obstacle

RUN = """
import sys, time
from slsgd_mx import Cifar, RunConfig
from slsgd_mx.tasks.build import build_task

sizes = Cifar(data="synthetic", train_images=500, test_images=10, loss_images=10)
task = build_task(RunConfig(sizes=sizes, n=1, k=1, warm_up=False, precision=sys.argv[1]))
task.initialize(0)
costs = []
for _ in range(4):
    began = time.perf_counter()
    task.train(0, 10, 0.1, 0)
    costs.append(time.perf_counter() - began)
print(500 / min(costs[1:]))
"""


def lines() -> Iterator[Line]:
    """A worker's epoch at paper size: 10 minibatches of 50 images."""
    reason = obstacle("bfloat16")
    if reason:
        print(f"CNN training, bfloat16 / float32: skipped: {reason}")
        return
    low, full = map(speed, ("bfloat16", "float32"))
    detail = f"{low:.0f} against {full:.0f} images/s"
    yield Line("CNN training, bfloat16 / float32", low / full, detail, at_least=1.3)


def speed(precision: str) -> float:
    """Images per second, in a process with that precision."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, precision], stdout=subprocess.PIPE, check=True, text=True
    )
    return float(done.stdout)
