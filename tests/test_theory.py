"""slsgd-mx theory: runs of cases, their tables, pictures and findings, and the command."""

import csv
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from theorized import make

from slsgd_mx.algorithm import run_epoch
from slsgd_mx.cli import main
from slsgd_mx.errors import RunError
from slsgd_mx.server import ModelServer
from slsgd_mx.tasks.problem import ProblemTask
from slsgd_mx.theory import cases, measure, proof_thm1, summary
from slsgd_mx.theory.adversary import WatchingServer
from slsgd_mx.theory.bounds import sharp_lemma
from slsgd_mx.theory.cases import Case
from slsgd_mx.theory.compute import compute, missing_jobs
from slsgd_mx.theory.findings import FAILS, HOLDS
from slsgd_mx.theory.pictures import PICTURES, draw_part
from slsgd_mx.theory.proof import FINDINGS
from slsgd_mx.theory.report import assumptions_text, findings_text, write_reports
from slsgd_mx.theory.tables import Row, Table, read_rows, read_table, write_rows

PNG = b"\x89PNG\r\n\x1a\n"


def tiny(name="tiny", problem=None, omniscient=False, **changes):
    size = {"n": 8, "k": 5, "epochs": 6, **changes}
    return Case(name, name, cases.run({"dimension": 3, **(problem or {})}, **size), omniscient)


def table_of(case, seeds=2):
    return Table(case, {seed: measure.measure(case, seed) for seed in range(seeds)})


# ---- cases ---------------------------------------------------------------------------------------


def every_case():
    return [case for part in cases.PARTS for case in cases.cases_of(part)]


def test_cases_have_names_of_their_own_and_legal_learning_rates():
    found = every_case()
    assert len({case.name for case in found}) == len({case.file for case in found}) == len(found)
    for case in found:
        objective = summary.objective_of(case.config)
        assert case.config.gamma <= min(1 / objective.L, 2), case.name
        assert case.config.b >= case.config.q or case.name.startswith("prop1")
        assert not case.config.warm_up and case.config.seed == 0
        assert case.omniscient == (case.config.attack == "silent")


def test_the_issue_is_covered():
    kinds = {case.config.task.objective for case in cases.problem_cases().values()}
    assert kinds == {"quadratic", "least-squares", "logistic", "waves"}
    mus = {n: summary.objective_of(c.config).mu_F for n, c in cases.problem_cases().items()}
    assert mus["quadratic"] > 0 and mus["least-squares"] > 0 and mus["waves"] < 0 > mus["trap"]
    assert mus["flat"] == 0 == mus["logistic"]
    attacks = {case.config.attack for case in cases.attack_cases().values()}
    assert attacks == {None, "negation", "gaussian", "inf", "nan", "silent"}


# ---- one run -------------------------------------------------------------------------------------


def test_rows_are_those_of_the_plain_server():
    """The watching server changes nothing: the same model as without it, to the bit."""
    case = tiny(q=1, b=1, attack="negation", attack_scale=30.0)
    rows = measure.measure(case, 3)
    config = case.seeded(3)
    task, server = ProblemTask(config), ModelServer(config.k, config.b)
    measure.initialize(config, task, server)
    errors = [task.objective.error(server.values()["x"].astype(float))]
    for t in range(1, 7):
        run_epoch(t, config, task, server)
        errors.append(task.objective.error(server.values()["x"].astype(float)))
    assert [row.error for row in rows] == errors
    assert [row.epoch for row in rows] == list(range(7)) and {row.seed for row in rows} == {3}


def test_the_largest_squares_only_grow():
    rows = measure.measure(tiny(), 0)
    for name in ("gradient2", "v2", "v2_pushed"):
        values = [getattr(row, name) for row in rows]
        assert values == sorted(values) and values[-1] > 0
    assert all(row.v2_pushed >= row.v2 and row.v2_pushed >= row.distance2 for row in rows)


