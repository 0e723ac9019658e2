"""Peers, from an environment of their own: PyTorch trains the CNN, ByzFL aggregates.

They need a newer NumPy than MXNet allows.  The environment is .venv-peers, or the one whose Python
SLSGD_MX_PEERS names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator

import numpy as np

from benchmarks.precision import UNITS, measure
from benchmarks.report import Line, best_of
from benchmarks.rules import calls_of
from benchmarks.trimming import SIZES, models
from slsgd_mx.rules.pipeline import find_rule, gram_of, mix_rows
from slsgd_mx.system.precision import obstacle
from slsgd_mx.system.threads import thread_count

VARIABLE = "SLSGD_MX_PEERS"  # names a Python that has PyTorch and ByzFL
FOLDER = Path(__file__).resolve().parent
MAKE = "python3 -m venv .venv-peers && .venv-peers/bin/pip install torch==2.13.0 byzfl"
STEPS, BATCH = 10, 50
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def lines() -> Iterator[Line]:
    """Compare with PyTorch (CNN, batches of 50), then with ByzFL (k=100, d=100,000, b=20)."""
    python = os.environ.get(VARIABLE, str(FOLDER.parent / ".venv-peers" / "bin" / "python"))
    try:
        yield from against_pytorch(python)
        yield from against_byzfl(python)
        for k, d, b, _ in SIZES:
            yield byzfl_trimming(python, k, d, b)
    except (OSError, subprocess.CalledProcessError) as error:
        why = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
        print(f"peers skipped ({why}): {MAKE}, or name such a Python with {VARIABLE}=")


def against_pytorch(python: str) -> Iterator[Line]:
    """The speed of local training, relative to PyTorch's with channels-last tensors."""
    for name in ("float32", "bfloat16"):
        if obstacle(name):
            continue
        ours = other = 0.0
        for _ in range(3):  # in turns, because the speed of a machine varies
            found = ask(python, "torch_child.py", thread_count(), STEPS, BATCH, name)
            other = max(other, found["images_per_second"])
            seconds = measure(name, "CNN training")["CNN training"]
            ours = max(ours, UNITS["CNN training"] / seconds)
        detail = f"{ours:.0f} against {other:.0f} images/s, {thread_count()} threads"
        what = f"CNN training / PyTorch, channels-last, {name}"
        yield Line(what, ours / other, detail, at_least=1)


def ask(python: str, script: str, *arguments: object, **environment: str) -> Dict[str, Any]:
    """What a script prints, run by the peers' Python, or ours."""
    call = [python, str(FOLDER / script), *map(str, arguments)]
    settings = {**os.environ, "PYTHONPATH": str(FOLDER.parent), **environment}
    done = subprocess.run(call, env=settings, capture_output=True, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def against_byzfl(python: str, k: int = 100, d: int = 100_000, b: int = 20) -> Iterator[Line]:
    """krum, multi-krum and nnm against ByzFL's, on NumPy arrays and on tensors.

    All with one thread: idle ones of BLAS spin, and their CPU time would count. The least of three
    turns, because the speed of a machine varies.
    """
    theirs, ours = [], []
    for slow in ([], ["nnm"], []):  # ByzFL's takes long
        theirs.append(measure_byzfl(python, k, d, b, "krum", "multi-krum", *slow))
        ours.append(ask(sys.executable, "peers.py", k, d, b, **ONE_THREAD))
    for rule, kinds in theirs[1].items():
        seconds = min(turn[rule] for turn in ours)
        for kind in kinds:
            other = min(turn[rule][kind] for turn in theirs if rule in turn)
            detail = f"{1e3 * other:.0f} ms against {1e3 * seconds:.0f} ms, one thread"
            what = f"ByzFL's {rule} on {kind} / ours, k={k} b={b}"
            yield Line(what, other / seconds, detail, at_least=1)


def distance_rules(k: int, d: int, b: int) -> Dict[str, float]:
    """CPU seconds of our krum, multi-krum and nnm."""
    pushes = np.random.default_rng(0).standard_normal((k, d), np.float32)
    rows, previous, mixed = list(pushes), np.zeros(d, np.float32), np.empty((k, d), np.float32)

    def nnm() -> None:
        matrix = find_rule("nnm+mean").mixing(gram_of(rows, previous), b, 0, 1)
        mix_rows(matrix, rows, previous, mixed)

    names = ["krum", "multi-krum"]
    times = best_of([*calls_of(names, pushes, b), nnm], 2, time.process_time)
    return dict(zip([*names, "nnm"], times))


def byzfl_trimming(python: str, k: int, d: int, b: int) -> Line:
    """Our trimmed mean against ByzFL's on NumPy arrays, in CPU time."""
    (other,) = measure_byzfl(python, k, d, b, "trimmed-mean")["trimmed-mean"].values()
    (seconds,) = best_of(calls_of(["trimmed-mean"], models(k, d), b), 3, time.process_time)
    detail = f"{1e9 * other / k / d:.2f} against {1e9 * seconds / k / d:.2f} ns per value"
    return Line(f"ByzFL's trimmed mean / ours, k={k} b={b}", other / seconds, detail, at_least=1)


def measure_byzfl(python: str, k: int, d: int, b: int, *rules: str) -> Dict[str, Dict[str, float]]:
    """CPU seconds of ByzFL in a process of its own, by rule and kind of array."""
    return ask(python, "byzfl_child.py", k, d, b, *rules, **ONE_THREAD)


if __name__ == "__main__":
    print(json.dumps(distance_rules(*map(int, sys.argv[1:]))))
