"""Start-up: seconds until the help, and until the first training step of the smoke preset."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from typing import Iterator

from benchmarks.report import Line
from benchmarks.whole_run import measure


def lines(tries: int = 3) -> Iterator[Line]:
    """The least of several tries, because these are seconds and not ratios."""
    seconds = min(help_seconds() for _ in range(3 * tries))
    yield Line("seconds of slsgd-mx --help", seconds, f"least of {3 * tries}", at_most=0.3)
    with tempfile.TemporaryDirectory() as home:
        # Without the warm-up, the progress bar appears just before the first training step.
        command = ["cifar", "--preset", "smoke", "--no-warm-up"]
        ready = min(measure(*command, out=f"{home}/{turn}")[0] for turn in range(tries))
    what = "seconds from the command to the first training step, smoke"
    yield Line(what, ready, f"least of {tries}", at_most=3)


def help_seconds() -> float:
    began = time.perf_counter()
    call = [sys.executable, "-m", "slsgd_mx", "--help"]
    subprocess.run(call, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began
