"""The parent's side of child processes: start one, send it jobs, read its reports.

The child's side, and the messages, are in ``slsgd_mx.system.child``.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, List, Union

Message = Dict[str, Any]
Report = Callable[..., None]

HOME = str(Path(__file__).resolve().parents[2])  # of this package


def environment(threads: int, **more: str) -> Dict[str, str]:
    """This process's environment, changed for a child that computes with ``threads`` threads."""
    paths = [HOME, *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": os.pathsep.join(paths)}
    if sys.version_info < (3, 12):  # MXNet imports distutils; that of setuptools takes 0.3 s
        own["SETUPTOOLS_USE_DISTUTILS"] = "stdlib"
    return {**os.environ, **own, **more}


class Reader:
    """Messages from a pipe, one JSON object per line."""

    def __init__(self, pipe: BinaryIO) -> None:
        self.pipe, self.ended = pipe, False
        self._rest = b""

    def has_reported(self) -> bool:
        """Whether ``read`` would return at once, with messages or because there are no more."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.pipe, selectors.EVENT_READ)
            return bool(selector.select(timeout=0))

    def read(self) -> List[Message]:
        """Wait for data and return the messages completed by it; set ``ended`` after the last."""
        data = os.read(self.pipe.fileno(), 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        messages = [json.loads(line) for line in lines]
        self.ended = not data or any(m.get("status") == "interrupted" for m in messages)
        return messages


class Child(Reader):
    """A process of ``slsgd_mx.system.child``, in its own session so that Ctrl-C does not reach it.

    Its standard error goes to ``log``; if this process dies, it receives ``death_signal`` (Linux).
    """

    def __init__(
        self,
        threads: int,
        log: Union[int, BinaryIO] = subprocess.DEVNULL,
        death_signal: int = signal.SIGTERM,
        **variables: str,
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _program(), str(os.getpid()), str(int(death_signal))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment(threads, **variables),
            start_new_session=True,
        )
        super().__init__(self.process.stdout)

    def send(self, job: Message, last: bool = False) -> None:
        """Send a job; after the ``last`` one the child exits with that job's exit code."""
        with contextlib.suppress(BrokenPipeError):  # it has died: reading its output reveals that
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
            if last:
                self.process.stdin.close()

    def close(self) -> None:
        """Close both pipes; a child that reports afterwards saves its work and exits."""
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()


def _program() -> str:
    """``slsgd_mx.system.child``, which finds modules where this process does.

    With ``python -m`` it would import what has their names in the working folder, such as another
    version of this package.
    """
    run = "runpy.run_module('slsgd_mx.system.child', run_name='__main__')"
    paths = [HOME, *(path for path in sys.path if isinstance(path, str))]
    return f"import sys; sys.path[:] = {paths}; import runpy; {run}"


def how_it_ended(code: int) -> str:
    """
    >>> how_it_ended(-9), how_it_ended(1)
    ('was killed by SIGKILL', 'exited with 1')
    """
    names = {int(number): number.name for number in signal.Signals}
    killer = names.get(-code, f"signal {-code}")
    return f"was killed by {killer}" if code < 0 else f"exited with {code}"


def is_stopped(pid: int) -> bool:
    """Whether a process was suspended with SIGSTOP; False on systems without /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rsplit(")", 1)[1].split()[0] == "T"


def tail(path: Path, lines: int = 5, start: int = 0) -> str:
    """The last lines of a log after its first ``start`` bytes; nothing if it cannot be read."""
    try:
        text = path.read_bytes()[start:].decode("utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])
    except OSError:
        return ""
