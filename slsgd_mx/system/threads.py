"""How many threads to compute with; MXNet reads it once, when it is imported."""

from __future__ import annotations

import os
import sys

from slsgd_mx.errors import ConfigError

VARIABLE = "OMP_NUM_THREADS"


def available_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count() -> int:
    """Threads MXNet computes with: ``OMP_NUM_THREADS`` if it is set, else every core."""
    value = os.environ.get(VARIABLE, "").split(",")[0]
    return int(value) if value.isdigit() and int(value) > 0 else available_cores()


def suitable_threads(preset: str) -> int:
    """Threads for a preset: one for the narrow networks of ``smoke``.

    A second thread made those hardly faster on an idle machine (1,740 to 1,890 images/s), and 3 to
    12 times slower on a busy one.
    """
    return 1 if preset == "smoke" and VARIABLE not in os.environ else thread_count()


def set_threads(threads: int) -> None:
    """Fix the number of threads; it must come before MXNet is imported."""
    if threads < 1:
        raise ConfigError(f"threads={threads} is out of range: needs threads >= 1")
    if "mxnet" in sys.modules and threads != thread_count():
        raise ConfigError(
            f"threads={threads} comes too late: MXNet was imported with {thread_count()}; "
            f"set {VARIABLE}={threads} before"
        )
    os.environ[VARIABLE] = str(threads)
