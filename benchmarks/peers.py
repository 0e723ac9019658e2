"""Peers, from an environment of their own: PyTorch trains the CNN, ByzFL aggregates.

They need a newer NumPy than MXNet allows.  The environment is .venv-peers, or the one whose Python
SLSGD_MX_PEERS names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator

import numpy as np

from benchmarks.precision import UNITS, measure
from benchmarks.report import AnyLine, Line, Skipped, best_of
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
MOCKED = "import sys, unittest.mock; sys.modules['torchvision'] = unittest.mock.MagicMock()"
IMPORTS = {"torch": "import torch", "byzfl": f"{MOCKED}; import byzfl"}  # as in the children
K, D, B = 100, 100_000, 20  # of the rules that compare pushes
KINDS = {  # what ByzFL's rules are given; nnm takes too long on NumPy arrays
    "krum": ("NumPy arrays", "tensors"),
    "multi-krum": ("NumPy arrays", "tensors"),
    "nnm": ("tensors",),
}
TRAINING = {
    name: f"CNN training / PyTorch, channels-last, {name}" for name in ("float32", "bfloat16")
}
DISTANCES = {
    (rule, kind): f"ByzFL's {rule} on {kind} / ours, k={K} b={B}"
    for rule, kinds in KINDS.items()
    for kind in kinds
}
TRIMMING = {(k, d, b): f"ByzFL's trimmed mean / ours, k={k} b={b}" for k, d, b, _ in SIZES}


def lines() -> Iterator[AnyLine]:
    """Compare with PyTorch (CNN, batches of 50), then with ByzFL."""
    python = os.environ.get(VARIABLE, str(FOLDER.parent / ".venv-peers" / "bin" / "python"))
    no_torch = why_missing(python, "torch")
    no_byzfl = no_torch or why_missing(python, "byzfl")
    if no_byzfl:
        print(f"for all lines about peers: {MAKE}, or name such a Python with {VARIABLE}=")
    yield from skip(TRAINING.values(), no_torch) if no_torch else against_pytorch(python)
    if no_byzfl:
        yield from skip([*DISTANCES.values(), *TRIMMING.values()], no_byzfl)
        return
    yield from against_byzfl(python)
    for k, d, b in TRIMMING:
        yield byzfl_trimming(python, k, d, b)


def why_missing(python: str, package: str) -> str:
    """Why a package of the peers cannot be used; "" if it can.  Any other failure is ours."""
    if shutil.which(python) is None:
        return f"there is no Python {python}"
    done = run(python, "-c", IMPORTS[package])
    last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return f"{python} cannot import {package}: {last}" if done.returncode else ""


def skip(names: Iterable[str], why: str) -> Iterator[Skipped]:
    return (Skipped(name, why) for name in names)


def against_pytorch(python: str) -> Iterator[AnyLine]:
    """The speed of local training, relative to PyTorch's with channels-last tensors."""
    for name, what in TRAINING.items():
        reason = obstacle(name)
        if reason:
            yield Skipped(what, reason)
            continue
        ours = other = 0.0
        for _ in range(2):  # in turns, because the speed of a machine varies
            found = ask(python, "torch_child.py", thread_count(), STEPS, BATCH, name)
            other = max(other, found["images_per_second"])
            seconds = measure(name, "CNN training")["CNN training"]
            ours = max(ours, UNITS["CNN training"] / seconds)
        detail = f"{ours:.0f} against {other:.0f} images/s, {thread_count()} threads"
        yield Line(what, ours / other, detail, at_least=1)


def ask(python: str, script: str, *arguments: object, **environment: str) -> Dict[str, Any]:
    """What a script prints, run by the peers' Python, or ours."""
    done = run(python, str(FOLDER / script), *map(str, arguments), **environment)
    if done.returncode:
        raise RuntimeError(f"{python} {script} {arguments} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def run(*call: str, **environment: str) -> subprocess.CompletedProcess:
    """Run a program that finds this package."""
    settings = {**os.environ, "PYTHONPATH": str(FOLDER.parent), **environment}
    return subprocess.run(call, env=settings, capture_output=True, text=True)


def against_byzfl(python: str) -> Iterator[Line]:
    """krum, multi-krum and nnm against ByzFL's, on NumPy arrays and on tensors.

    All with one thread: idle ones of BLAS spin, and their CPU time would count. The least of three
    turns, because the speed of a machine varies.
    """
    theirs, ours = [], []
    for slow in ([], ["nnm"], []):  # ByzFL's takes long
        theirs.append(measure_byzfl(python, K, D, B, "krum", "multi-krum", *slow))
        ours.append(ask(sys.executable, "peers.py", K, D, B, **ONE_THREAD))
    for (rule, kind), what in DISTANCES.items():
        seconds = min(turn[rule] for turn in ours)
        other = min(turn[rule][kind] for turn in theirs if rule in turn)
        detail = f"{1e3 * other:.0f} ms against {1e3 * seconds:.0f} ms, one thread"
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
    return Line(TRIMMING[k, d, b], other / seconds, detail, at_least=1)


def measure_byzfl(python: str, k: int, d: int, b: int, *rules: str) -> Dict[str, Dict[str, float]]:
    """CPU seconds of ByzFL in a process of its own, by rule and kind of array."""
    return ask(python, "byzfl_child.py", k, d, b, *rules, **ONE_THREAD)


if __name__ == "__main__":
    print(json.dumps(distance_rules(*map(int, sys.argv[1:]))))
