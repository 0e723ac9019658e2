"""Verdicts as text, JSON and a table."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from slsgd_mx.claims.catalogue import CLAIMS
from slsgd_mx.claims.checks import AT_LEAST, HOLDS, Check, Verdict, first_few
from slsgd_mx.errors import RunError
from slsgd_mx.system.files import parse_json

MOST_MISSING = 100_000  # runs of a check in a file


def in_numbers(check: Check) -> str:
    """What a check found.

    >>> in_numbers(Check("a curve: progress", HOLDS, AT_LEAST, 0.9, 0.97, 0.05, 3))
    'a curve: progress 0.97 +- 0.05, at least 0.9, r=3'
    >>> in_numbers(Check("progress", "not computed", AT_LEAST, 0.9, missing=["a", "b", "c"]))
    'progress at least 0.9, no value, 3 runs missing'
    """
    words = [f"{check.what} {check.sense} {check.limit:.4g}", "no value"]
    if check.estimate is not None:
        found = f"{check.what} {check.estimate:.4g} +- {check.margin:.4g}"
        words = [found, f"{check.sense} {check.limit:.4g}", f"r={check.repeats}"]
    if check.missing:
        words.append(f"{len(check.missing)} run{'s' * (len(check.missing) > 1)} missing")
    return ", ".join(words) + (f"; {check.note}" if check.note else "")


def to_text(verdicts: Sequence[Verdict]) -> str:
    """Claims with their rules, checks and numbers, for a terminal."""
    lines = []
    for verdict in verdicts:
        claim = CLAIMS[verdict.claim]
        lines.append(f"{claim.id}  {verdict.verdict}  ({claim.where}) {claim.text}")
        lines.append(f"    rule: {claim.rule}")
        for check in verdict.checks:
            lines.append(f"    {check.verdict:15}  {in_numbers(check)}")
            if check.missing:
                lines.append(f"    {'':15}  missing: {first_few(check.missing)}")
    return "\n".join(lines) + "\n"


def to_json(verdicts: Sequence[Verdict], about: Optional[Mapping[str, Any]] = None) -> str:
    """Canonical JSON: equal verdicts have equal text.

    A check has the number of its missing runs, a claim their names; NaN and infinity are strings.
    """
    claims = []
    for verdict in verdicts:
        claim = CLAIMS[verdict.claim]
        words = {"id": claim.id, "text": claim.text, "where": claim.where, "rule": claim.rule}
        checks = [{**asdict(check), "missing": len(check.missing)} for check in verdict.checks]
        found = {"verdict": verdict.verdict, "checks": checks, "missing": verdict.missing}
        claims.append({**words, **found})
    text = json.dumps({"about": dict(about or {}), "claims": claims})
    plain = json.loads(text, parse_constant=str)
    return json.dumps(plain, sort_keys=True, indent=1, allow_nan=False) + "\n"


def from_json(text: str) -> Tuple[Dict[str, Any], List[Tuple[Dict[str, str], Verdict]]]:
    """What ``to_json`` wrote: about, and each claim's words (id, text, where, rule) and verdict.

    The words are those by which it was judged, also if the catalogue has changed since.
    """
    try:
        content = parse_json(text)
        found = []
        for claim in content["claims"]:
            checks = [_check(values) for values in claim["checks"]]
            words = {name: str(claim[name]) for name in ("id", "text", "where", "rule")}
            missing = [str(name) for name in claim["missing"]]
            found.append((words, Verdict(words["id"], str(claim["verdict"]), checks, missing)))
        return dict(content["about"]), found
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise RunError(f"not the verdicts of slsgd-mx claims: {error!r}") from error


def _check(values: Mapping[str, Any]) -> Check:
    """One check; NaN and infinity are strings in JSON, missing runs only counted."""
    numbers = {
        name: None if values[name] is None else float(values[name])
        for name in ("limit", "estimate", "margin")
    }
    if numbers["limit"] is None or (numbers["estimate"] is not None and numbers["margin"] is None):
        raise ValueError("a check without limit or margin")
    kinds = {name: bool(values.get(name)) for name in ("sure", "exact")}
    missing = ["?"] * min(int(values["missing"]), MOST_MISSING)
    return Check(**{**values, **numbers, **kinds, "missing": missing})


def decisive(verdict: Verdict) -> Optional[Check]:
    """The check that decides a verdict: of those that share it, the one with the least slack.

    Samples come before counts, which have no margin, and both before checks that could not fail.
    """

    def slack(check: Check) -> float:
        if check.estimate is None or check.margin is None:
            return -math.inf
        sign = 1 if check.sense == AT_LEAST else -1
        return sign * (check.estimate - check.limit) - check.margin

    same = [check for check in verdict.checks if check.verdict == verdict.verdict]
    return min(same or verdict.checks, key=lambda c: (c.sure, c.exact, slack(c)), default=None)


def tally(checks: Sequence[Check]) -> str:
    """How many hold, of those that could fail.

    >>> fine = Check("a", HOLDS, AT_LEAST, 0.9)
    >>> tally([fine, fine])
    '2 of 2 checks hold'
    >>> tally([fine, Check("b", HOLDS, AT_LEAST, 0.9, sure=True)])
    '1 of the 1 checks that could fail hold (1 could not)'
    """
    fallible = [check for check in checks if not check.sure]
    count, sure = sum(check.verdict == HOLDS for check in fallible), len(checks) - len(fallible)
    if sure:
        return f"{count} of the {len(fallible)} checks that could fail hold ({sure} could not)"
    return f"{count} of {len(checks)} checks hold"


def to_markdown(verdicts: Sequence[Verdict], alone: Optional[Sequence[Verdict]] = None) -> str:
    """A table: claim, where, verdict, and the numbers that decide it.

    With ``alone``, the verdicts on one seed, there is a column for them.
    """
    header = ["claim", "where", "verdict", *["first seed alone"] * bool(alone), "decisive numbers"]
    rows = [header, ["---"] * len(header)]
    by_claim = {verdict.claim: verdict.verdict for verdict in alone or ()}
    for verdict in verdicts:
        claim, check = CLAIMS[verdict.claim], decisive(verdict)
        words = [tally(verdict.checks)]
        if check is not None:
            words.append(in_numbers(check))
        one = [by_claim.get(verdict.claim, "")] * bool(alone)
        rows.append(
            [f"{claim.id} {claim.text}", claim.where, verdict.verdict, *one, "; ".join(words)]
        )
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "".join(f"| {line} |\n" for line in lines)
