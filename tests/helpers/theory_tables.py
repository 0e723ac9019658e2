"""Made-up tables of the theory's cases, in memory: typical ones, on which C10 to C12 hold."""

from functools import lru_cache
from pathlib import Path

import numpy as np

from slsgd_mx import claims
from slsgd_mx.claims import CLAIMS
from slsgd_mx.figures.variants import Variant
from slsgd_mx.theory import cases, summary
from slsgd_mx.theory.cases import Case
from slsgd_mx.theory.tables import Row, Table


def tiny(name="tiny", problem=None, **changes):
    size = {"n": 8, "k": 5, "epochs": 6, **changes}
    return Case(name, name, cases.run({"dimension": 3, **(problem or {})}, **size))


def table_of(case, seeds=2):
    """A measured table."""
    from slsgd_mx.theory.measure import measure

    return Table(case, {seed: measure(case, seed) for seed in range(seeds)})


def flat_table(case, errors):
    """Two seeds with these errors; V_2 is 9."""
    rows = [Row(0, t, e, e, 4.0, 9.0, 9.0, 1.0, 0.5) for t, e in enumerate(errors)]
    return Table(case, {0: rows, 1: [row._replace(seed=1) for row in rows]})


cases_of = lru_cache(maxsize=None)(cases.cases_of)


@lru_cache(maxsize=None)
def typical(case):
    """The error at each epoch with which C10 to C12 hold."""
    config, name = case.config, case.name
    first = summary.objective_of(config).error(summary.objective_of(config).x_0)
    left = summary.remaining(config)
    if name.startswith("thm1-rate"):
        return first * left
    if name.startswith("prop1"):
        last = 0.5 if config.b else 0.05 * config.attack_scale**2
        return np.where(np.arange(len(left)) == 0, first, last)
    floor = 0.05 * config.alpha * first
    if name.startswith("thm2") and "attack" not in name:
        floor = 0.01 * summary.weight_of(config) * first
    return np.concatenate([[first], first * left[1:] ** 3 + floor])


def rows_of(case, seed, change):
    """Rows as ``measure`` makes them; V_2 is 25 throughout, seeds differ by up to 2 %."""
    errors = typical(case)
    errors = change(case, np.concatenate([errors[:1], errors[1:] * (1 - 0.01 * (seed % 3))]), seed)
    return [
        Row(seed, t, float(e), float(e), 100.0, 25.0, 25.0, 3.0 * (t > 0), 0.5 * (t > 0))
        for t, e in enumerate(errors)
    ]


def make(part, change=lambda case, errors, seed: errors, seeds=4):
    """Rows of all cases of a part, typical except for what ``change`` does: {case: rows}."""
    return {
        case: {seed: rows_of(case, seed, change) for seed in range(seeds)}
        for case in cases_of(part)
    }


def judge(claim, tables, home="none"):
    """The verdict on a claim, given {case: rows}; other tables are read from ``home``/theory."""
    evidence = claims.Evidence(Path(home), Variant("smoke", {}), tables=dict(tables))
    return claims.decide(claim, CLAIMS[claim].judge(evidence))


def later(factor):
    """Multiply all but the first error."""
    return lambda errors: np.concatenate([errors[:1], factor * errors[1:]])


def only(start, do):
    """Change the cases whose name starts so."""
    return lambda case, errors, seed: do(errors) if case.name.startswith(start) else errors
