"""Summaries of tables: bounds, excess, limits, and the steps of the proofs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.theory_tables import flat_table, make, table_of, tiny

from slsgd_mx.theory import PARTS, cases, measure, summary
from slsgd_mx.theory.adversary import opposed_step, step_from_optimum
from slsgd_mx.theory.bounds import Constants, explicit_attacked_floor
from slsgd_mx.theory.proof import EMPTY, FAILS, FINDINGS, HOLDS, LOOSE, NOT_SHOWN
from slsgd_mx.theory.tables import Table


def test_the_explicit_bound_holds_on_real_runs_and_an_impossible_error_exceeds_it():
    table = table_of(tiny())
    assert summary.exceeds(table) == 0
    raised = flat_table(tiny(), [1.0, *[1e12] * 6])
    assert summary.exceeds(raised) == pytest.approx(6 / 7)


def test_an_error_that_is_not_finite_is_above_any_bound():
    for bad in (math.inf, math.nan):
        assert summary.exceeds(flat_table(tiny(), [1.0, *[bad] * 6])) == pytest.approx(6 / 7)
    rows = measure.measure(tiny(), 0)
    rows[3:] = [row._replace(error=math.inf, v2_pushed=math.inf) for row in rows[3:]]
    assert summary.exceeds(Table(tiny(), {0: rows})) >= 4 / 7  # though V_2 is infinite too


def test_with_its_own_V_2_no_run_is_above_the_bound_and_with_that_without_attack_one_is():
    """Proposition 1's divergence: this is why C11 takes V_1 and V_2 from another run."""
    plain = cases.negation_cases()["plain"][1e6]
    rows = measure.measure(plain, 0)
    pretended = replace(plain, config=replace(plain.config, b=2))  # as if b >= q
    diverged = Table(pretended, {0: rows})
    free = replace(plain, config=cases.unattacked_config(plain))
    assert summary.exceeds(diverged) == 0 and summary.cannot_exceed(diverged)
    assert summary.exceeds(diverged, table_of(free, 1)) == pytest.approx(10 / 11)
    fine = Table(pretended, {0: measure.measure(pretended, 0)})
    assert summary.exceeds(fine, table_of(free, 1)) == 0


def test_where_b_is_below_q_no_theorem_applies():
    report = summary.assumptions(table_of(tiny(q=2, b=1, attack="negation")))
    assert math.isnan(report.weight) and math.isnan(report.fitted) and math.isnan(report.explicit)
    attacked = summary.assumptions(table_of(tiny(q=1, b=1, attack="negation")))
    assert attacked.weight == pytest.approx(1 + 1 / 4 - 1 / 8 + 30 / 9)
    assert attacked.paper_sum == pytest.approx(attacked.V_1_seen + attacked.weight * attacked.V_2)
    free = summary.assumptions(table_of(tiny()))
    assert free.weight == pytest.approx(1 + 1 / 5 - 1 / 8)


def test_the_region_bounds_every_gradient_seen():
    for objective in ("quadratic", "least-squares", "logistic", "waves"):
        table = table_of(tiny(problem=dict(objective=objective, L=1.0)))
        c = summary.constants_of(table)
        assert table["gradient2"].max() <= c.V_1 and table["v2"].max() <= c.V_2
        report = summary.assumptions(table)
        assert report.gamma_is_legal and report.slope_at_optimum < 1e-9
        assert report.fitted <= report.explicit
        assert report.gradient_bounded_everywhere == (objective == "logistic")
    wild = tiny(problem=dict(objective="quadratic"), gamma=0.6)
    assert not summary.assumptions(table_of(wild)).gamma_is_legal


def test_log_excess_of_the_rate():
    case = tiny(local_steps=(2, 2))
    left = 8.0 * summary.remaining(case.config)
    assert summary.log_excess_of_rate(flat_table(case, left)) == pytest.approx([0, 0])
    raised = [*left[:-1], 10 * left[-1]]
    assert summary.log_excess_of_rate(flat_table(case, raised)) == pytest.approx([1, 1])
    fast = tiny(local_steps=(2, 2), gamma=0.8, epochs=40, problem=dict(L=1.0))
    left = 8.0 * summary.remaining(fast.config)
    assert left[-1] < 1e-16  # however small the rate has become, a larger error is above it
    slow = [8.0, *[1e-3] * 40]
    assert summary.log_excess_of_rate(flat_table(fast, slow))[0] > 13
    rounding = [8.0, *[1e-9] * 40]  # which float32 cannot distinguish from 0
    assert summary.log_excess_of_rate(flat_table(fast, rounding)) == [-math.inf] * 2


