"""Stored runs -> pictures and tables: nothing is left out in silence, nothing needs MXNet."""

import csv
import math
import subprocess
import sys
from dataclasses import replace

import pytest
from helpers.run_folders import store_run

from slsgd_mx.errors import RunError
from slsgd_mx.figures import build as drawing
from slsgd_mx.figures.build import draw_figure, file_name
from slsgd_mx.figures.declarations import FIGURES, Size, groups, runs_of
from slsgd_mx.figures.plot import draw
from slsgd_mx.runs.metrics import epochs_to

SIZE = Size("smoke", {"epochs": 8, "eval_every": 2}, repeats=2)


def store_all(home, name, size=SIZE, value=lambda run, point: 1.0 / point):
    for run in runs_of(FIGURES[name], size):
        points = run.epochs // run.eval_every
        store_run(home, run, [value(run, point) for point in range(1, points + 1)])


def read(path):
    with open(path) as file:
        return list(csv.DictReader(file))


@pytest.fixture
def drawn(monkeypatch):
    """What was given to the plotting function, with what was drawn."""
    calls = []

    def note(panels, path, title, note):
        calls.append((panels, title, note))
        return draw(panels, path, title, note)

    monkeypatch.setattr(drawing, "draw", note)
    return calls


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_whole(name, tmp_path, drawn):
    store_all(tmp_path / "runs", name)
    done = draw_figure(name, SIZE, tmp_path / "runs", tmp_path / "out")
    stem = file_name(name)
    assert [path.name for path in done.files] == [f"{stem}.png", f"{stem}.svg", f"{stem}.csv"]
    assert all(path.stat().st_size > 100 for path in done.files) and done.missing == []
    ((panels, title, note),) = drawn
    assert "(synthetic data)" in title and "made-up stand-in" in note and "seeds 0 to 1" in note
    assert title.startswith("Figure" if name != "ledger" else "CNN, label flipping")
    lines = groups(FIGURES[name], SIZE)
    for panel in panels:
        assert all(len(curve.y) == 2 for curve in panel.curves)
    seeds = {row["seed"] for row in read(done.files[-1])}
    assert seeds == {"0", "1"}
    assert {row["curve"] for row in read(done.files[-1])} == {
        drawing.plain(line.label) for group in lines.values() for line in group
    }


def test_panels_and_table_hold_the_numbers_of_the_runs(tmp_path, drawn):
    store_all(tmp_path, "fig3", value=lambda run, point: point + run.b / 8 + run.seed / 64)
    rows = read(draw_figure("fig3", SIZE, tmp_path, tmp_path / "out").files[-1])
    ((panels, _, _),) = drawn
    assert [panel.title for panel in panels] == [
        "Top-1 accuracy on testing set, $q=2$",
        "Cross entropy on training set, $q=2$",
        "Top-1 accuracy on testing set, $q=4$",
        "Cross entropy on training set, $q=4$",
    ]
    assert {panel.decay_epoch for panel in panels} == {4}
    (curve,) = [c for c in panels[0].curves if r"\alpha=0.8$, $b=2" in c.label]
    assert curve.x.tolist() == [2, 4, 6, 8]
    assert curve.y.tolist() == [
        [p + 0.25 for p in (1, 2, 3, 4)],
        [p + 17 / 64 for p in (1, 2, 3, 4)],
    ]
    assert len(rows) == (6 + 4) * 2 * 4
    (row,) = [
        r
        for r in rows
        if (r["group"], r["alpha"], r["b"], r["seed"], r["epoch"]) == ("q=4", "0.8", "4", "1", "6")
    ]
    assert float(row["test_accuracy"]) == 3 + 0.5 + 1 / 64 and row["q"] == "4"
    assert row["curve"] == "SLSGD; gamma=0.1; alpha=0.8; b=4"


def test_the_same_runs_give_the_same_bytes(tmp_path):
    store_all(tmp_path / "runs", "fig1")
    first, second = (
        [p.read_bytes() for p in draw_figure("fig1", SIZE, tmp_path / "runs", tmp_path / o).files]
        for o in "ab"
    )
    assert first == second


def test_a_missing_run_is_named_everywhere(tmp_path, drawn):
    store_all(tmp_path, "fig11")
    lost = runs_of(FIGURES["fig11"], SIZE)[3]  # FedAvg's neighbour alpha=0.8, b=0, the second seed
    (tmp_path / lost.slug).rename(tmp_path / "gone")
    done = draw_figure("fig11", SIZE, tmp_path, tmp_path / "out")
    assert done.missing == [f"{lost.slug}: missing"]
    ((panels, _, note),) = drawn
    labels = [curve.label for curve in panels[0].curves]
    assert labels[1] == r"SLSGD, $\alpha=0.8$, $b=0$ [1 of 2 missing]"
    assert not any("missing" in label for label in labels[:1] + labels[2:])
    assert "1 of 8 runs are missing" in note


