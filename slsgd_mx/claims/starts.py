"""C3 to C5 for every way in which poisoned workers may start, side by side; not judged.

The paper's text, its released code and its development repository differ in this point, and it is
unknown which of them produced the published figures.
"""

from __future__ import annotations

from typing import Dict, List, Tuple

from slsgd_mx.claims.checks import Check
from slsgd_mx.claims.evidence import Evidence, compare_runs
from slsgd_mx.claims.measures import final_loss, ideal_of, progress
from slsgd_mx.claims.rules import FAILURE, LEARNING, TOLERATED
from slsgd_mx.config import RunConfig
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.variants import Line, groups

TITLE = (
    "C3 to C5 by the start of poisoned workers (balanced partition): progress if q=2, final "
    "training loss if q=4. This table does not enter the verdicts."
)


def compare_starts(evidence: Evidence) -> str:
    """A table by start, q and b, as Markdown; "" if only one start has finished runs."""
    evidence = evidence.of_figure("attacker-start")
    found: Dict[str, Dict[str, Check]] = {
        start: dict(_judge(evidence, line) for line in lines if line.changes.get("q"))
        for start, lines in groups(FIGURES["attacker-start"], evidence.variant).items()
    }
    known = [start for start, checks in found.items() if any(c.repeats for c in checks.values())]
    if len(known) < 2:
        return ""
    header = ["start", *next(iter(found.values()))]
    rows = [header, ["---"] * len(header)]
    rows += [[start, *map(_cell, checks.values())] for start, checks in found.items()]
    return "\n".join([TITLE, "", *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _judge(evidence: Evidence, line: Line) -> Tuple[str, Check]:
    """The claim that a curve is about, with its limit, and whether it is met."""
    q, b = line.changes["q"], line.changes["b"]
    pairs: List[Tuple[RunConfig, ...]] = [(run, ideal_of(run)) for run in line.runs]
    claim, limit, value = "C4", TOLERATED, progress
    if q == 4:
        claim, limit, value, pairs = "C5", LEARNING, final_loss, [(run,) for run in line.runs]
    elif b == 0:
        claim, limit = "C3", FAILURE
    name = f"q={q}, b={b} ({claim}: {limit.sense} {limit.value:.4g})"
    return name, compare_runs(evidence, name, limit, pairs, value)


def _cell(check: Check) -> str:
    if check.estimate is None:
        return "not computed"
    return f"{check.estimate:.3f} +- {check.margin:.3f}, r={check.repeats}: {check.verdict}"
