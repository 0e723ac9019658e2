"""The time of a smoke arena of 8 rules and 6 attacks; minutes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from typing import Iterator

from benchmarks.report import Line


def lines() -> Iterator[Line]:
    """The whole command, with its pictures."""
    with tempfile.TemporaryDirectory() as home:
        places = ["--runs", f"{home}/runs", "--figures", f"{home}/figures"]
        call = [sys.executable, "-m", "slsgd_mx", "arena", "--preset", "smoke", *places]
        began = time.perf_counter()
        subprocess.run(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        minutes = (time.perf_counter() - began) / 60
    what = "minutes of a smoke arena, 8 rules and 6 attacks"
    yield Line(what, minutes, "56 runs of 8 epochs, and the pictures", at_most=6)