def test_a_damaged_run_is_missing_and_says_why(tmp_path):
    store_all(tmp_path, "fig11")
    hurt = runs_of(FIGURES["fig11"], SIZE)[0]
    path = tmp_path / hurt.slug / "metrics.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    (said,) = draw_figure("fig11", SIZE, tmp_path, tmp_path / "out").missing
    assert said.startswith(f"{hurt.slug}: ") and "is damaged" in said


def test_a_curve_without_any_run_stays_in_the_legend(tmp_path, drawn):
    store_all(tmp_path, "fig11")
    for run in runs_of(FIGURES["fig11"], SIZE)[:2]:
        (tmp_path / run.slug).rename(tmp_path / f"gone{run.seed}")
    draw_figure("fig11", SIZE, tmp_path, tmp_path / "out")
    assert drawn[0][0][0].curves[0].label == "FedAvg [2 of 2 missing]"


def test_nothing_at_all_is_an_error(tmp_path):
    with pytest.raises(RunError, match="fig3 cannot be drawn: none of its 18 runs is finished"):
        draw_figure("fig3", SIZE, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_diverged_run_is_drawn_as_far_as_it_got_and_called_so(tmp_path, drawn):
    one = replace(SIZE, repeats=1)
    bad = next(run for run in runs_of(FIGURES["fig12"], one) if run.q and not run.b)
    for run in runs_of(FIGURES["fig12"], one):
        store_run(tmp_path, run, [5, 9] if run == bad else [5, 4, 3, 2], diverged=run == bad)
    assert draw_figure("fig12", one, tmp_path, tmp_path / "out").missing == []
    curve = drawn[0][0][0].curves[1]
    assert curve.label == "FedAvg [diverged]" and curve.y.tolist() == [[5, 9]]


def test_zoom_looks_at_the_second_half_of_what_trims_enough(tmp_path, drawn):
    def value(run, point):
        return 1e6 if run.b < run.q else 10.0 * (3 - point) + 50 if point < 3 else 2.0 + run.b / 4

    store_all(tmp_path, "fig9", value=value)
    draw_figure("fig9", SIZE, tmp_path, tmp_path / "out")
    for panel in drawn[0][0]:
        low, high = panel.ylim
        assert 1.8 < low < 2.0 and 3.0 < high < 3.2  # b=0 without attack 2.0, b=4 3.0
        assert any(run_label.startswith("FedAvg, $\\gamma=0.1$") for run_label in labels(panel))


def labels(panel):
    return [curve.label for curve in panel.curves]


def test_epochs_to_a_loss(tmp_path, drawn):
    """b=2 reaches it ever later, b=3 with one seed only, b=4 never."""
    never = {2: (), 3: (1,), 4: (0, 1)}

    def value(run, point):
        reached = run.seed not in never[run.b] and point >= (1 if run.alpha < 0.7 else 2)
        return 0.1 if reached else 9.0

    store_all(tmp_path, "fig5", value=value)
    rows = read(draw_figure("fig5", replace(SIZE, loss=0.1), tmp_path, tmp_path / "out").files[-1])
    (panel,) = drawn[0][0]
    b2, b3, b4 = panel.curves
    assert b2.x.tolist() == [0.6, 0.8, 1.0]
    assert b2.y.tolist() == [[2, 4, 4], [2, 4, 4]]
    assert b3.y.tolist() == [[2, 4, 4], [math.inf] * 3] and (b4.y == math.inf).all()
    assert panel.title == "Epochs to reach training loss 0.1"
    assert panel.outside == "▲ not reached within 4 epochs" and panel.ylim[0] == 0
    told = {(r["curve"], r["alpha"], r["seed"]): r["epochs_to_reach"] for r in rows}
    assert told["b=2", "0.6", "1"] == "2" and told["b=3", "0.8", "1"] == "never"
    assert {r["loss_to_reach"] for r in rows} == {"0.1"} and len(rows) == 18


@pytest.mark.parametrize(
    "losses, loss, at", [([3, 2, 1], 2, 4), ([3, 1, 2], 1.5, 4), ([3], 2, math.inf)]
)
def test_the_first_epoch_with_the_loss(losses, loss, at):
    rows = [{"epoch": str(2 * i), "train_loss": str(x)} for i, x in enumerate(losses, start=1)]
    assert epochs_to(rows, loss) == at


def test_a_folder_that_cannot_be_written(tmp_path):
    store_all(tmp_path / "runs", "fig11")
    (tmp_path / "out").write_text("a file")
    with pytest.raises(RunError, match="cannot write to"):
        draw_figure("fig11", SIZE, tmp_path / "runs", tmp_path / "out")


def test_drawing_and_planning_need_no_mxnet():
    code = (
        "import sys; sys.modules['mxnet'] = None; "
        "import slsgd_mx.drawing, slsgd_mx.sweep, slsgd_mx.forecast, slsgd_mx.cli.figures"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