def test_deviation_and_variance_of_the_pushes():
    server = WatchingServer(4, 1, "keep", np.zeros(1))
    server.init("x", measure_nd([0.0]))
    server.poisoned = [3]
    for slot, value in enumerate([1.0, 2.0, 6.0, np.inf]):
        server.push("x", measure_nd([value]), slot)
    server.update(1.0)
    assert server.values()["x"].tolist() == [4.0]  # (2 + 6) / 2, and the honest mean is 3
    assert server.deviation == pytest.approx(1.0) and server.variance == pytest.approx(14 / 3)


def measure_nd(values):
    from slsgd_mx._mxnet import mx

    return mx.nd.array(values)


def test_refused_pushes_play_no_part():
    server = WatchingServer(4, 1, "reject", np.zeros(1))
    server.init("x", measure_nd([0.0]))
    server.poisoned = [3]
    for slot, value in enumerate([1.0, 2.0, 6.0, np.nan]):
        server.push("x", measure_nd([value]), slot)
    server.update(1.0)
    assert server.values()["x"].tolist() == [2.0] and server.deviation == pytest.approx(1.0)


def test_the_adversary_does_more_harm_than_the_attacks_there_are():
    floors = {}
    for attack in ("negation", "gaussian", "inf", "silent"):
        keep = dict(nonfinite="keep") if attack == "inf" else {}
        case = tiny(q=1, b=1, attack=attack, omniscient=attack == "silent", epochs=30, **keep)
        table = table_of(case)
        floors[attack] = table.floors.mean()
        assert (table["deviation"] <= sharp_lemma(5, 1, 1) * table["variance"] * 1.001).all()
    assert floors["silent"] == max(floors.values()) > 1.2 * floors["negation"]


def test_a_model_that_is_not_finite_has_an_infinite_error():
    objective = summary.objective_of(tiny().config)
    assert measure.evaluate(objective, np.array([np.nan, 0, 0])) == (np.inf, np.inf)


# ---- tables --------------------------------------------------------------------------------------


def test_tables_survive_the_disk(tmp_path):
    case = tiny()
    rows = {seed: measure.measure(case, seed) for seed in (2, 0)}
    write_rows(tmp_path, case, rows)
    again = read_rows(tmp_path, case)
    assert list(again) == [0, 2]
    for seed in rows:
        np.testing.assert_allclose(again[seed], rows[seed], rtol=1e-8)
    table = read_table(tmp_path, case)
    assert table.seeds == [0, 2] and table["error"].shape == (2, 7)
    assert read_table(tmp_path, case, seeds=1).seeds == [0]
    assert table.mean == pytest.approx(table["error"].mean(axis=0))
    assert table.floors == pytest.approx(table["error"][:, 4:].mean(axis=1))
    assert [path.name for path in tmp_path.iterdir()] == [case.file]


def test_runs_that_are_not_whole_do_not_count(tmp_path):
    case = tiny()
    rows = measure.measure(case, 0)
    write_rows(tmp_path, case, {0: rows, 1: [row._replace(seed=1) for row in rows[:-1]]})
    assert list(read_rows(tmp_path, case)) == [0]
    with pytest.raises(RunError, match="is missing: run slsgd-mx theory"):
        read_table(tmp_path, tiny("other"))
    (tmp_path / case.file).write_text("a,b\n1,2\n")
    with pytest.raises(RunError, match="is damaged .* remove it and run slsgd-mx theory"):
        read_rows(tmp_path, case)


def test_computing_goes_on_where_it_stopped_and_repeats_to_the_byte(tmp_path):
    both = [tiny(), tiny("attacked", q=1, b=1, attack="silent", omniscient=True)]
    compute(tmp_path / "whole", missing_jobs(tmp_path / "whole", both, 3), 1)
    compute(tmp_path / "parts", missing_jobs(tmp_path / "parts", both[:1], 1), 1)
    left = missing_jobs(tmp_path / "parts", both, 3)
    assert sorted((job.case.name, job.seeds) for job in left) == [
        ("attacked", (0, 1, 2)),
        ("tiny", (1, 2)),
    ]
    heard = []
    compute(tmp_path / "parts", left, 1, heard.append)
    assert sum(heard) == 5 * 6 and missing_jobs(tmp_path / "parts", both, 3) == []
    for case in both:
        parts = (tmp_path / "parts" / case.file).read_bytes()
        assert parts == (tmp_path / "whole" / case.file).read_bytes()
    first = read_rows(tmp_path / "whole", both[0])
    assert first[0] != [row._replace(seed=0) for row in first[1]]


