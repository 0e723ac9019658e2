"""Measure the seconds of each activity in an epoch."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable, Dict


@dataclass(frozen=True)
class Costs:
    """What an epoch cost, summed over its worker processes; aggregation is the slowest server's.

    In one process nothing is sent, and because MXNet copies models asynchronously, part of the
    training time is spent waiting for a copy.
    """

    training: float = 0.0  # seconds
    transfer: float = 0.0
    aggregation: float = 0.0
    sent: int = 0  # bytes pushed and pulled: models and their headers


class Stopwatch:
    """Seconds by activity; switching to an activity ends the previous one.

    >>> now = iter([0.0, 1.0, 3.0, 3.5])
    >>> watch = Stopwatch(lambda: next(now))
    >>> watch.switch("transfer"), watch.switch("training"), watch.switch("")
    (None, None, None)
    >>> watch.take()
    {'transfer': 2.0, 'training': 0.5}
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._activity, self._since = clock, "", clock()
        self._seconds: Dict[str, float] = {}

    def switch(self, activity: str) -> None:
        """Begin an activity; the empty one is not counted."""
        now = self._clock()
        if self._activity:
            spent = self._seconds.get(self._activity, 0.0) + now - self._since
            self._seconds[self._activity] = spent
        self._activity, self._since = activity, now

    def reset(self) -> None:
        """Discard the seconds counted so far and end the activity."""
        self._activity, self._seconds = "", {}

    def take(self) -> Dict[str, float]:
        """Return the seconds counted so far and reset them."""
        seconds, self._seconds = self._seconds, {}
        return seconds