def test_epochs_to_a_share_and_slopes():
    table = flat_table(tiny(), [10.0, 5.0, 1.0, 2.0, 0.5, 0.5, 0.5])
    assert summary.epochs_to(table, 0.1) == [2.0, 2.0]
    assert summary.epochs_to(table, 0.01) == [7.0, 7.0]
    x = np.array([1.0, 10.0, 100.0])
    assert summary.slope(x, 3 * x**2) == pytest.approx(2)
    lines = [(c, flat_table(tiny(), [1.0] * 6 + [c**1.5])) for c in (1.0, 10.0, 100.0)]
    assert summary.negation_slopes(lines) == pytest.approx([1.5, 1.5])


def test_predicted_limits_are_where_runs_end():
    """alpha_t = 1/t^2 stops short of x_*; drift does not depend on alpha."""
    exact = tiny(problem=cases.EXACT, alpha_schedule="inverse-square", local_steps=(4, 4),
                 batch_size=4, epochs=150)  # fmt: skip
    table = table_of(exact, 1)
    assert table.mean[-1] == pytest.approx(summary.square_limit(table), rel=0.02)
    assert table.mean[-1] > 1e-3 * table.first
    still = {**cases.DRIFT, "noise": 0.0, "samples": 4}
    for alpha in (1.0, 0.4):
        drift = tiny(problem=still, n=5, local_steps=(8, 8), batch_size=4, alpha=alpha, epochs=60)
        end = table_of(drift, 1).mean[-1]
        assert end == pytest.approx(summary.drift_limit(drift.config), rel=0.01) and end > 1e-3


def test_the_opposed_step_breaks_the_inequality_for_one_device_and_not_for_their_mean():
    found = {n: opposed_step(n) for n in (4, 7, 8, 10, 100)}
    above = {n: step["left"] > step["printed"] for n, step in found.items()}
    assert above == {4: False, 7: False, 8: True, 10: True, 100: True}
    assert all(step["left"] <= step["mended"] for step in found.values())
    assert all(step["mean_left"] <= step["mean_half"] for step in found.values())


def test_theorem_2_as_printed_fails_and_with_the_pushes_in_V_2_it_does_not():
    """V_2 over h <= H-1 is 0, so the bound is O(V_1) without k, b or q; the error grows with b."""
    found = {b: step_from_optimum(b) for b in (1, 4, 16, 64)}
    errors = [round(step["error"], 1) for step in found.values()]
    assert errors == [1.0, 2.3, 5.9, 13.5]
    for b, step in found.items():
        assert step["error"] == pytest.approx(2 * (b + 1) ** 0.5 - 2.5, abs=0.8)
        assert step["deviation"] > 0 == step["V_2"] and step["V_1"] == 4
        mended = Constants(16 * b, 2 * b + 1, 1.0, 1, 1, 1.0, 0.0, step["V_1"], step["V_2_pushed"])
        assert step["error"] <= step["share"] * explicit_attacked_floor(mended, b, b)
        assert step["deviation"] <= (b + 1) * (2 * b + 1) * step["V_2_pushed"]


def test_findings_follow_the_numbers():
    """Verdicts are computed: other tables change them."""

    def verdicts(change):
        tables = {case: rows for part in PARTS for case, rows in make(part, change, 2).items()}
        found = [FINDINGS[part](lambda case: Table(case, tables[case])) for part in PARTS]
        return {finding.step: finding.verdict for part in found for finding in part}

    usual = verdicts(lambda case, errors, seed: errors)
    factors = {"thm1-square-exact": 1e-4, "thm1-horizon-50": 1e-3, "thm1-bias-0.2": 10.0}
    factors.update({"thm1-rate-strong": 2.0, "thm1-alpha-noise-0.2": 50.0, "thm2-attack-away": 1e9})

    def otherwise(case, errors, seed):
        if case.name.startswith("prop1-trimmed"):
            return [errors[0], *errors[1:] * case.config.attack_scale**2]
        return [errors[0], *errors[1:] * factors.get(case.name, 1.0)]

    other = verdicts(otherwise)
    turned = {
        "the rate, mu=1": (HOLDS, "holds by the floor only"),
        "alpha, error measured": (HOLDS, FAILS),
        "alpha, against drift": (HOLDS, NOT_SHOWN),
        "alpha_t = 1/t^2, error measured": (NOT_SHOWN, HOLDS),
        "alpha_T = 1/T^2": (EMPTY, HOLDS),
        "price of the attack": (HOLDS, FAILS),
        "negation, b=2, alpha=1": (HOLDS, FAILS),
    }
    assert {step: (usual[step], other[step]) for step in turned} == turned
    assert usual["beta at b=q=0"] == LOOSE
    assert usual["Theorem 2, V_2 over h <= H-1"] == FAILS
    assert usual["the line after the lemma, V_2 over h <= H-1"] == FAILS
