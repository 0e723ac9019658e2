"""Aggregation rules: CPU time against the least that they have to do, and against ByzFL."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List

import numpy as np

from benchmarks.report import Line, best_of
from benchmarks.trimming import SIZES, D, models
from slsgd_mx.rules.pipeline import find_rule, gram_of, mix_rows

ONE_ROW = ["krum", "multi-krum", "geometric-median", "mda", "smea", "caf", "centered-clipping"]
ONE_ROW += ["nnm+krum"]
BYZFL = "SLSGD_MX_BYZFL"  # the variable that names a Python with ByzFL
FOLDER = Path(__file__).resolve().parent


def lines() -> Iterator[Line]:
    """Compare at the paper's size (k=10, b=2), then with ByzFL (k=100, d=200,000, b=20)."""
    pushes = models(10)
    yield from distance_based(pushes)
    yield from nearest_to_a_centre(pushes)
    python = os.environ.get(BYZFL, str(FOLDER.parent / ".venv-byzfl" / "bin" / "python"))
    try:
        yield from against_byzfl(python)
        for k, d, b, _ in SIZES:
            yield byzfl_trimming(python, k, d, b)
    except (OSError, subprocess.CalledProcessError) as error:
        why = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
        print(f"comparison with ByzFL skipped: set {BYZFL} to a Python that has it ({why})")


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


def against_byzfl(python: str, k: int = 100, d: int = 200_000, b: int = 20) -> Iterator[Line]:
    """krum, multi-krum and nnm against ByzFL's, on NumPy arrays and on tensors."""
    theirs = measure_byzfl(python, k, d, b, "krum", "multi-krum", "nnm")
    pushes = np.random.default_rng(0).standard_normal((k, d), np.float32)
    rows, previous, mixed = list(pushes), np.zeros(d, np.float32), np.empty((k, d), np.float32)

    def nnm() -> None:
        matrix = find_rule("nnm+mean").mixing(gram_of(rows, previous), b, 0, 1)
        mix_rows(matrix, rows, previous, mixed)

    ours = best_of([*calls_of(["krum", "multi-krum"], pushes, b), nnm], 2, time.process_time)
    for rule, seconds in zip(("krum", "multi-krum", "nnm"), ours):
        for kind, other in theirs[rule].items():
            detail = f"{1e3 * other:.0f} ms against {1e3 * seconds:.0f} ms"
            what = f"ByzFL's {rule} on {kind} / ours, k={k} b={b}"
            yield Line(what, other / seconds, detail, at_least=1)


def byzfl_trimming(python: str, k: int, d: int, b: int) -> Line:
    """Our trimmed mean against ByzFL's on NumPy arrays, in CPU time."""
    (other,) = measure_byzfl(python, k, d, b, "trimmed-mean")["trimmed-mean"].values()
    (seconds,) = best_of(calls_of(["trimmed-mean"], models(k, d), b), 3, time.process_time)
    detail = f"{1e9 * other / k / d:.2f} against {1e9 * seconds / k / d:.2f} ns per value"
    return Line(f"ByzFL's trimmed mean / ours, k={k} b={b}", other / seconds, detail, at_least=1)


def measure_byzfl(python: str, k: int, d: int, b: int, *rules: str) -> Dict[str, Dict[str, float]]:
    """CPU seconds of ByzFL in a process of its own, by rule and kind of array."""
    call = [python, str(FOLDER / "byzfl_child.py"), *map(str, (k, d, b)), *rules]
    done = subprocess.run(call, capture_output=True, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])
