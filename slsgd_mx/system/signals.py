"""Ctrl-C, SIGTERM and SIGHUP that are never lost.

Python discards an exception that is raised while an object is being deleted, and MXNet deletes
arrays all the time, so a KeyboardInterrupt may be lost.  The handler therefore records the signal
too, and long-running loops call ``check``.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import Any, Callable, Iterator, List

_received: List[int] = []
_held: List[bool] = []
_hooks: List[Callable[[Any], object]] = []  # what Python called before for what it discards


def install() -> None:
    """Treat SIGTERM, which schedulers send, and SIGHUP (a closed ssh session) like Ctrl-C.

    Under ``nohup``, SIGHUP stays ignored.
    """
    _received.clear()
    if sys.unraisablehook is not _say_nothing:
        _hooks[:] = [sys.unraisablehook]
        sys.unraisablehook = _say_nothing
    _set(_handle)


def end_at_once() -> None:
    """Let these signals end the process, where no handler would run: MXNet blocks this thread."""
    _set(signal.SIG_DFL)


def _set(handler: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def check() -> None:
    """Raise KeyboardInterrupt if a signal was received."""
    if _received:
        raise KeyboardInterrupt(_received[-1])


def ignore(number: int) -> None:
    """Raise neither for the signals of this kind that were received nor for those that follow."""
    signal.signal(number, signal.SIG_IGN)
    _received[:] = [other for other in _received if other != number]


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Do not interrupt the with block, such as a save; a later ``check`` raises instead."""
    _held.append(True)
    try:
        yield
    finally:
        _held.pop()


def _handle(number: int, frame: object) -> None:
    _received.append(number)
    if not _held:
        raise KeyboardInterrupt(number)


def _say_nothing(discarded: Any) -> None:
    """Python would print that it discards a KeyboardInterrupt, which ``check`` raises again."""
    if not (_received and discarded.exc_type is KeyboardInterrupt):
        _hooks[0](discarded)
