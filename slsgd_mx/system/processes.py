"""Processes of ours that start one another: JSON lines between them; none outlives its parent."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

Message = Dict[str, Any]
Report = Callable[..., None]


def environment(threads: int, **more: str) -> Dict[str, str]:
    """That of this process, for a child that computes with so many threads of its own."""
    home = str(Path(__file__).resolve().parents[2])
    paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": os.pathsep.join(paths)}
    return {**os.environ, **own, **more}


def reporter() -> Report:
    """Keep standard output for reports; whatever else is printed goes to standard error."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return lambda **message: print(json.dumps(message), file=out, flush=True)


class Reader:
    """Messages from a child's standard output."""

    def __init__(self, process: subprocess.Popen) -> None:
        self.process, self.ended = process, False
        self._rest = b""

    def read(self) -> List[Message]:
        """What it has said since; waits if it has said nothing, and notes the end."""
        text = os.read(self.process.stdout.fileno(), 1 << 16)
        *lines, self._rest = (self._rest + text).split(b"\n")
        self.ended = not text
        return [json.loads(line) for line in lines]


def how_it_ended(code: int) -> str:
    """
    >>> how_it_ended(-9), how_it_ended(1)
    ('was killed by SIGKILL', 'exited with 1')
    """
    names = {int(number): number.name for number in signal.Signals}
    killer = names.get(-code, f"signal {-code}")
    return f"was killed by {killer}" if code < 0 else f"exited with {code}"


def is_stopped(pid: int) -> bool:
    """Whether a process was sent SIGSTOP, as far as this system tells."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rsplit(")", 1)[1].split()[0] == "T"


def tail(path: Path, lines: int = 5) -> str:
    """The end of a log."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def die_with_parent(number: int = signal.SIGTERM, parent: Optional[int] = None) -> None:
    """Linux: ask for a signal when the parent dies. Elsewhere the next report fails, soon enough.

    With ``parent``, its process id, a parent that is dead already is noticed too.
    """
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, int(number))
    if parent is not None and os.getppid() != parent:
        os._exit(1)
