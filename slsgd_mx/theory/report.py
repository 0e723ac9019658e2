"""Reports: the assumptions of every problem, and the steps of the proofs; no MXNet."""

from __future__ import annotations

import math
from pathlib import Path
from typing import List, Tuple

from slsgd_mx.theory import cases
from slsgd_mx.theory.cases import Case
from slsgd_mx.theory.proof import FINDINGS, Finding
from slsgd_mx.theory.summary import Assumptions, assumptions
from slsgd_mx.theory.tables import finder, write_table

TITLES = {"thm1": "Theorem 1", "thm2": "Theorem 2", "prop1": "Proposition 1"}


def reported_cases(part: str) -> List[Case]:
    """The cases whose assumptions are reported: one for each problem of a part."""
    if part == "thm1":
        return [*cases.problem_cases().values(), *cases.rate_cases().values()]
    if part == "thm2":
        return [case for case in cases.attack_cases().values() if case.config.q]
    return [line[max(line)] for line in cases.negation_cases().values()]


def write_reports(
    part: str, folder: Path, out: Path, seeds: int
) -> Tuple[List[Assumptions], List[Finding]]:
    """Write assumptions-PART.csv and proof-PART.csv; return what is in them."""
    find = finder(folder, seeds, more=True)
    reports = [assumptions(find(case)) for case in reported_cases(part)]
    write_table(out / f"assumptions-{part}.csv", Assumptions._fields, reports)
    findings = FINDINGS[part](find)
    write_table(out / f"proof-{part}.csv", Finding._fields, findings)
    return reports, findings


def assumptions_text(part: str, reports: List[Assumptions]) -> str:
    """For a terminal: the constants of every problem, and which assumptions it meets."""
    lines = [f"{TITLES[part]}: the assumptions"]
    for r in reports:
        legal = f"gamma={r.gamma:g} {'<=' if r.gamma_is_legal else '>'} {r.gamma_limit:.3g}"
        everywhere = "everywhere" if r.gradient_bounded_everywhere else "on the region visited only"
        floor = (
            f"floor fitted {r.fitted:.3g} = {r.fitted_constant:.2g} (V_1 seen + {r.weight:.3g} "
            f"V_2), with the proof's constants, V_1 of the region and V_2 with the pushes "
            f"{r.explicit:.3g}"
        )
        lines += [
            f"  {r.objective}: L={r.L:.3g}, mu={r.mu_F:.3g} (of every sample: {r.mu:.3g}), {legal}",
            f"    F(x_0)-F(x_*)={r.first_error:.4g}, V_2={r.V_2:.4g} (with the pushes: "
            f"{r.V_2_pushed:.4g}), gradients bounded {everywhere}: V_1={r.V_1_region:.4g} (seen: "
            f"{r.V_1_seen:.4g})",
            f"    {'no bound: b < q' if math.isnan(r.weight) else floor}",
        ]
    return "\n".join(lines) + "\n"


def findings_text(part: str, findings: List[Finding]) -> str:
    """For a terminal: each step with its two numbers."""
    lines = [f"{TITLES[part]}: the proof"]
    for f in findings:
        lines.append(f"  {f.verdict:24}  {f.step}: printed: {f.printed}")
        lines.append(f"  {'':24}  {f.found}: {f.measured:.4g} (against {f.against:.4g})")
    return "\n".join(lines) + "\n"
