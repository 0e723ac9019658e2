"""Tables for people: the assumptions of every problem, and the steps of the proofs; no MXNet."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Dict, List

from . import cases
from .cases import Case
from .findings import Finding
from .proof import FINDINGS
from .summary import Assumptions, assumptions
from .tables import Table, read_table, write_csv

TITLES = {"thm1": "Theorem 1", "thm2": "Theorem 2", "prop1": "Proposition 1"}


def reported_cases(part: str) -> List[Case]:
    """The cases whose assumptions are reported: one for each problem of a part."""
    if part == "thm1":
        return [*cases.problem_cases().values(), *cases.rate_cases().values()]
    if part == "thm2":
        return [case for case in cases.attack_cases().values() if case.config.q]
    return [line[max(line)] for line in cases.negation_cases().values()]


def write_reports(part: str, folder: Path, out: Path, seeds: int) -> List[Finding]:
    """Write assumptions-PART.csv and proof-PART.csv; return the findings."""
    seen: Dict[str, Table] = {}

    def find(case: Case) -> Table:
        if case.name not in seen:
            seen[case.name] = read_table(folder, case, seeds)
        return seen[case.name]

    reports = [asdict(assumptions(find(case))) for case in reported_cases(part)]
    columns = list(Assumptions.__dataclass_fields__)
    write_csv(out / f"assumptions-{part}.csv", columns, (list(r.values()) for r in reports))
    findings = FINDINGS[part](find)
    write_csv(out / f"proof-{part}.csv", Finding._fields, findings)
    return findings


def findings_text(part: str, findings: List[Finding]) -> str:
    """For a terminal: each step with its two numbers."""
    lines = [TITLES[part]]
    for f in findings:
        lines.append(f"  {f.verdict:24}  {f.step}: printed: {f.printed}")
        lines.append(f"  {'':24}  {f.found}: {f.measured:.4g} (against {f.against:.4g})")
    return "\n".join(lines) + "\n"
