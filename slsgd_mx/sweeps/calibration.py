"""What a step, an evaluation and an aggregation cost on this machine, from a short trial."""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import replace
from typing import Callable, Dict

from slsgd_mx.config import RunConfig
from slsgd_mx.core.algorithm import pull
from slsgd_mx.core.server import ModelServer
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.build import build_task

STEPS = 6


def measure(config: RunConfig) -> Dict[str, float]:
    """Time the configuration's network on a little synthetic data; see ``forecast.Measured``."""
    began = time.perf_counter()
    small = replace(config, n=config.k, sizes=config.sizes.sample(config.k * config.batch_size))
    task = build_task(small)
    task.initialize(0)
    server = ModelServer(small.k, small.b, small.rule, small.nonfinite)
    for key, value in task.values.items():
        server.init(key, value, averaged=task.averaged[key])

    def train() -> None:
        task.train(0, STEPS, 1e-6, 0)

    def exchange() -> None:
        for slot in range(small.k):
            pull(task, server)
            for key, value in task.values.items():
                server.push(key, value, slot)
        server.update(1.0)

    train()  # the first time MXNet makes its plans
    task.evaluate()
    ready = time.perf_counter() - began
    return {
        "ready": ready,
        "step": best_of(3, train) / STEPS,
        "evaluated": best_of(2, task.evaluate) / small.sizes.evaluated,
        "exchange": best_of(2, exchange),
        "model_bytes": sum(value.size * 4 for value in task.values.values()),
        "memory_bytes": peak_memory(),
    }


def best_of(times: int, call: Callable[[], object]) -> float:
    """The least seconds a call takes, of several."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        mx.nd.waitall()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def peak_memory() -> int:
    """Bytes this process has held at most."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
