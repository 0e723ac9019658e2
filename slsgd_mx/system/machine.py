"""What this machine has: memory, and the features of its CPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Set


def total_memory() -> float:
    """Bytes of memory that this process may use; infinite if the system does not say.

    In a container it is the container's limit.
    """
    try:
        total = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError):
        total = float("inf")
    for file in ("memory.max", "memory/memory.limit_in_bytes"):  # cgroups, versions 2 and 1
        try:
            total = min(total, float(Path("/sys/fs/cgroup", file).read_text()))
        except (OSError, ValueError):  # there is no such file, or no limit ("max")
            continue
    return total


def cpu_flags() -> Set[str]:
    """The CPU's features as Linux names them; empty elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    flags = [line.split() for line in lines if line.startswith(("flags", "Features"))]
    return set(flags[0]) if flags else set()
