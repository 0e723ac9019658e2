"""Checks: values with their margin, compared with a limit.  A claim's verdict follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import List, NamedTuple, Optional, Sequence

from slsgd_mx.statistics import Estimate, estimate

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided"
ABSENT = "not computed"  # there is no value yet, because runs are missing
AT_LEAST, AT_MOST = "at least", "at most"


class Limit(NamedTuple):
    """What an estimate is compared with."""

    sense: str  # AT_LEAST or AT_MOST
    value: float
    margin: float  # of a single value
    least: int = 1  # number of values needed
    exact: bool = False  # a count, not a sample: no margin


@dataclass(frozen=True)
class Check:
    """One comparison: an estimate with its margin, against a limit."""

    what: str
    verdict: str
    sense: str  # AT_LEAST or AT_MOST
    limit: float
    estimate: Optional[float] = None  # None: there is no value
    margin: Optional[float] = None
    repeats: int = 0  # number of values, or of seeds behind a count
    note: str = ""
    exact: bool = False  # a count, not a sample
    sure: bool = False  # could not fail, whatever the runs do: counted separately
    missing: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, and the checks it follows from."""

    claim: str
    verdict: str
    checks: List[Check]
    missing: List[str]


def at_least(estimate: Estimate, limit: float) -> str:
    if estimate.mean - estimate.margin >= limit:
        return HOLDS
    return FAILS if estimate.mean + estimate.margin < limit else OPEN


def at_most(estimate: Estimate, limit: float) -> str:
    return at_least(Estimate(-estimate.mean, estimate.margin), -limit)


def compare(
    what: str,
    limit: Limit,
    values: Sequence[Optional[float]],
    missing: Sequence[str] = (),
    repeats: Optional[int] = None,
) -> Check:
    """Compare the mean of the values with a limit.

    Parameters
    ----------
    values : sequence of float or None
        None for a sample that carries no information: it is left out.  A value that is not finite
        is never left out: it fails "at most" (unless it is -infinity) and leaves "at least" open.
    missing : sequence of str
        Names of the runs or tables that are needed and not available.
    repeats : int, optional
        Number of repeats to report; by default the number of values.

    >>> compare("loss", Limit(AT_MOST, 1.0, margin=0.1), [0.5, None]).note
    '1 of 2 say nothing and are left out; one repeat: fixed margin'
    """
    usable = [value for value in values if value is not None]
    check = Check(what, OPEN, limit.sense, limit.value, exact=limit.exact, missing=list(missing))
    infinite = [value for value in usable if not math.isfinite(value)]
    if infinite:
        fails = limit.sense == AT_MOST and any(value != -math.inf for value in infinite)
        note = f"{len(infinite)} of {len(usable)} values are not finite"
        return replace(check, verdict=FAILS if fails else OPEN, repeats=len(usable), note=note)
    check = replace(check, note="; ".join(_notes(limit, len(values), len(usable))))
    if len(usable) < limit.least:
        return replace(check, verdict=ABSENT if missing and not usable else OPEN)
    mean, margin = estimate(usable, limit.margin)
    margin = 0.0 if limit.exact else margin
    judge = at_least if limit.sense == AT_LEAST else at_most
    return replace(
        check,
        verdict=judge(Estimate(mean, margin), limit.value),
        estimate=mean,
        margin=margin,
        repeats=len(usable) if repeats is None else repeats,
    )


def _notes(limit: Limit, given: int, usable: int) -> List[str]:
    notes = []
    if usable < given:
        notes.append(f"{given - usable} of {given} say nothing and are left out")
    if 0 < usable < limit.least:
        notes.append(f"{usable} values, and {limit.least} are needed")
    elif usable == 1 and not limit.exact:
        notes.append("one repeat: fixed margin")
    return notes


def decide(claim: str, checks: List[Check]) -> Verdict:
    """The verdict on a claim, from those of its checks."""
    missing = list(dict.fromkeys(name for check in checks for name in check.missing))
    found = {check.verdict for check in checks}
    undecided = missing or OPEN in found or not checks
    verdict = FAILS if FAILS in found else OPEN if undecided else HOLDS
    verdict = ABSENT if found == {ABSENT} else verdict
    return Verdict(claim, verdict, checks, missing)


def first_few(names: Sequence[str]) -> str:
    return ", ".join([*names[:2], *(["..."] if len(names) > 2 else [])])
