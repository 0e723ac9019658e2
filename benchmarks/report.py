"""One line of the table, their count, and a timer that is robust against other load."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Callable, List, Optional, Sequence, Tuple, Union

import numpy as np


@dataclass(frozen=True)
class Line:
    """A measured number and its target."""

    what: str
    value: float
    detail: str
    at_least: Optional[float] = None
    at_most: Optional[float] = None

    @property
    def met(self) -> bool:
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    def __str__(self) -> str:
        least = [] if self.at_least is None else [f">= {self.at_least:g}"]
        most = [] if self.at_most is None else [f"<= {self.at_most:g}"]
        target = " ".join(least + most)
        verdict = "met" if self.met else "MISSED"
        return f"{self.what:<58} {self.value:7.2f}  {target:<8} {verdict:<7} {self.detail}"


@dataclass(frozen=True)
class Skipped:
    """A line that cannot be measured here, and the reason."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what:<58} {'-':>7}  {'':<8} skipped {self.why}"


AnyLine = Union[Line, Skipped]


def missed(lines: Sequence[AnyLine]) -> List[Line]:
    """The lines that were measured and miss their target."""
    return [line for line in lines if isinstance(line, Line) and not line.met]


def summary(lines: Sequence[AnyLine]) -> str:
    """
    >>> summary([Line("a", 1.0, "", at_most=2), Line("b", 3.0, "", at_most=2), Skipped("c", "")])
    '3 lines: 1 met, 1 missed, 1 skipped'
    """
    skipped = sum(isinstance(line, Skipped) for line in lines)
    met = len(lines) - skipped - len(missed(lines))
    return f"{len(lines)} lines: {met} met, {len(missed(lines))} missed, {skipped} skipped"


def best_of(
    calls: List[Callable[[], None]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> List[float]:
    """Return the shortest time of each call; calls alternate, so that other load affects all."""
    best = [float("inf")] * len(calls)
    for _ in range(repeats):
        for i, call in enumerate(calls):
            began = clock()
            call()
            best[i] = min(best[i], clock() - began)
    return best


def in_turns(calls: List[Callable[[int], None]], parts: int, rounds: int = 1) -> List[float]:
    """Return the time of each call over all parts, of each part the least of some rounds.

    Calls alternate part by part, so that other load affects all. The last part is computed once
    before, which compiles networks.
    """

    def turn(part: int) -> List[float]:
        return best_of([lambda call=call: call(part) for call in calls], 1)

    turn(parts - 1)
    least = np.min([[turn(part) for part in range(parts)] for _ in range(rounds)], axis=0)
    return least.sum(axis=0).tolist()


def median_ratio(
    call: Callable[[], None],
    baseline: Callable[[], None],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Tuple[float, float]:
    """Return the median of time / baseline's time, measured in turns, and of the time."""
    pairs = [best_of([call, baseline], 1, clock) for _ in range(repeats)]
    return median(one / other for one, other in pairs), median(one for one, _ in pairs)
