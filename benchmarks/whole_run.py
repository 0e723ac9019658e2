"""The commands at paper size: time until the first epoch, peak memory."""

from __future__ import annotations

import fcntl
import math
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path
from typing import Iterator, Tuple

import numpy as np

from benchmarks.report import Line

BATCH = 50  # images of a minibatch, and WARM_UP minibatches: 5 passes over 500 images
WARM_UP = 50


def lines() -> Iterator[Line]:
    """Measure ``slsgd-mx cifar`` on 60,000 images and ``slsgd-mx lstm`` with all types."""
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder) / "cifar-10-batches-bin")
        ready = peak = bare = math.inf
        for turn in ("first", "second"):  # the least of two: a machine may be slow for a while
            seconds, peak = measure(
                *("cifar", "--b", "2", "--test-images", "1000", "--loss-images", "1000"),
                *("--local-steps", "2", "--data-dir", folder),
                out=f"{folder}/{turn}",
            )
            began = time.perf_counter()
            subprocess.run([sys.executable, "-m", "benchmarks.whole_run"], check=True)
            ready, bare = min(ready, seconds), min(bare, time.perf_counter() - began)
        what = "time to the first epoch / import and bare warm-up"
        yield Line(what, ready / bare, f"{ready:.1f} against {bare:.1f} s", at_most=1.35)
        what = "peak memory of cifar at paper size, GB"
        yield Line(what, peak, "training and evaluation", at_most=2.5)
        sizes = ["--device-batches", "2", "--loss-batches", "1", "--test-batches", "1"]
        _, peak = measure("lstm", "--data", "synthetic", "--b", "2", *sizes, out=folder + "/lstm")
        what = "peak memory of lstm at the full vocabulary, GB"
        yield Line(what, peak, "training and evaluation", at_most=3.5)


def measure(*arguments: str, out: str) -> Tuple[float, float]:
    """Run a command for one epoch; return seconds until its progress bar, and peak GB."""
    command = [sys.executable, "-m", "slsgd_mx", *arguments, "--epochs", "1", "--out", out]
    terminal, side = pty.openpty()  # without a terminal, there is no progress bar
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    began = time.perf_counter()
    process = subprocess.Popen(command, stderr=side, stdout=subprocess.DEVNULL)
    os.close(side)
    ready, text = None, b""
    while True:
        try:
            text += os.read(terminal, 4096)
        except OSError:  # the command has ended
            break
        if ready is None and b"0/1" in text:
            ready = time.perf_counter() - began
    os.close(terminal)
    _, status, usage = os.wait4(process.pid, 0)
    if status or ready is None:
        raise RuntimeError(f"{' '.join(command)} failed:\n{text.decode()}")
    return ready, usage.ru_maxrss / 2**20  # Linux counts in KB


def warm_up_bare() -> None:
    """Import MXNet and train on as many minibatches as a warm-up at paper size."""
    from benchmarks.training import bare_epoch, bare_network
    from slsgd_mx.system.mxnet import mx

    net, loss = bare_network()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=None)
    images = mx.nd.random.uniform(shape=(BATCH, 3, 24, 24))
    bare_epoch(net, loss, trainer, [(images, mx.nd.zeros(BATCH))] * WARM_UP)


def write_images(folder: Path) -> None:
    """Write 60,000 images of noise in CIFAR-10's binary layout."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        records = rng.integers(0, 256, (10_000, 3_073), dtype=np.uint8)
        records[:, 0] %= 10
        (folder / f"{name}.bin").write_bytes(records.tobytes())


if __name__ == "__main__":
    warm_up_bare()
