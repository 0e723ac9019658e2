"""What a session computes with: versions, CPU, threads, data, revision."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any, Dict

from slsgd_mx.system.threads import thread_count


def describe(start: int, data_digest: str) -> Dict[str, Any]:
    """Describe a session that starts after epoch ``start``, for manifest.json."""
    import numpy

    from slsgd_mx import __version__
    from slsgd_mx.system.mxnet import mx

    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "after_epoch": start,
        "threads": thread_count(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "mxnet": mx.__version__,
        "numpy": numpy.__version__,
        "slsgd_mx": __version__,
        "revision": git_revision(),
        "data_sha256": data_digest,
    }


def cpu_name() -> str:
    """The processor's name, as the operating system gives it."""
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def git_revision() -> str:
    """The revision of this package if it runs from a checkout of its own, else "unknown"."""
    here = Path(__file__).resolve().parents[1]
    if not (here.parent / ".git").exists():
        return "unknown"
    call = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(call, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"
