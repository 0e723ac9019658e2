"""The cost model of docs/scaling.md, fitted to this machine: ``python -m benchmarks.scaling``.

An epoch of SLSGD on W workers of one thread and S servers, k pushes of d values, takes about

    k c / W  +  (k + W) m(d) / W  +  k d g(k) / S      seconds

where c trains one device, m(d) pushes or pulls one model, g(k) aggregates one value of one push.
"""

from __future__ import annotations

import math
import os
import sys
import time
from typing import Dict, List, Tuple
from unittest import mock

import numpy as np

from benchmarks.distributed import compute
from slsgd_mx import Cifar, RunConfig
from slsgd_mx.parameter_server.protocol import LARGEST_SHARD
from slsgd_mx.rules.trimmed_mean import trimmed_mean_rows
from slsgd_mx.runs.manifest import cpu_name
from slsgd_mx.system.threads import VARIABLE

KS = (10, 30, 100, 300, 1000, 3000, 10_000)
WIDTHS = (16, 64, 128)
MEMORY = 64e9  # bytes of a server, for the tables
LINK = 1.25e9  # bytes a second of its network, 10 Gbit/s


def aggregation_cost(k: int) -> float:
    """Measure g(k): CPU seconds of one thread per value and push, b = 0.2 k."""
    d = max(4_096, 4_000_000 // k)
    rows = list(np.random.default_rng(0).standard_normal((k, d), np.float32))
    out, best = np.empty(d, np.float32), float("inf")
    for _ in range(3):
        began = time.process_time()
        with mock.patch.dict(os.environ, {VARIABLE: "1"}):
            trimmed_mean_rows(rows, k // 5, out)
        best = min(best, time.process_time() - began)
    return best / (k * d)


def transfer_cost(width: int) -> Tuple[int, float]:
    """Measure the bytes of a model and m: seconds to push it to or pull it from 1 local server."""
    sizes = Cifar(data="synthetic", train_images=10, test_images=10, loss_images=10, width=width)
    config = RunConfig(
        sizes=sizes, n=10, k=10, batch_size=1, warm_up=False, epochs=12, eval_every=12
    )
    row = compute(config, {"workers": 2, "servers": 1}, threads=1)["rows"][-1]
    transfers = config.epochs * (config.k + 2)
    return int(int(row["bytes_sent"]) / transfers), float(row["transfer_seconds"]) / transfers


def fit_power(xs: List[float], ys: List[float]) -> Tuple[float, float]:
    """Fit y = a x^p by least squares of the logarithms; return a, p."""
    p, a = np.polyfit(np.log(xs), np.log(ys), 1)
    return float(np.exp(a)), float(p)


def fit_line(xs: List[float], ys: List[float]) -> Tuple[float, float]:
    """Fit y = a + s x; return a, s."""
    s, a = np.polyfit(xs, ys, 1)
    return float(a), float(s)


def servers_needed(k: int, d: float) -> int:
    """The least number of servers whose memory holds k slots and whose messages hold a shard.

    >>> servers_needed(10, 1e8), servers_needed(10, 1e9), servers_needed(100, 1e9)
    (1, 2, 7)
    """
    return math.ceil(max(4 * d * (k + 2) / MEMORY, d / LARGEST_SHARD))


def tables(factor: float, power: float) -> Dict[str, List[List[str]]]:
    """Tabulate the model for k pushes (rows) of d values (columns)."""
    sizes, pushes = (1e6, 1e7, 1e8, 1e9), (10, 100, 1_000, 10_000)
    aggregated, needed, moved = [], [], []
    for k in pushes:
        aggregated.append([k * d * factor * k**power for d in sizes])
        needed.append([servers_needed(k, d) for d in sizes])
        moved.append([4 * d * k / LINK / s for d, s in zip(sizes, needed[-1])])
    head = ["k"] + [f"d = 10^{int(np.log10(d))}" for d in sizes]

    def rows(values: list, show) -> List[List[str]]:
        return [head, *([f"{k:,}", *map(show, row)] for k, row in zip(pushes, values))]

    shared = [[a / s for a, s in zip(*both)] for both in zip(aggregated, needed)]
    return {
        "seconds to aggregate on one server of one core": rows(aggregated, seconds),
        "servers needed (64 GB of memory each)": rows(needed, lambda s: f"{s:,}"),
        "seconds to aggregate on that many": rows(shared, seconds),
        "seconds to receive k pushes on that many, at 10 Gbit/s each": rows(moved, seconds),
    }


def seconds(value: float) -> str:
    """Format seconds with two digits, or as a whole number from 100 on.

    >>> seconds(0.0123), seconds(5.2), seconds(4200)
    ('0.012', '5.2', '4,200')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def main() -> int:
    print(cpu_name(), flush=True)
    costs = [aggregation_cost(k) for k in KS]
    factor, power = fit_power(list(map(float, KS)), costs)
    for k, cost in zip(KS, costs):
        fitted = factor * k**power
        print(f"g({k}) = {1e9 * cost:.2f} ns, fitted {1e9 * fitted:.2f} ns", flush=True)
    print(f"g(k) = {1e9 * factor:.3g} ns * k^{power:.2f}", flush=True)
    show(tables(factor, power))
    found = [transfer_cost(width) for width in WIDTHS]
    start, slope = fit_line([float(size) for size, _ in found], [m for _, m in found])
    for size, m in found:
        fitted = start + slope * size
        print(
            f"m({size / 1e6:.1f} MB) = {1e3 * m:.2f} ms, fitted {1e3 * fitted:.2f} ms", flush=True
        )
    print(f"m = {1e3 * start:.2f} ms + size / {1e-9 / slope:.2f} GB/s", flush=True)
    return 0


def show(found: Dict[str, List[List[str]]]) -> None:
    """Print tables as Markdown."""
    for title, rows in found.items():
        print(f"\n{title}\n")
        print("| " + " | ".join(rows[0]) + " |")
        print("| --- " * len(rows[0]) + "|")
        for row in rows[1:]:
            print("| " + " | ".join(row) + " |")
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