def test_a_case_may_need_more_seeds(tmp_path):
    often = replace(tiny(), times=3)
    assert often.file == tiny().file
    assert [job.seeds for job in missing_jobs(tmp_path, [often], 2)] == [(0, 1, 2, 3), (4, 5)]
    found = {case.name for case in every_case() if case.times > 1}
    names = {f"thm2-{p}-k10-b{b}-q1" for p in ("symmetric", "skewed") for b in (1, 4)}
    assert found == names


def test_several_processes_give_the_same_bytes(tmp_path):
    jobs = missing_jobs(tmp_path, [tiny(), tiny("longer", epochs=8)], 1)
    compute(tmp_path / "one", jobs, 1)
    compute(tmp_path / "two", jobs, 2)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    assert len(list((tmp_path / "two").iterdir())) == 2


# ---- what tables say -----------------------------------------------------------------------------


def flat_table(case, errors):
    rows = [Row(0, t, e, e, 4.0, 9.0, 9.0, 1.0, 0.5) for t, e in enumerate(errors)]
    return Table(case, {0: rows, 1: [row._replace(seed=1) for row in rows]})


def test_the_explicit_bound_holds_on_real_runs_and_an_impossible_error_exceeds_it():
    table = table_of(tiny())
    assert summary.exceeds(table) == 0
    raised = flat_table(tiny(), [1.0, *[1e12] * 6])
    assert summary.exceeds(raised) == pytest.approx(6 / 7)


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


def test_counterexamples_of_the_proof():
    found = {n: proof_thm1.opposed_step(n) for n in (4, 10, 100)}
    assert found[10]["left"] > found[10]["printed"] and found[100]["left"] > found[100]["printed"]
    assert found[4]["left"] < found[4]["printed"]  # it takes eight devices
    assert all(step["left"] <= step["mended"] for step in found.values())
    pushes = proof_thm1.pushes_from_optimum()
    assert pushes["left"] > pushes["printed"] == 0


# ---- pictures and reports ------------------------------------------------------------------------


