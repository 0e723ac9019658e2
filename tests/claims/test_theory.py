"""C10 to C12 on made-up tables: each holds, fails and stays open as the numbers say."""

import numpy as np
import pytest
from helpers.claims_runs import find
from helpers.theory_tables import cases_of, judge, later, make, only

from slsgd_mx.claims import ABSENT, FAILS, HOLDS, OPEN, THEORY, judge_theory
from slsgd_mx.claims.report import to_markdown
from slsgd_mx.theory import PARTS, summary
from slsgd_mx.theory.cases import attack_cases, rate_cases
from slsgd_mx.theory.tables import Table, write_rows

PART = {"C10": "thm1", "C11": "thm2", "C12": "prop1"}


@pytest.mark.parametrize("claim", THEORY)
def test_every_claim_holds_on_typical_tables(claim):
    found = judge(claim, make(PART[claim]))
    assert {check.verdict for check in found.checks} == {HOLDS}, found
    assert found.verdict == HOLDS and found.missing == []
    assert {check.repeats for check in found.checks} == {4}


@pytest.mark.parametrize("claim", THEORY)
def test_without_tables_it_is_not_computed_and_names_what_is_missing(claim):
    found = judge(claim, {})
    assert found.verdict == ABSENT and all(check.estimate is None for check in found.checks)
    names = {case.name for case in cases_of(PART[claim])}
    assert found.missing and set(found.missing) <= names


@pytest.mark.parametrize("claim", THEORY)
def test_one_seed_decides_nothing_but_counts(claim):
    found = judge(claim, make(PART[claim], seeds=1))
    assert found.verdict == OPEN
    for check in found.checks:
        assert check.verdict == (HOLDS if "share" in check.what else OPEN)
        assert "share" in check.what or check.note == "1 values, and 2 are needed"


@pytest.mark.parametrize(
    "claim, start, do, what",
    [
        ("C10", "thm1-logistic", later(1e9), "Logistic"),
        ("C10", "thm1-trap", later(1e9), "Waves with local minima"),
        ("C10", "thm1-rate-weak", later(1.2), "no floor, mu=0.01"),
        ("C10", "thm1-rate-strong", later(1.2), "no floor, mu=1"),
        ("C10", "thm1-alpha-noise-1", later(0.1), "Noise only: alpha=0.2 by alpha=1, log10 of the"),
        ("C10", "thm1-alpha-drift-1", lambda e: np.full_like(e, e[0]), "Heterogeneous devices: "
         "alpha=0.2 by alpha=1, log10 of epochs"),
        ("C11", "thm2-attack-nan", later(1e9), "NaN"),
        ("C11", "thm2-attack-away-waves", later(1e9), "Waves"),
        ("C11", "thm2-attack-gaussian-1e6", later(2), "gaussian, c=1e6 by"),
        ("C11", "thm2-symmetric-k10-b4-q4", later(0.1), "symmetric, q=4"),
        ("C11", "thm2-attack-flip", later(1e9), "label flip"),
        ("C11", "thm2-skewed-k14", later(1e9), "skewed, every q, b and k"),
        ("C11", "thm2-skewed-k10-b1-q1", later(10), "skewed, b=4"),
        ("C11", "thm2-skewed-k5-", later(1e-3), "skewed, k=20"),
        ("C12", "prop1-plain", lambda e: np.full_like(e, 3.0), "b=0, alpha=1"),
    ],
)  # fmt: skip
def test_one_case_that_contradicts_the_claim_decides_it(claim, start, do, what):
    found = judge(claim, make(PART[claim], only(start, do)))
    assert found.verdict == FAILS
    failed = [check.what for check in found.checks if check.verdict == FAILS]
    assert len(failed) == 1 and failed[0].startswith(what)


def test_checks_that_could_not_fail_are_counted_separately():
    """V_2 of the same run bounds its error; V_2 of the run without attack does not."""
    rate, trimming = judge("C10", make("thm1")), judge("C11", make("thm2"))
    assert [check.sure for check in rate.checks] == [True] * 6 + [False] * 7
    notes = {check.note for check in rate.checks[:6]}
    assert notes == {"could not fail: L/2 V_2 is below the bound"}
    assert not any(check.sure for check in trimming.checks)
    said = to_markdown([rate, trimming])
    assert "7 of the 7 checks that could fail hold (6 could not); " in said
    assert "21 of 21 checks hold; " in said


