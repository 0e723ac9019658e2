"""Where the seconds of an epoch go: one activity at a time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable, Dict


@dataclass(frozen=True)
class Costs:
    """What an epoch cost, summed over the processes that computed it; aggregation is the longest.

    In one process MXNet copies models behind the caller's back, so that part of what is called
    training is waiting for a copy, and nothing is sent.
    """

    training: float = 0.0  # seconds
    transfer: float = 0.0
    aggregation: float = 0.0
    sent: int = 0  # bytes of models, and of what goes with them, pushed and pulled


class Stopwatch:
    """Seconds by activity; switching to one ends the one before.

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
        """What follows is this activity; the empty one is not counted."""
        now = self._clock()
        if self._activity:
            spent = self._seconds.get(self._activity, 0.0) + now - self._since
            self._seconds[self._activity] = spent
        self._activity, self._since = activity, now

    def reset(self) -> None:
        """Forget what was counted, and count nothing."""
        self._activity, self._seconds = "", {}

    def take(self) -> Dict[str, float]:
        """The seconds counted so far; counting starts anew."""
        seconds, self._seconds = self._seconds, {}
        return seconds
