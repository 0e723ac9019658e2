"""Aggregation rules: CPU time against the least that they have to do."""

from __future__ import annotations

import time
from typing import Callable, Iterator, List

import numpy as np

from benchmarks.report import Line, best_of
from benchmarks.trimming import D, models
from slsgd_mx.rules.pipeline import find_rule

ONE_ROW = ["krum", "multi-krum", "geometric-median", "mda", "smea", "caf", "centered-clipping"]
ONE_ROW += ["nnm+krum"]


def lines() -> Iterator[Line]:
    """Compare at the paper's size, k=10, b=2."""
    pushes = models(10)
    yield from distance_based(pushes)
    yield from nearest_to_a_centre(pushes)


def calls_of(rules: List[str], pushes: np.ndarray, b: int) -> List[Callable[[], None]]:
    """One call for each rule, on all coordinates."""
    rows, previous = list(pushes), np.zeros(pushes.shape[1], np.float32)
    return [lambda rule=rule: find_rule(rule).combine(rows, previous, b) for rule in rules]


def distance_based(pushes: np.ndarray) -> Iterator[Line]:
    """Rules with one row of weights against a float32 product X X^T and one weighted sum."""
    weights = np.full(len(pushes), 0.1, np.float32)

    def least() -> None:
        pushes @ pushes.T
        weights @ pushes

    found = best_of([least, *calls_of(ONE_ROW, pushes, 2)], 5, time.process_time)
    for rule, seconds in zip(ONE_ROW, found[1:]):
        detail = f"{1e3 * seconds:.0f} ms against {1e3 * found[0]:.0f} ms, d={D:,}"
        yield Line(f"{rule} k=10 b=2 / product and sum", seconds / found[0], detail, at_most=3)

    sorting = calls_of(["trimmed-mean", "bulyan"], pushes, 1)
    trimmed, bulyan = best_of(sorting, 5, time.process_time)
    detail = f"{1e3 * bulyan:.0f} ms against {1e3 * (found[0] + trimmed):.0f} ms"
    what = "bulyan k=10 b=1 / product, sum and trimmed mean"
    yield Line(what, bulyan / (found[0] + trimmed), detail, at_most=3)


def nearest_to_a_centre(pushes: np.ndarray) -> Iterator[Line]:
    """Phocas and the mean around the median against the trimmed mean."""
    rules = ["trimmed-mean", "phocas", "mean-around-median"]
    found = best_of(calls_of(rules, pushes, 2), 5, time.process_time)
    for rule, seconds in zip(rules[1:], found[1:]):
        detail = f"{1e3 * seconds:.0f} ms against {1e3 * found[0]:.0f} ms"
        yield Line(f"{rule} k=10 b=2 / trimmed mean", seconds / found[0], detail, at_most=3)
