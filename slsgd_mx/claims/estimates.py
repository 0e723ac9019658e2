"""Estimates with a margin, compared with a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import List, NamedTuple, Optional, Sequence

HOLDS, FAILS, OPEN = "holds", "does not hold", "not enough data"
AT_LEAST, AT_MOST = "at least", "at most"
GUESSING = math.log(10)  # the cross entropy of guessing among ten classes
LEARNED = 0.05  # the least an ideal has to learn, in accuracy or nats
PROGRESS, NATS = 0.05, 0.02  # margins of one repeat

# Student's t, two-sided 95 %, for 1 to 30 degrees of freedom
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True)
class Check:
    """One comparison: an estimate with its margin, against a limit."""

    what: str
    verdict: str
    sense: str  # AT_LEAST or AT_MOST
    limit: float
    estimate: Optional[float] = None  # None: there is no value
    margin: Optional[float] = None
    repeats: int = 0  # values the estimate is the mean of
    note: str = ""
    exact: bool = False  # a count, not a sample
    sure: bool = False  # holds whatever the runs do: counted apart
    missing: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """What the checks of a claim add up to."""

    claim: str
    verdict: str
    checks: List[Check]
    missing: List[str]


class Estimate(NamedTuple):
    mean: float
    margin: float


class Limit(NamedTuple):
    """What to compare with."""

    sense: str
    value: float
    margin: float  # of a single value
    least: int = 1  # values it takes
    exact: bool = False  # a count, not a sample: no margin


def estimate(values: Sequence[float], single: float) -> Estimate:
    """The mean and half its 95 % interval; ``single`` is the margin of one value.

    >>> estimate([0.5], single=0.05)
    Estimate(mean=0.5, margin=0.05)
    >>> estimate([1.0, 3.0], single=0.05)  # sd / sqrt(2) = 1
    Estimate(mean=2.0, margin=12.706)
    """
    r, mean = len(values), math.fsum(values) / len(values)
    if r == 1:
        return Estimate(mean, single)
    variance = math.fsum((value - mean) ** 2 for value in values) / (r - 1)
    t = _T[r - 2] if r - 2 < len(_T) else 1.96
    return Estimate(mean, t * math.sqrt(variance / r))


def at_least(estimate: Estimate, limit: float) -> str:
    if estimate.mean - estimate.margin >= limit:
        return HOLDS
    return FAILS if estimate.mean + estimate.margin < limit else OPEN


def at_most(estimate: Estimate, limit: float) -> str:
    return at_least(Estimate(-estimate.mean, estimate.margin), -limit)


def first_few(names: Sequence[str]) -> str:
    return ", ".join([*names[:2], *(["..."] if len(names) > 2 else [])])
