"""Forecasts against the time and the memory that the runs take.

The data are synthetic, or real ones in the folder that SLSGD_MX_REAL_DATA names.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

from benchmarks.report import AnyLine, Line, Skipped
from slsgd_mx import preset
from slsgd_mx.sweeps.forecast import calibrate, forecast
from slsgd_mx.sweeps.plan import Plan, carry_out, make_plan
from slsgd_mx.sweeps.pool import Pool
from slsgd_mx.system.machine import peak_memory
from slsgd_mx.system.threads import available_cores

VARIABLE = "SLSGD_MX_REAL_DATA"


class Cost(NamedTuple):
    """What the runs of a plan take, all together."""

    seconds: float
    memory: Optional[int]  # bytes; None if the system does not say


def lines() -> Iterator[AnyLine]:
    """Two epochs of the CNN, then of the LSTM; about two minutes."""
    for task in ("cifar", "lstm"):
        yield from compare(task, epochs=2)


def brief_lines() -> Iterator[AnyLine]:
    """One epoch of the CNN; about 40 seconds."""
    yield from compare("cifar", epochs=1)


def compare(task: str, epochs: int) -> Iterator[AnyLine]:
    """A run of laptop size on each core: forecast, then computed by other processes."""
    folder = os.environ.get(VARIABLE)
    data_dir, data = (Path(folder), {}) if folder else (None, {"data": "synthetic"})
    sizes = dict(epochs=epochs, eval_every=epochs, **data)
    runs = [preset(task, "laptop", seed=seed, **sizes) for seed in range(available_cores())]
    with tempfile.TemporaryDirectory() as home:
        plan = make_plan({task: runs}, Path(home))
        with Pool(len(runs), 1) as pool:
            expected = forecast(plan, calibrate(plan, pool, data_dir), len(runs))
        actual = compute(plan, len(runs), data_dir)
    kind = f"{len(runs)} processes of 1 thread, {'real' if folder else 'synthetic'} data"
    detail = f"{expected.seconds:.0f} against {actual.seconds:.0f} s, {kind}"
    what = f"forecast of {task} at laptop size / its time"
    yield Line(what, expected.seconds / actual.seconds, detail, at_least=0.8, at_most=1.2)
    what = f"forecast of {task} at laptop size / its peak memory"
    if actual.memory is None:
        yield Skipped(what, "only Linux says how much memory another process has had")
        return
    detail = f"{expected.memory_bytes / 1e9:.2f} against {actual.memory / 1e9:.2f} GB"
    ratio = expected.memory_bytes / actual.memory
    yield Line(what, ratio, detail, at_least=0.8, at_most=1.25)


def compute(plan: Plan, processes: int, data_dir: Optional[Path]) -> Cost:
    """Compute all runs at once, in new processes: the peak of old ones is of what they did."""
    with Pool(processes, 1) as pool:
        began = time.perf_counter()
        for name, result in carry_out(plan, pool, data_dir).items():
            if result.status != "done":
                raise RuntimeError(f"{name}: {result.why}")
        seconds = time.perf_counter() - began
        if sys.platform != "linux":
            return Cost(seconds, None)
        return Cost(seconds, sum(peak_memory(child.process.pid) for child in pool.idle))
