"""Claims judged on the tables behind figures, where the run folders are missing."""

import csv
import shutil

import pytest
from helpers.claims_runs import ONE, make, only

from slsgd_mx.claims import Evidence, judge_all
from slsgd_mx.errors import RunError
from slsgd_mx.figures import build
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.tables import read_tables
from slsgd_mx.figures.variants import runs_of
from slsgd_mx.system.files import to_csv

FIGURES_3_4 = ("fig3", "fig4")


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Runs of Figures 3 and 4, one of them diverged, and the tables behind the figures."""
    monkeypatch.setattr(build, "draw", lambda *words: None)  # pictures are not needed
    change = only(dict(q=4, b=0), state="diverged", until=6, train_loss=lambda t: float("nan"))
    make(tmp_path / "runs", "C3", change=change)
    for name in FIGURES_3_4:
        build.draw_figure(name, ONE, tmp_path / "runs", tmp_path / "figures")
    return tmp_path


def read(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def verdicts(home, figures=None):
    return {v.claim: v for v in judge_all(home, ONE, figures) if v.claim in ("C3", "C4", "C5")}


def test_every_row_names_its_run_and_the_digest_of_its_model(drawn):
    configs = {run.identity: run for run in runs_of(FIGURES["fig3"], ONE)}
    proven = next(run for run in configs.values() if (run.q, run.b) == (2, 2))
    folder = drawn / "runs" / proven.slug
    (folder / "model.left-out").touch()
    with open(folder / "DONE", "a") as file:
        file.write("model 0123456789abcdef\n")
    build.draw_figure("fig3", ONE, drawn / "runs", drawn / "figures")
    rows = read(drawn / "figures" / "fig03.csv")
    assert {row["run"] for row in rows} == set(configs) and len(configs) == 9
    for row in rows:
        config = configs[row["run"]]
        assert (row["b"], row["q"], row["seed"]) == tuple(map(str, (config.b, config.q, 0)))
        assert row["digest"] == ("0123456789abcdef" if config == proven else "")


def test_tables_give_the_verdicts_of_the_runs(drawn):
    from_runs = verdicts(drawn / "runs")
    assert {verdict.verdict for verdict in from_runs.values()} == {"holds"}
    shutil.rmtree(drawn / "runs")
    assert verdicts(drawn / "runs", drawn / "figures") == from_runs
    assert {verdict.verdict for verdict in verdicts(drawn / "runs").values()} == {"not computed"}


def test_run_folders_come_before_tables(drawn):
    runs = [run for run in runs_of(FIGURES["fig3"], ONE) if (run.q, run.b) == (2, 2)]
    evidence = Evidence(drawn / "runs", ONE, drawn / "figures")
    assert evidence.run(runs[0]).rows[0].keys() >= {"seconds"}  # which tables do not have
    shutil.rmtree(drawn / "runs" / runs[0].slug)
    evidence = Evidence(drawn / "runs", ONE, drawn / "figures")
    assert evidence.run(runs[0]).state == "done" and "seconds" not in evidence.run(runs[0]).rows[0]


def test_a_figure_that_lacks_runs_is_read_from_its_own_table(drawn):
    table = drawn / "figures" / "fig03.csv"
    rows = [{**row, "test_accuracy": "0.75"} for row in read(table)]
    table.write_text(to_csv(list(rows[0]), [list(row.values()) for row in rows]))
    some = runs_of(FIGURES["fig3"], ONE)[0]  # also in Figure 4's table, or in both
    evidence = Evidence(drawn / "runs", ONE, drawn / "figures")
    assert evidence.of_figure("fig3") is evidence  # it lacks none
    shutil.rmtree(evidence.run(runs_of(FIGURES["fig3"], ONE)[1]).folder)
    evidence = Evidence(drawn / "runs", ONE, drawn / "figures")
    assert {row["test_accuracy"] for row in evidence.of_figure("fig3").run(some).rows} == {"0.75"}
    assert {row["test_accuracy"] for row in evidence.run(some).rows} != {"0.75"}
    assert Evidence(drawn / "runs", ONE).of_figure("fig3").run(some).rows  # without tables


def test_a_damaged_run_is_not_replaced_by_its_table(drawn):
    run = next(run for run in runs_of(FIGURES["fig3"], ONE) if (run.q, run.b) == (2, 2))
    (drawn / "runs" / run.slug / "metrics.csv").write_text("epoch\n")
    assert Evidence(drawn / "runs", ONE, drawn / "figures").run(run).state == "damaged"


@pytest.mark.parametrize("harm", [lambda rows: rows[:-1], lambda rows: rows[1:]])
def test_a_table_that_lacks_rows_is_damaged(drawn, harm):
    shutil.rmtree(drawn / "runs")
    run = next(run for run in runs_of(FIGURES["fig3"], ONE) if (run.q, run.b) == (2, 2))
    path = drawn / "figures" / "fig03.csv"
    rows = read(path)
    own = [row for row in rows if row["run"] == run.identity]
    kept = [row for row in rows if row["run"] != run.identity] + harm(own)
    path.write_text(to_csv(list(rows[0]), [row.values() for row in kept]))
    assert Evidence(drawn / "runs", ONE, drawn / "figures").run(run).state == "damaged"


def test_tables_without_rows_of_runs_are_passed_over(tmp_path):
    (tmp_path / "fig05.csv").write_text("curve,alpha,epochs_to_reach,run\nb=2,1,3,abc\n")
    (tmp_path / "old.csv").write_text("curve,epoch,train_loss\nb=2,1,3\n")
    assert read_tables(tmp_path) == {}
    with pytest.raises(RunError, match="is not a folder of figures"):
        read_tables(tmp_path / "nowhere")


def test_a_table_with_an_endless_cell_is_damaged(tmp_path):
    (tmp_path / "fig03.csv").write_text("run,epoch,train_loss\n" + "x" * 200_000 + ",1,1\n")
    with pytest.raises(RunError, match=r"fig03\.csv is damaged: field larger than field limit"):
        read_tables(tmp_path)
