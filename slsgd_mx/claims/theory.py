"""The checks of C10 to C12, on the tables that ``slsgd-mx theory`` keeps in RUNS/theory."""

from __future__ import annotations

from functools import partial
from typing import List, Sequence

import numpy as np

from slsgd_mx.claims.checks import AT_LEAST, AT_MOST, Check, Limit
from slsgd_mx.claims.evidence import Evidence, compare_tables
from slsgd_mx.theory import cases, summary
from slsgd_mx.theory.tables import Table

NEVER = Limit(AT_MOST, 0.0, 0.0, exact=True)
ABOVE = "share of epochs above the bound"


def judge_rate(evidence: Evidence) -> List[Check]:
    """C10."""
    compare = partial(compare_tables, evidence)
    checks = [
        compare(f"{case.title}: {ABOVE}", NEVER, [case], above, summary.cannot_exceed)
        for case in cases.problem_cases().values()
    ]
    limit = Limit(AT_MOST, 0.01, 0.0, least=2)
    for case in cases.rate_cases().values():
        what = f"no floor, {case.title}: log10 of error by rate^t F(x_0) - F(x_*), at its largest"
        checks.append(compare(what, limit, [case], summary.log_excess_of_rate))
    small, large = min(cases.ALPHAS), max(cases.ALPHAS)
    for world, by_alpha in cases.alpha_cases().items():
        pair = [by_alpha[small], by_alpha[large]]
        name = f"{cases.WORLDS[world][1]}: alpha={small:g} by alpha={large:g}"
        less, more = Limit(AT_MOST, 0.0, 0.0, least=2), Limit(AT_LEAST, 0.0, 0.0, least=2)
        checks.append(compare(f"{name}, log10 of the floor", less, pair, log_floors))
        checks.append(compare(f"{name}, log10 of epochs", more, pair, log_epochs))
    return checks


def judge_trimming(evidence: Evidence) -> List[Check]:
    """C11."""
    attacks, compare = cases.attack_cases(), partial(compare_tables, evidence)
    checks = [
        compare(f"{case.title}: {ABOVE}", NEVER, [case, cases.unattacked(case)], above)
        for case in attacks.values()
        if case.config.q
    ]
    for population in cases.POPULATIONS:
        swept = [c for line in cases.sweep_cases(population).values() for c in line.values()]
        pairs = [each for case in swept for each in (case, cases.unattacked(case))]
        what = f"{population}, every q, b and k: largest {ABOVE}"
        checks.append(compare(what, NEVER, pairs, above))
    for name in ("negation", "gaussian"):
        pair = [attacks[f"{name}-1e6"], attacks[f"{name}-1e2"]]
        limit = Limit(AT_MOST, 0.1, 0.0, least=2)
        what = f"{name}, c=1e6 by c=1e2: log10 of the floor"
        checks.append(compare(what, limit, pair, log_floors))
    for population in cases.POPULATIONS:
        for symbol, sweep in cases.sweep_cases(population).items():
            low, high = min(sweep), max(sweep)
            limit = Limit(AT_MOST if symbol == "k" else AT_LEAST, 0.0, 0.0, least=2)
            what = f"{population}, {symbol}={high} by {symbol}={low}: log10 of the floor"
            checks.append(compare(what, limit, [sweep[high], sweep[low]], log_floors))
    return checks


def judge_negation(evidence: Evidence) -> List[Check]:
    """C12."""
    limits = {
        "plain": Limit(AT_LEAST, 1.0, 0.0, least=2),
        "trimmed": Limit(AT_MOST, 0.05, 0.0, least=2),
    }
    checks = []
    for name, limit in limits.items():
        line = cases.negation_cases()[name]

        def slopes(*tables: Table, scales: Sequence[float] = tuple(line)) -> List[float]:
            return summary.negation_slopes(list(zip(scales, tables)))

        what = f"{cases.DEFENCES[name][0]}: slope of log error over log c"
        checks.append(compare_tables(evidence, what, limit, list(line.values()), slopes))
    return checks


def above(*tables: Table) -> List[float]:
    """The largest share of epochs above the bound.

    Tables come in pairs: the one judged, then the one V_1 and V_2 are taken from.  A single table
    is its own pair.
    """
    pairs = list(zip(tables[::2], tables[1::2])) or [(tables[0], tables[0])]
    return [max(summary.exceeds(table, seen) for table, seen in pairs)]


def log_floors(table: Table, other: Table) -> List[float]:
    """Per seed, log10 of one floor by the other."""
    return _log_ratios(table.floors, other.floors)


def log_epochs(table: Table, other: Table) -> List[float]:
    """Per seed, log10 of the epochs to a tenth of the first error, by the other's."""
    return _log_ratios(summary.epochs_to(table, 0.1), summary.epochs_to(other, 0.1))


def _log_ratios(values: Sequence[float], others: Sequence[float]) -> List[float]:
    with np.errstate(all="ignore"):  # infinity is a value here
        return (np.log10(values) - np.log10(others)).tolist()
