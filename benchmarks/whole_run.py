"""The command itself at paper size: time until the first epoch, peak memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Iterator

import numpy as np

from .report import Line


def lines() -> Iterator[Line]:
    """``slsgd-mx cifar --epochs 1`` on 60,000 images in the official binary layout."""
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder) / "cifar-10-batches-bin")
        command = [sys.executable, "-m", "slsgd_mx", "cifar", "--b", "2", "--epochs", "1"]
        command += ["--data-dir", folder, "--out", str(Path(folder) / "run")]
        began = time.perf_counter()
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        ready = None
        while True:
            text = os.read(process.stderr.fileno(), 4096)
            if not text:
                break
            if ready is None and b"0/1" in text:
                ready = time.perf_counter() - began
        if process.wait() or ready is None:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    yield Line("seconds from the command to the first epoch", ready, "warm-up included", at_most=10)
    yield Line("peak memory at paper size, GB", peak, "training and evaluation", at_most=2.5)


def write_images(folder: Path) -> None:
    """60,000 images of noise, laid out like CIFAR-10's binary files."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        records = rng.integers(0, 256, (10_000, 3_073), dtype=np.uint8)
        records[:, 0] %= 10
        (folder / f"{name}.bin").write_bytes(records.tobytes())
