"""manifest.json: what each session of a run computes with, and how the run ended."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from slsgd_mx.errors import RunError
from slsgd_mx.runs.proof import Closing
from slsgd_mx.system import files
from slsgd_mx.system.machine import cpu_field, instructions
from slsgd_mx.system.threads import thread_count

FILE = "manifest.json"
SAME_BYTES = ("threads", "cpu", "instructions", "mxnet", "numpy", "slsgd_mx")  # if these are equal

Session = Dict[str, Any]  # what `describe` returns


def describe(start: int, data_digest: str) -> Session:
    """Describe a session that starts after epoch ``start``."""
    import numpy

    from slsgd_mx import __version__
    from slsgd_mx.system.mxnet import mx

    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "after_epoch": start,
        "threads": thread_count(),
        "cpu": cpu_name(),
        "instructions": instructions(),
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "mxnet": mx.__version__,
        "numpy": numpy.__version__,
        "slsgd_mx": __version__,
        "revision": git_revision(),
        "data_sha256": data_digest,
    }


def differences(before: Session, now: Session) -> List[str]:
    """What may change the bytes of a run that another session continues.

    Earlier versions did not record the instructions.

    >>> differences({"threads": 1}, {"threads": 2})
    ['threads 1 -> 2']
    """
    pairs = [(name, before.get(name), now.get(name)) for name in SAME_BYTES]
    known = [pair for pair in pairs if pair[0] != "instructions" or pair[1] is not None]
    return [f"{name} {old} -> {new}" for name, old, new in known if old != new]


def read_manifest(folder: Path) -> Dict[str, Any]:
    """The manifest of the run in a folder; without sessions if it has not begun."""
    path = folder / FILE
    if not path.exists():
        return {"sessions": []}
    try:
        found = files.parse_json(files.read_text(path))
        sessions = found["sessions"]
        if type(sessions) is list and all(type(session) is dict for session in sessions):
            return found
    except (ValueError, KeyError, TypeError):
        pass
    raise RunError(f"{path} is damaged: restore it, or move {folder} away to compute the run again")


def read_sessions(folder: Path) -> List[Session]:
    """The sessions of the run in a folder; none if it has not begun."""
    return read_manifest(folder)["sessions"]


def write_sessions(
    folder: Path, sessions: List[Session], closing: Optional[Closing] = None
) -> None:
    """Replace the manifest of a run; a finished one has a closing record."""
    content: Dict[str, Any] = {"sessions": sessions}
    if closing is not None:
        content["finished"] = closing.to_dict()
    with files.disk_errors(folder):
        files.write_atomically(folder / FILE, json.dumps(content, indent=1).encode())


def cpu_name() -> str:
    """The processor's name, as the operating system gives it."""
    return cpu_field("model name") or platform.processor() or "unknown"


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
