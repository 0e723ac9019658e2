"""The trimmed mean against copies, on two threads, and against sorting."""

from __future__ import annotations

import os
import time
from typing import Callable, Iterator
from unittest import mock

import numpy as np

from benchmarks.report import AnyLine, Line, Skipped, best_of, median_ratio
from slsgd_mx.rules.compiled import describe_kernel
from slsgd_mx.rules.pipeline import find_rule
from slsgd_mx.rules.trimmed_mean import trimmed_mean_rows
from slsgd_mx.system.mxnet import mx
from slsgd_mx.system.threads import VARIABLE, available_cores

D = 2_626_634  # values of the paper's CNN
SIZES = [(10, D, 2, 2.5), (100, 200_000, 20, 6), (1000, 20_000, 200, 9)]  # k, d, b, most copies


def lines() -> Iterator[AnyLine]:
    """Compare the paper's aggregation with copying and sorting, and a larger one with sorting."""
    print(f"the compiled kernel is {describe_kernel()}")
    for k, d, b, copies in SIZES:
        yield from against_a_copy(models(k, d), b, copies)
    for rule in ("median", "mean-around-median", "phocas"):
        for k, d, b, copies in SIZES:
            yield from against_a_copy(models(k, d), b, copies, rule)
    yield from paper_size(models(10))
    yield from large(models(50, 500_000))


def against_a_copy(
    pushes: np.ndarray, b: int, copies: float, rule: str = "trimmed-mean"
) -> Iterator[AnyLine]:
    """One thread against a copy of the values into existing memory, and two against one."""
    k, d = pushes.shape
    rows, existing, out = list(pushes), np.empty_like(pushes), np.empty(d, np.float32)
    pipeline, name = find_rule(rule), rule.replace("-", " ")

    def trim(threads: int) -> Callable[[], None]:
        def call() -> None:
            with mock.patch.dict(os.environ, {VARIABLE: str(threads)}):
                pipeline.aggregate(rows, out, b, out)

        return call

    def copy() -> None:
        np.copyto(existing, pushes)

    copy()  # the memory exists once it was written
    repeats = 11 if rule == "trimmed-mean" else 5
    ratio, seconds = median_ratio(trim(1), copy, repeats, time.process_time)
    detail = f"{1e9 * seconds / pushes.size:.2f} ns per value, one thread"
    yield Line(f"{name} k={k} b={b} / copy of the values", ratio, detail, at_most=copies)
    what = f"{name} k={k} b={b}: two threads / one"
    if available_cores() == 1:
        yield Skipped(what, "there is one core")
        return
    two, one = best_of([trim(2), trim(1)], 2 * repeats - 1)
    detail = f"{1e9 * two / pushes.size:.2f} against {1e9 * one / pushes.size:.2f} ns per value"
    yield Line(what, two / one, detail, at_most=1)


def paper_size(pushes: np.ndarray, repeats: int = 7) -> Iterator[Line]:
    """k=10, b=2 against a plain copy of the ten arrays, and against ``nd.sort``."""
    out, existing, models = np.empty(D, np.float32), np.empty_like(pushes), list(pushes)
    seconds, copying, into = best_of(
        [
            lambda: trimmed_mean_rows(models, 2, out),
            lambda: [model.copy() for model in models],
            lambda: np.copyto(existing, pushes),
        ],
        repeats,
    )
    detail = f"{1e3 * seconds:.0f} ms against {1e3 * copying:.0f} ms"
    detail += f" ({1e3 * into:.0f} ms into existing memory)"
    yield Line("trimmed mean k=10 b=2 / copy of the arrays", seconds / copying, detail, at_most=4)
    stacked = mx.nd.array(pushes)
    (sorting,) = best_of([lambda: mx.nd.sort(stacked, axis=0).wait_to_read()], 1)
    detail = f"{1e3 * sorting:.0f} ms against {1e3 * seconds:.0f} ms"
    yield Line("nd.sort / trimmed mean, k=10 b=2", sorting / seconds, detail, at_least=8)


def large(pushes: np.ndarray) -> Iterator[Line]:
    """k=50, b=20 against ``np.sort``."""
    out = np.empty(pushes.shape[1], np.float32)
    seconds, sorting = best_of(
        [
            lambda: trimmed_mean_rows(list(pushes), 20, out),
            lambda: np.sort(pushes, axis=0),
        ],
        2,
    )
    detail = f"{1e3 * sorting:.0f} ms against {1e3 * seconds:.0f} ms"
    yield Line("np.sort / trimmed mean, k=50 b=20", sorting / seconds, detail, at_least=1)


def models(k: int, d: int = D) -> np.ndarray:
    """Return k random pushes, (k, d)."""
    return np.random.default_rng(0).standard_normal((k, d), np.float32)