@pytest.mark.parametrize("part", cases.PARTS)
def test_pictures_and_reports_of_made_up_tables(tmp_path, part):
    make(tmp_path, part, seeds=2)
    first, second = tmp_path / "first", tmp_path / "second"
    made = draw_part(part, tmp_path / "theory", first)
    assert [path.stem for path in made] == list(PICTURES[part])
    listed, findings = write_reports(part, tmp_path / "theory", first, 2)
    said = assumptions_text(part, listed)
    assert said.count("floor fitted") == len(listed) and "gamma=0.1 <= 0.25" in said
    for path in made:
        assert path.read_bytes().startswith(PNG) and path.with_suffix(".svg").exists()
        with open(path.with_suffix(".csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        assert rows and all(float(r["low"]) <= float(r["mean"]) * (1 + 1e-8) for r in rows)
    with open(first / f"assumptions-{part}.csv", newline="") as file:
        reports = list(csv.DictReader(file))
    assert reports and {"L", "mu", "gamma_is_legal", "V_1_region", "V_2"} <= set(reports[0])
    assert {report["gamma_is_legal"] for report in reports} == {"True"}
    said = findings_text(part, findings)
    assert said.count("(against ") == len(findings) >= 5
    if part == "prop1":  # drawing is slow, and what repeats here repeats everywhere
        draw_part(part, tmp_path / "theory", second)
    write_reports(part, tmp_path / "theory", second, 2)
    for path in first.iterdir() if part == "prop1" else first.glob("*-thm?.csv"):
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name


def test_findings_follow_the_numbers(tmp_path):
    """A verdict is computed: tables that behave otherwise turn it."""

    def verdicts(change):
        home = tmp_path / str(len(list(tmp_path.iterdir())))
        for part in ("thm1", "thm2", "prop1"):
            make(home, part, change, seeds=2)
        found = []
        for part in ("thm1", "thm2", "prop1"):
            found += FINDINGS[part](lambda case: read_table(home / "theory", case))
        return {finding.step: finding.verdict for finding in found}

    usual = verdicts(lambda case, errors, seed: errors)

    def otherwise(case, errors, seed):
        factors = {"thm1-rate-strong": 2.0, "thm1-alpha-noise-0.2": 50.0, "thm1-bias-0.2": 0.1}
        if case.name.startswith("prop1-trimmed"):
            return [errors[0], *errors[1:] * case.config.attack_scale**2]
        return [errors[0], *errors[1:] * factors.get(case.name, 1.0)]

    other = verdicts(otherwise)
    assert usual["the rate, mu=1"] == HOLDS and other["the rate, mu=1"] == "holds by the floor only"
    step = "alpha, error measured"
    assert (usual[step], other[step]) == (HOLDS, FAILS)
    step = "negation, b=2, alpha=1"
    assert (usual[step], other[step]) == (HOLDS, FAILS)


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield tmp_path
    for number, handler in before.items():
        signal.signal(number, handler)


def call(*line):
    result = CliRunner().invoke(main, [*line])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_command_from_nothing_to_the_verdict(elsewhere):
    result = call("theory", "prop1", "--quick", "--jobs", "1")
    assert result.exit_code == 0, result.output
    assert "picture: figures/theory/prop1.png  (numbers: prop1.csv)" in result.output
    assert "negation, b=0, alpha=1: printed: the error follows c" in result.output
    assert "verdicts on C10 to C12: slsgd-mx claims\n" in result.output
    assert {path.name for path in Path("figures/theory").iterdir()} == {
        *("prop1.png", "prop1.svg", "prop1.csv", "assumptions-prop1.csv", "proof-prop1.csv")
    }
    said = call("claims", "--preset", "smoke").output
    assert "holds            b=0, alpha=1: slope of log error over log c 1.9" in said
    assert "what to do now: slsgd-mx theory computes what C10, C11 lack" in said
    again = call("theory", "prop1", "--quick")
    assert "nothing to compute: 2 seeds of 18 cases in runs/theory" in again.output


@pytest.mark.parametrize(
    "line, said",
    [
        (["thm3"], "'thm3' is not one of 'thm1', 'thm2', 'prop1', 'all'"),
        (["prop1", "--seeds", "0"], "0 is not in the range 1<=x<=1000"),
        (["prop1", "--jobs", "0"], "0 is not in the range x>=1"),
    ],
)
def test_wrong_calls_exit_with_2_and_leave_nothing(elsewhere, line, said):
    result = call("theory", *line)
    assert result.exit_code == 2 and said in result.output
    assert list(elsewhere.iterdir()) == []


def test_help_teaches():
    said = call("theory", "--help").output
    for word in ("Theorem", "thm1", "thm2", "prop1", "V_1", "RUNS/theory", "claims", "--quick"):
        assert word in said


def test_ctrl_c_keeps_what_is_done(tmp_path):
    home = str(Path(__file__).resolve().parent.parent)
    environment = {**os.environ, "PYTHONPATH": home, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "slsgd_mx", "theory", "prop1", "--seeds", "200", "--jobs", "2"],
        cwd=tmp_path, env=environment, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    folder, end = tmp_path / "runs" / "theory", time.monotonic() + 60
    while not (folder.is_dir() and any(folder.glob("*.csv"))) and time.monotonic() < end:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130 and b"resumes where it stopped" in said
    assert b"Traceback" not in said
    kept = [case for case in cases.cases_of("prop1") if read_rows(folder, case)]
    assert kept and not list(folder.glob("*.tmp"))
    assert not (tmp_path / "figures").exists()


def test_replaced_settings_are_other_files():
    case = tiny()
    other = replace(case, config=replace(case.config, gamma=0.05))
    assert case.file != other.file and case.file != replace(case, omniscient=True).file
