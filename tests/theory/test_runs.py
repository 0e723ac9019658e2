"""The cases of the theory, one run of a case, and the tables that keep runs."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.theory_tables import table_of, tiny

from slsgd_mx.core.algorithm import run_epoch
from slsgd_mx.core.model_server import ModelServer
from slsgd_mx.errors import RunError
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.problems.task import ProblemTask
from slsgd_mx.theory import PARTS, cases, measure, summary
from slsgd_mx.theory.bounds import sharp_lemma
from slsgd_mx.theory.compute import compute, missing_jobs
from slsgd_mx.theory.measure import WatchingServer
from slsgd_mx.theory.tables import finder, read_rows, read_table, write_rows


def every_case():
    return [case for part in PARTS for case in cases.cases_of(part)]


def test_cases_have_unique_names_and_legal_learning_rates():
    found = every_case()
    assert len({case.name for case in found}) == len({case.file for case in found}) == len(found)
    for case in found:
        objective = summary.objective_of(case.config)
        assert case.config.gamma <= min(1 / objective.L, 2), case.name
        assert case.config.b >= case.config.q or case.name.startswith("prop1")
        assert not case.config.warm_up and case.config.seed == 0


def test_cases_cover_all_objectives_and_attacks():
    kinds = {case.config.sizes.objective for case in cases.problem_cases().values()}
    assert kinds == {"quadratic", "least-squares", "logistic", "waves"}
    mus = {n: summary.objective_of(c.config).mu_F for n, c in cases.problem_cases().items()}
    assert mus["quadratic"] > 0 and mus["least-squares"] > 0 and mus["waves"] < 0 > mus["trap"]
    assert mus["flat"] == 0 == mus["logistic"]
    attacks = {case.config.attack for case in cases.attack_cases().values()}
    assert attacks == {None, "negation", "gaussian", "inf", "nan", "worst-case", "label-flip"}


def test_every_attacked_case_has_its_problem_without_attack():
    for case in cases.cases_of("thm2"):
        free = cases.unattacked(case)
        assert free.config.q == free.config.b == 0 and free.config.attack is None
        same = ("sizes", "n", "k", "gamma", "alpha", "local_steps", "epochs", "batch_size")
        assert all(getattr(free.config, name) == getattr(case.config, name) for name in same)
        assert cases.unattacked(free) == free


def test_another_configuration_has_another_file():
    case = tiny()
    other = replace(case, config=replace(case.config, gamma=0.05))
    assert case.file != other.file


def test_the_watching_server_computes_the_same_model():
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


@pytest.mark.parametrize(
    "nonfinite, bad, model",
    [("keep", np.inf, 4.0), ("reject", np.nan, 2.0)],  # (2 + 6) / 2, or 2 without the bad push
)
def test_deviation_and_variance_of_the_pushes(nonfinite, bad, model):
    server = WatchingServer(4, 1, nonfinite=nonfinite)
    server.init("x", mx.nd.array([0.0]))
    for slot, value in enumerate([1.0, 2.0, 6.0, bad]):
        server.push("x", mx.nd.array([value]), slot)
    server.update(1.0, [3])
    assert server.values()["x"].tolist() == [model]  # the honest mean is 3
    assert server.deviation == pytest.approx(1.0) and server.variance == pytest.approx(14 / 3)


def test_the_adversary_does_more_harm_than_other_attacks():
    floors = {}
    for attack in ("negation", "gaussian", "inf", "worst-case"):
        keep = dict(nonfinite="keep") if attack == "inf" else {}
        case = tiny(q=1, b=1, attack=attack, epochs=30, **keep)
        table = table_of(case)
        floors[attack] = table.floors.mean()
        assert (table["deviation"] <= sharp_lemma(5, 1, 1) * table["variance"] * 1.001).all()
    assert floors["worst-case"] == max(floors.values()) > 1.2 * floors["negation"]


def test_V_1_and_V_2_leave_out_poisoned_workers():
    """A worker that flips labels starts from a random model: that is no honest iterate."""
    task = ProblemTask(tiny(problem=dict(objective="logistic", L=1.0)).config)
    task.start_fresh(0)
    task.train(0, 3, 0.1, seed=0, poison=lambda labels: 1 - labels)
    assert (task.visited.gradient, task.visited.before, task.visited.pushed) == (0, 0, 0)
    task.train(0, 3, 0.1, seed=0)
    assert min(task.visited.gradient, task.visited.before, task.visited.pushed) > 0


def test_a_model_that_is_not_finite_has_an_infinite_error():
    objective = summary.objective_of(tiny().config)
    assert measure.evaluate(objective, np.array([np.nan, 0, 0])) == (np.inf, np.inf)


def test_tables_are_written_and_read_back(tmp_path):
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


def test_incomplete_runs_and_damaged_tables(tmp_path):
    case = tiny()
    rows = measure.measure(case, 0)
    write_rows(tmp_path, case, {0: rows, 1: [row._replace(seed=1) for row in rows[:-1]]})
    assert list(read_rows(tmp_path, case)) == [0]
    with pytest.raises(RunError, match="is missing: run slsgd-mx theory"):
        read_table(tmp_path, tiny("other"))
    (tmp_path / case.file).write_text("a,b\n1,2\n")
    with pytest.raises(RunError, match="is damaged .* remove it and run slsgd-mx theory"):
        read_rows(tmp_path, case)


def test_computing_resumes_and_repeats_to_the_byte(tmp_path):
    both = [tiny(), tiny("attacked", q=1, b=1, attack="worst-case")]
    compute(tmp_path / "whole", missing_jobs(tmp_path / "whole", both, 3), 1)
    compute(tmp_path / "parts", missing_jobs(tmp_path / "parts", both[:1], 1), 1)
    left = missing_jobs(tmp_path / "parts", both, 3)
    assert {(j.case.name, j.seeds) for j in left} == {("attacked", (0, 1, 2)), ("tiny", (1, 2))}
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
    write_rows(tmp_path, often, {seed: measure.measure(often, seed) for seed in range(7)})
    assert finder(tmp_path, 2)(often).seeds == [0, 1]
    assert finder(tmp_path, 2, more=True)(often).seeds == [0, 1, 2, 3, 4, 5]
    assert finder(tmp_path)(often).seeds == list(range(7))
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
