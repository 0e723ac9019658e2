"""Ctrl-C and SIGTERM that cannot get lost.

Python drops an exception that is raised while an object is being deleted, and MXNet deletes arrays
all the time: an interrupt that comes just then would be swallowed.  So it is noted as well, and
whoever runs for long asks for it now and then.
"""

from __future__ import annotations

import signal
from typing import List

_received: List[int] = []


def install() -> None:
    """Treat SIGTERM, which schedulers send, like Ctrl-C, and note both."""
    _received.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _note)


def check() -> None:
    """Raise the interrupt that came and was swallowed, if one did."""
    if _received:
        raise KeyboardInterrupt(_received[-1])


def _note(number: int, frame: object) -> None:
    _received.append(number)
    raise KeyboardInterrupt(number)
