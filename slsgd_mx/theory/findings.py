"""Steps of the paper's proofs that were tried: what is printed, what was found, in numbers."""

from __future__ import annotations

from typing import NamedTuple

HOLDS, LOOSE = "holds", "holds, loosely"
FAILS = "does not hold as printed"
NOT_SHOWN = "does not follow"  # from the theorem, whatever happens in the runs
EMPTY = "holds, and says nothing"
HIDDEN = "hides a factor"


class Finding(NamedTuple):
    """One step: where, what is printed, what was found, and the number beside the one printed."""

    step: str
    printed: str
    found: str
    measured: float
    against: float
    verdict: str
