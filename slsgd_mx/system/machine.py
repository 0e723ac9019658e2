"""What this machine has: memory, and the features of its CPU."""

from __future__ import annotations

import os
import platform
import re
import resource
import sys
from pathlib import Path
from typing import Set, Union

LIMITS = {  # values of DNNL_MAX_CPU_ISA, which oneDNN takes in upper case only -> what is left
    "SSE41": "SSE4.1",
    "AVX": "AVX",
    "AVX2": "AVX2",
    "AVX2_VNNI": "AVX2",
    "AVX512_MIC": "AVX512_MIC",
    "AVX512_MIC_4OPS": "AVX512_MIC",
}


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


def peak_memory(process: Union[int, str] = "self") -> int:
    """The most bytes of memory that this process has had at once; on Linux also of another one.

    On Linux not ``ru_maxrss``: it begins with the peak of the process that started this one.
    """
    status = Path(f"/proc/{process}/status")
    found = re.search(r"^VmHWM:\s*(\d+) kB", status.read_text() if status.exists() else "", re.M)
    if found:
        return 1024 * int(found[1])
    if process != "self":
        raise OSError(f"this system does not say how much memory process {process} has had")
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage if sys.platform == "darwin" else 1024 * usage


def cpu_field(*names: str) -> str:
    """What Linux says of the first CPU under the first of these names that it uses; else ""."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    found = (line.partition(":")[2].strip() for line in lines if line.startswith(names))
    return next(found, "")


def cpu_flags() -> Set[str]:
    """The CPU's features as Linux names them; empty elsewhere."""
    return set(cpu_field("flags", "Features").split())


def instructions() -> str:
    """The vector instructions in which MXNet's oneDNN computes; the last bits depend on them.

    DNNL_MAX_CPU_ISA limits them.  On CPUs other than x86-64, the architecture.
    """
    flags, limit = cpu_flags(), LIMITS.get(os.environ.get("DNNL_MAX_CPU_ISA", ""))
    if "avx512f" in flags:
        return limit or "AVX-512"
    if "avx2" in flags:
        return limit if limit in ("SSE4.1", "AVX") else "AVX2"
    return platform.machine() or "unknown"
