"""Forecasts against the time that the runs take; about two minutes."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Iterator

from benchmarks.report import Line
from slsgd_mx import preset
from slsgd_mx.sweeps.forecast import calibrate, forecast
from slsgd_mx.sweeps.plan import carry_out, make_plan
from slsgd_mx.sweeps.pool import Pool
from slsgd_mx.system.threads import available_cores

SIZES = {"cifar": dict(epochs=2, eval_every=2), "lstm": dict(epochs=2, eval_every=2)}


def lines() -> Iterator[Line]:
    """A run of laptop size on each core, on synthetic data: forecast, then computed."""
    for task, sizes in SIZES.items():
        runs = [
            preset(task, "laptop", data="synthetic", seed=seed, **sizes)
            for seed in range(available_cores())
        ]
        with tempfile.TemporaryDirectory() as home, Pool(len(runs), 1) as pool:
            plan = make_plan({task: runs}, Path(home))
            expected = forecast(plan, calibrate(plan, pool), len(runs)).seconds
            began = time.perf_counter()
            carry_out(plan, pool, None)
            actual = time.perf_counter() - began
        detail = f"{expected:.0f} against {actual:.0f} s, {len(runs)} processes of 1 thread"
        what = f"forecast of {task} at laptop size / its time"
        yield Line(what, expected / actual, detail, at_least=0.8, at_most=1.2)
