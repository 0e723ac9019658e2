"""C3 and C4 for every way in which poisoned workers may start, side by side; not judged.

The paper's text, its released code and its development repository differ in this point, and it is
unknown which of them produced the published figures.
"""

from __future__ import annotations

from typing import Dict

from slsgd_mx.claims.checks import Check, Limit
from slsgd_mx.claims.evidence import Evidence, compare_runs
from slsgd_mx.claims.measures import ideal_of, progress
from slsgd_mx.claims.rules import FAILURE, TOLERATED
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.variants import groups

TITLE = "C3 and C4 by the start of poisoned workers (q=2, balanced): progress, not judged"


def compare_starts(evidence: Evidence) -> str:
    """A table of progress by start and b, as Markdown; "" if only one has finished runs."""
    found: Dict[str, Dict[int, Check]] = {
        start: {
            line.changes["b"]: compare_runs(
                evidence,
                start,
                TOLERATED if line.changes["b"] else FAILURE,
                [(run, ideal_of(run)) for run in line.runs],
                progress,
            )
            for line in lines
            if line.changes.get("q")
        }
        for start, lines in groups(FIGURES["attacker-start"], evidence.variant).items()
    }
    known = [start for start, checks in found.items() if any(c.repeats for c in checks.values())]
    if len(known) < 2:
        return ""
    bs = list(next(iter(found.values())))
    limits = [f"C4: {_words(TOLERATED)}" if b else f"C3: {_words(FAILURE)}" for b in bs]
    header = ["start", *(f"b={b} ({limit})" for b, limit in zip(bs, limits))]
    rows = [header, ["---"] * len(header)]
    rows += [[start, *map(_cell, checks.values())] for start, checks in found.items()]
    return "\n".join([TITLE, "", *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _words(limit: Limit) -> str:
    return f"{limit.sense} {limit.value:g}"


def _cell(check: Check) -> str:
    if check.estimate is None:
        return "not computed"
    return f"{check.estimate:.3f} +- {check.margin:.3f}, r={check.repeats}: {check.verdict}"
