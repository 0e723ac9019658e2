"""The entry point of every child process, with the arguments PARENT and SIGNAL.

Jobs arrive as JSON lines on standard input.  A job names a function of this package, which is
called with the job and a function that reports, after the plug-ins of the parent are loaded.
Reports are JSON lines on standard output, and the last report of every job is its end:

    {"do": "slsgd_mx.sweeps.job:train", "config": ..., "log": ...}   a job; "log" is optional
    {"event": "epoch", "epoch": 1}                                   a report of that function
    {"event": "end", "status": "done", ...}                          with what the function returned
    {"event": "end", "status": "diverged", "why": ...}
    {"event": "end", "status": "failed", "why": ..., "kind": ...}    kind: its class in errors.py
    {"event": "end", "status": "interrupted"}                        by SIGTERM; the child exits

When its input ends, the child exits with the exit code of its last job.  It receives SIGNAL when
the process PARENT dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import re
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Callable, Iterator, Optional, Tuple

from slsgd_mx import errors
from slsgd_mx.errors import DivergedError, SlsgdError
from slsgd_mx.plugins import explain_failure, load_inherited
from slsgd_mx.system import signals
from slsgd_mx.system.files import disk_errors, open_log
from slsgd_mx.system.processes import Message, Report
from slsgd_mx.validation import require


def main(parent: int, death_signal: int) -> int:
    """Do the jobs that arrive until the input ends; return the exit code."""
    report = reporter()
    die_with_parent(death_signal, parent)
    keep_priority()
    signals.install()
    code = 0

    def report_and_check(**message: object) -> None:
        report(**message)
        signals.check()  # for an interrupt that arrived while reporting

    try:
        for line in sys.stdin:
            end, code = do(json.loads(line), report_and_check)
            gc.collect()  # networks are reference cycles, and the next job builds another
            report_and_check(event="end", **end)
    except KeyboardInterrupt:
        with contextlib.suppress(BrokenPipeError):
            report(event="end", status="interrupted")
        return 128 + signal.SIGTERM
    except BrokenPipeError:  # the parent is gone; the job has saved its work
        return 1
    return code


def reporter() -> Report:
    """Reserve standard output for reports; anything else printed goes to standard error."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def report(**message: object) -> None:
        with signals.held():  # an interrupt must not leave half a line
            out.write(json.dumps(message).encode() + b"\n")
            out.flush()

    return report


def die_with_parent(number: int, parent: int) -> None:
    """Linux: ask for a signal when the parent dies; elsewhere the next report fails.

    Exits if the parent is dead already.
    """
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, int(number))
    if os.getppid() != parent:
        os._exit(1)


def keep_priority() -> None:
    """Linux: give the session of this process the priority that ``nice`` gave the process.

    Sessions share the processor equally, whatever the priorities of their processes.
    """
    group, priority = Path("/proc/self/autogroup"), os.nice(0)
    with contextlib.suppress(OSError):  # no such file, or a priority above the usual one
        for _ in range(20 if priority else 0):
            try:
                group.write_text(str(priority))
                return
            except BlockingIOError:  # one write in 0.1 s, of all processes together
                time.sleep(0.1)


def do(job: Message, report: Report) -> Tuple[Message, int]:
    """Do one job; return its end and the exit code that goes with it."""
    try:
        with _logging_to(job.get("log")):
            load_inherited()
            content = find(job["do"])(job, report)
        signals.check()
        return {"status": "done", **(content or {})}, 0
    except BrokenPipeError:
        raise
    except DivergedError as error:
        return {"status": "diverged", "why": str(error)}, 0
    except SlsgdError as error:
        ours = (c.__name__ for c in type(error).__mro__ if c.__module__ == errors.__name__)
        return {"status": "failed", "why": str(error), "kind": next(ours)}, error.exit_code
    except Exception as error:
        plugins = explain_failure(error)  # such an error repeats itself: no reason to try again
        why, kind = (plugins, "RunError") if plugins else (f"{type(error).__name__}: {error}", "")
        return {"status": "failed", "why": why, "kind": kind}, 1


def find(name: str) -> Callable:
    """The function that a job names.

    >>> find("os:system")
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.ConfigError: do='os:system' is out of range: needs slsgd_mx.MODULE:FUNCTION
    """
    legal = re.fullmatch(r"(slsgd_mx(?:\.\w+)+):([a-z]\w*)", name)
    require(legal is not None, "do", repr(name), "slsgd_mx.MODULE:FUNCTION")
    return getattr(importlib.import_module(legal[1]), legal[2])


@contextlib.contextmanager
def _logging_to(path: Optional[str]) -> Iterator[None]:
    """Redirect all output to the job's log, if it has one; an empty log is removed."""
    if path is not None:
        log = Path(path)
        with disk_errors(log.parent):
            log.parent.mkdir(parents=True, exist_ok=True)
            with open_log(log) as file:
                file.truncate(0)
                os.dup2(file.fileno(), 2)
                os.dup2(file.fileno(), 1)
    try:
        yield
    except (SlsgdError, BrokenPipeError):  # the first is reported, the second has no reader
        raise
    except Exception:
        traceback.print_exc()
        raise
    finally:
        sys.stderr.flush()
        if path is not None:
            with contextlib.suppress(FileNotFoundError):
                if log.stat().st_size == 0:
                    log.unlink()


if __name__ == "__main__":
    code = main(*map(int, sys.argv[1:]))
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(code)  # MXNet's own exit would wait for other nodes, which may be gone