def test_C11_takes_V_2_from_the_run_without_attack():
    """An error that is within the bound made of its own V_2, like Proposition 1's divergence."""
    tables, case = make("thm2"), attack_cases()["negation-1e6"]
    rows = tables[case]
    for seed in rows:
        rows[seed][1:] = [r._replace(error=1e11, v2=1e12, v2_pushed=1e12) for r in rows[seed][1:]]
    assert summary.exceeds(Table(case, rows)) == 0
    found = find(judge("C11", tables), "negation, c=1e6: share")
    assert found.verdict == FAILS and found.estimate == pytest.approx(40 / 41)


@pytest.mark.parametrize(
    "claim, start, what, verdict",
    [
        ("C10", "thm1-quadratic", "Quadratic", FAILS),
        ("C10", "thm1-rate-strong", "no floor, mu=1", FAILS),
        ("C10", "thm1-alpha-noise-0.2", "Noise only: alpha=0.2 by alpha=1, log10 of the", FAILS),
        ("C10", "thm1-alpha-noise-1", "Noise only: alpha=0.2 by alpha=1, log10 of the", OPEN),
        ("C11", "thm2-attack-nan", "NaN", FAILS),
        ("C11", "thm2-attack-gaussian-1e6", "gaussian, c=1e6 by", FAILS),
        ("C11", "thm2-skewed-k10-b4-q1", "skewed, b=4", OPEN),
        ("C11", "thm2-skewed-k20", "skewed, k=20", FAILS),
        ("C12", "prop1-trimmed-1e06", "b=2, alpha=1", FAILS),
        ("C12", "prop1-plain-1e06", "b=0, alpha=1", OPEN),
    ],
)
def test_one_seed_that_is_not_finite_is_never_left_out(claim, start, what, verdict):
    def diverge(case, errors, seed):
        return later(np.inf)(errors) if case.name.startswith(start) and seed == 2 else errors

    check = find(judge(claim, make(PART[claim], diverge)), what)
    assert check.verdict == verdict
    assert check.note in ("", "1 of 4 values are not finite")
    assert ("share" in check.what) == (check.note == "")


def test_trimming_that_does_not_stop_c_fails():
    def through(case, errors, seed):
        follows = case.name.startswith("prop1-trimmed")
        return later(case.config.attack_scale**0.5)(errors) if follows else errors

    assert find(judge("C12", make("prop1", through)), "b=2, alpha=1").verdict == FAILS


def test_seeds_that_disagree_leave_it_open():
    def wild(case, errors, seed):
        return later((0.2, 5)[seed % 2])(errors) if case.name.endswith("b4-q1") else errors

    check = find(judge("C11", make("thm2", wild)), "symmetric, b=4")
    assert check.verdict == OPEN and check.margin > abs(check.estimate)


def test_only_the_seeds_that_were_asked_for_are_judged(tmp_path):
    for part in PARTS:
        for case, rows in make(part, seeds=12).items():
            write_rows(tmp_path / "theory", case, rows)
    found = {v.claim: v for v in judge_theory(tmp_path, seeds=2)}
    assert {check.repeats for check in found["C12"].checks} == {2}
    by_b = [check for check in found["C11"].checks if ", b=4 by b=1" in check.what]
    assert [check.repeats for check in by_b] == [8, 8]  # these cases have four times as many
    assert {check.repeats for check in found["C11"].checks} == {2, 8}


def test_only_seeds_that_all_tables_have_are_compared():
    tables = make("thm2")
    del tables[attack_cases()["negation-1e6"]][0]
    found = judge("C11", tables)
    assert find(found, "negation, c=1e6 by").repeats == 3
    assert find(found, "gaussian, c=1e6 by").repeats == 4


@pytest.mark.parametrize("damaged", [True, False])
def test_tables_are_read_and_a_damaged_one_counts_as_missing(tmp_path, damaged):
    tables, case = make("thm1"), rate_cases()["weak"]
    write_rows(tmp_path / "theory", case, tables.pop(case))
    if damaged:
        (tmp_path / "theory" / case.file).write_text("seed,epoch\nzero,one\n")
    found = judge("C10", tables, tmp_path)
    assert found.verdict == (OPEN if damaged else HOLDS)
    assert found.missing == ([case.name] if damaged else [])
