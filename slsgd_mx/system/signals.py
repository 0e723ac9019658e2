"""Ctrl-C and SIGTERM that cannot get lost.

Python drops an exception that is raised while an object is being deleted, and MXNet deletes arrays
all the time: an interrupt that comes just then would be swallowed.  So it is noted as well, and
whoever runs for long asks for it now and then.
"""

from __future__ import annotations

import contextlib
import signal
from typing import Iterator, List

_received: List[int] = []
_held: List[bool] = []


def install() -> None:
    """Treat SIGTERM, which schedulers send, like Ctrl-C, and note both."""
    _received.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _note)


def check() -> None:
    """Raise the interrupt that came and was swallowed, if one did."""
    if _received:
        raise KeyboardInterrupt(_received[-1])


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let nothing break into what has to be finished, such as saving; ``check`` tells later."""
    _held.append(True)
    try:
        yield
    finally:
        _held.pop()


def _note(number: int, frame: object) -> None:
    _received.append(number)
    if not _held:
        raise KeyboardInterrupt(number)
