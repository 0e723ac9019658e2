"""The pictures of the report: of tables, of other workloads, and of the theory."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.blobs import write_arrays
from helpers.command_line import call
from helpers.pages import Reader
from helpers.run_folders import store_run
from helpers.theory_tables import make

from slsgd_mx.cli import main
from slsgd_mx.data.arrays import sizes_in
from slsgd_mx.errors import RunError
from slsgd_mx.figures.adapted import figure_of
from slsgd_mx.figures.stored import StoredSizes, read_figure
from slsgd_mx.figures.variants import Variant, runs_of
from slsgd_mx.report.charts import chart
from slsgd_mx.report.pictures import theory_from_runs
from slsgd_mx.report.sources import Request, gather, with_theory
from slsgd_mx.system.files import to_csv
from slsgd_mx.theory import PARTS
from slsgd_mx.theory.cases import sweep_cases
from slsgd_mx.theory.pictures import PICTURES
from slsgd_mx.theory.stored import read_picture
from slsgd_mx.theory.tables import write_rows

ROOT = Path(__file__).resolve().parent.parent.parent
LAPTOP = ROOT / "figures" / "laptop"
pytest.importorskip("plotly")


def test_pictures_of_the_theory_keep_their_numbers():
    picture = read_picture("thm1-rate", ROOT / "figures" / "theory" / "thm1-rate.csv")
    assert picture.title == "Theorem 1's rate where nothing makes a floor"
    rows = list(csv.DictReader(picture.text.splitlines()))
    assert sum(len(curve.x) for panel in picture.panels for curve in panel.curves) == len(rows)
    assert {panel.yscale for panel in picture.panels} == {"log"}


def test_a_csv_of_another_kind_is_refused(tmp_path):
    (tmp_path / "fig01.csv").write_text("a,b\n1,2\n")
    with pytest.raises(RunError, match="is not the CSV file of fig1: there is no 'curve'"):
        read_figure("fig1", tmp_path / "fig01.csv")


@pytest.mark.parametrize(
    "own, title",
    [
        ({"task": "mine"}, "Curves of Figure 3: mine, label-flipping attack"),
        (
            {"poisoned_devices": "20"},
            "Figure 3: CNN, balanced partition, label-flipping attack, 20 poisoned devices",
        ),
        (
            {"task": "mine", "poisoned_devices": "20"},
            "Curves of Figure 3: mine, label-flipping attack, 20 poisoned devices",
        ),
    ],
)
def test_the_table_of_another_workload_is_not_called_the_papers_figure(tmp_path, own, title):
    columns = {} if "task" not in own else {"test_loss": "error_rate"}
    with (LAPTOP / "fig03.csv").open() as file:
        rows = [
            {**own, **{columns.get(name, name): cell for name, cell in row.items()}}
            for row in csv.DictReader(file)
        ]
    (tmp_path / "fig03.csv").write_text(to_csv(list(rows[0]), [list(r.values()) for r in rows]))
    figure = read_figure("fig3", tmp_path / "fig03.csv")
    assert figure.title == title
    if "task" in own:
        found = [panel.title.split(",")[0] for panel in figure.panels[:2]]
        assert found == ["Train loss", "Error rate"]
    assert gather(Request(None, (tmp_path,)))["problems"] == []


def test_an_attack_with_parameters_reads_as_it_was_given(tmp_path):
    text = (LAPTOP / "fig03.csv").read_text()
    text = text.replace(",label-flip,", ",backdoor:share=0.3;target=2,")
    (tmp_path / "fig03.csv").write_text(text)
    figure = read_figure("fig3", tmp_path / "fig03.csv")
    assert figure.title.endswith("attack backdoor:share=0.3,target=2")


def test_charts_mark_where_repeats_diverged():
    figure = read_figure("fig4", LAPTOP / "fig04.csv")
    crosses = {
        (panel["ylabel"], tuple(curve["diverged"]["x"])): curve["diverged"]["y"]
        for panel in chart(figure.panels)["panels"]
        for curve in panel["curves"]
        if "diverged" in curve
    }
    assert set(crosses) == {
        (label, epochs)
        for label in ("Accuracy", "Cross entropy")
        for epochs in ((26,), (2, 10, 18))
    }
    assert crosses["Cross entropy", (2, 10, 18)] == [None] * 3  # beyond the panel
    assert all(0.09 < height < 0.12 for height in crosses["Accuracy", (2, 10, 18)])


def test_panels_of_a_table_are_those_of_its_task():
    metrics = ("train_loss", "test_loss", "test_accuracy")
    assert StoredSizes("images", metrics).panels == ("test_accuracy", "train_loss")
    assert StoredSizes("unknown", metrics).panels == ("train_loss", "test_loss")


@pytest.mark.parametrize(
    "words, own, title",
    [
        (["--poisoned-devices", "3"], {"poisoned_devices": 3}, "3 poisoned devices"),
        (["--task", "lstm"], {"task": "lstm"}, "Curves of Figure 3: "),
    ],
)
def test_figures_of_another_workload_are_shown_from_runs(elsewhere, tmp_path, words, own, title):
    wanted = Variant("smoke", {}, repeats=1, **own)
    for run in runs_of(figure_of("fig3", wanted), wanted):
        store_run(tmp_path / "runs", run, [1.0] * (run.epochs // run.eval_every))
    done = CliRunner().invoke(main, ["report", "--preset", "smoke", "--repeats", "1", *words])
    assert done.exit_code == 0, done.output
    content = json.loads(Reader(Path("report.html").read_text()).data)
    assert content["claims"] == []  # they are about the paper's
    assert any(title in figure["title"] for figure in content["figures"])


def test_figures_of_arrays_are_shown_from_runs(elsewhere):
    """With the options of the figure: --arrays, --network and --set."""
    write_arrays("my.npz")
    chosen = dict(n=12, batch_size=5, epochs=2, alpha_decay_epoch=1, eval_every=1)
    changes = {**chosen, "network": "mlp:width=4", **sizes_in(Path("my.npz"))}
    wanted = Variant("smoke", changes, repeats=1, task="images")
    for run in runs_of(figure_of("fig3", wanted), wanted):
        store_run(Path("runs"), run, [1.0, 0.5])
    words = "--preset smoke --task images --arrays my.npz --network mlp:width=4 "
    words += " ".join(f"--set {name}={value}" for name, value in chosen.items())
    done = call(f"report {words} --repeats 1")
    assert done.exit_code == 0, done.output
    content = json.loads(Reader(Path("report.html").read_text()).data)
    (figure,) = [each for each in content["figures"] if "Figure 3: " in each["title"]]
    assert "my.npz" in json.dumps(figure) and figure["panels"]
    other = call(f"report {words.replace('width=4', 'width=5')} --repeats 1")
    assert "0 figures" in other.output  # of another network there is no run


def test_the_theory_is_shown_while_its_tables_have_different_seeds(tmp_path):
    """As slsgd-mx theory leaves them: some cases have four times as many."""
    tables = {case: rows for part in PARTS for case, rows in make(part, seeds=2).items()}
    for case, rows in tables.items():
        more = {case.times * 10: rows[1]} if case.times > 1 else {}
        write_rows(tmp_path / "theory", case, {**rows, **more})
    problems = []
    names = {name for pictures in PICTURES.values() for name in pictures}
    assert {entry["name"] for entry in theory_from_runs(tmp_path, problems)} == names
    path = tmp_path / "theory" / next(iter(sweep_cases("skewed")["q"].values())).file
    path.write_text("seed\n")
    shown = {entry["name"] for entry in theory_from_runs(tmp_path, problems)}
    assert names - shown == {"thm2-sweeps", "thm2-lemma"}
    assert len(problems) == 1 and f"{path} is damaged" in problems[0]
    path.unlink()
    assert len(theory_from_runs(tmp_path, problems)) == len(shown) and len(problems) == 1


def test_the_theory_is_found_next_to_figures():
    found = with_theory((LAPTOP, ROOT / "figures" / "theory"))
    assert [folder.name for folder in found] == ["laptop", "theory"]
