"""The number of threads; MXNet reads it once, when it is imported."""

from __future__ import annotations

import os
import sys

from slsgd_mx.errors import ConfigError
from slsgd_mx.validation import require

VARIABLE = "OMP_NUM_THREADS"


def available_cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count() -> int:
    """Return MXNet's number of threads: ``OMP_NUM_THREADS`` if it is set, else every core."""
    value = os.environ.get(VARIABLE, "").split(",")[0]
    return int(value) if value.isdigit() and int(value) > 0 else available_cores()


def cores_to_share() -> int:
    """Return the number of cores for several processes together.

    That is ``OMP_NUM_THREADS`` if it is more than 1. A value of 1, common on clusters, limits the
    threads of each process but not the number of processes.
    """
    threads = thread_count()
    return threads if threads > 1 else available_cores()


def suitable_threads(preset: str) -> int:
    """Return the number of threads for a preset: one for the narrow networks of ``smoke``.

    For those a second thread is hardly faster on an idle machine (1,890 images/s instead of 1,740)
    and 3 to 12 times slower on a busy one.
    """
    return 1 if preset == "smoke" and VARIABLE not in os.environ else thread_count()


def set_threads(threads: int) -> None:
    """Set the number of threads; call it before MXNet is imported."""
    require(threads >= 1, "threads", threads, "threads >= 1")
    if "mxnet" in sys.modules and threads != thread_count():
        raise ConfigError(
            f"threads={threads} comes too late: MXNet was imported with {thread_count()}; "
            f"set {VARIABLE}={threads} before the import"
        )
    os.environ[VARIABLE] = str(threads)
