"""The commands at paper size: time until the first epoch, peak memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Iterator, Tuple

import numpy as np

from benchmarks.report import Line


def lines() -> Iterator[Line]:
    """Measure ``slsgd-mx cifar`` on 60,000 images and ``slsgd-mx lstm`` with all types."""
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder) / "cifar-10-batches-bin")
        ready, peak = measure(
            *("cifar", "--b", "2", "--loss-images", "5000", "--data-dir", folder),
            out=folder + "/cifar",
        )
        what = "seconds from the command to the first epoch"
        yield Line(what, ready, "warm-up included", at_most=10)
        what = "peak memory of cifar at paper size, GB"
        yield Line(what, peak, "training and evaluation", at_most=2.5)
        sizes = ["--device-batches", "2", "--loss-batches", "2", "--test-batches", "2"]
        _, peak = measure("lstm", "--data", "synthetic", "--b", "2", *sizes, out=folder + "/lstm")
        what = "peak memory of lstm at the full vocabulary, GB"
        yield Line(what, peak, "training and evaluation", at_most=3.5)


def measure(*arguments: str, out: str) -> Tuple[float, float]:
    """Run a command for one epoch; return seconds until its progress bar, and peak GB."""
    command = [sys.executable, "-m", "slsgd_mx", *arguments, "--epochs", "1", "--out", out]
    began = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    ready, text = None, b""
    while True:
        more = os.read(process.stderr.fileno(), 4096)
        if not more:
            break
        text += more
        if ready is None and b"0/1" in text:
            ready = time.perf_counter() - began
    _, status, usage = os.wait4(process.pid, 0)
    if status or ready is None:
        raise RuntimeError(f"{' '.join(command)} failed:\n{text.decode()}")
    return ready, usage.ru_maxrss / 2**20  # Linux counts in KB


def write_images(folder: Path) -> None:
    """Write 60,000 images of noise in CIFAR-10's binary layout."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        records = rng.integers(0, 256, (10_000, 3_073), dtype=np.uint8)
        records[:, 0] %= 10
        (folder / f"{name}.bin").write_bytes(records.tobytes())
