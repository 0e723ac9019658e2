"""Aggregation rules: CPU time against the least that they have to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Callable, Dict, Iterator, List

import numpy as np

from benchmarks.report import Line, best_of
from benchmarks.trimming import D, models
from slsgd_mx.rules.pipeline import find_rule

ONE_ROW = ["krum", "multi-krum", "geometric-median", "mda", "smea", "caf", "centered-clipping"]
ONE_ROW += ["nnm+krum"]
NEAREST = ["phocas", "mean-around-median"]
LEAST = "product and sum"


def lines() -> Iterator[Line]:
    """Compare at the paper's size, k=10, b=2.

    In a process of its own with one thread of BLAS: idle ones spin, and their CPU time would be
    that of the rule measured next.
    """
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    call = [sys.executable, "-m", "benchmarks.rules"]
    done = subprocess.run(call, env=environment, stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    yield from distance_based(found["b=2"])
    trimmed, bulyan = (found["b=1"][rule] for rule in ("trimmed-mean", "bulyan"))
    least = found["b=2"][LEAST] + trimmed
    yield compare("bulyan k=10 b=1 / product, sum and trimmed mean", bulyan, least)
    yield from nearest_to_a_centre(found["b=2"])


def distance_based(found: Dict[str, float]) -> Iterator[Line]:
    """Rules with one row of weights against a float32 product X X^T and one weighted sum."""
    for rule in ONE_ROW:
        yield compare(f"{rule} k=10 b=2 / {LEAST}", found[rule], found[LEAST])


def nearest_to_a_centre(found: Dict[str, float]) -> Iterator[Line]:
    """Phocas and the mean around the median against the trimmed mean."""
    for rule in NEAREST:
        yield compare(f"{rule} k=10 b=2 / trimmed mean", found[rule], found["trimmed-mean"])


def compare(what: str, seconds: float, least: float) -> Line:
    detail = f"{1e3 * seconds:.0f} ms against {1e3 * least:.0f} ms, d={D:,}"
    return Line(what, seconds / least, detail, at_most=3)


def calls_of(rules: List[str], pushes: np.ndarray, b: int) -> List[Callable[[], None]]:
    """One call for each rule, on all coordinates."""
    rows, previous = list(pushes), np.zeros(pushes.shape[1], np.float32)
    return [lambda rule=rule: find_rule(rule).combine(rows, previous, b) for rule in rules]


def times() -> Dict[str, Dict[str, float]]:
    """CPU seconds of each rule, and of the least that a distance-based rule has to do."""
    pushes = models(10)
    weights = np.full(len(pushes), 0.1, np.float32)

    def least() -> None:
        pushes @ pushes.T
        weights @ pushes

    names = [*ONE_ROW, "trimmed-mean", *NEAREST]
    calls, others = calls_of(names, pushes, 2), ["trimmed-mean", "bulyan"]
    return {
        "b=2": dict(zip([LEAST, *names], best_of([least, *calls], 5, time.process_time))),
        "b=1": dict(zip(others, best_of(calls_of(others, pushes, 1), 5, time.process_time))),
    }


if __name__ == "__main__":
    print(json.dumps(times()))
