"""The curves of single runs: panels, averages, pictures and the numbers behind them."""

import csv
import math
from dataclasses import dataclass

import numpy as np
import pytest

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import RunError
from slsgd_mx.figures import build, style
from slsgd_mx.figures.build import draw_runs, metric_panels, write_curves
from slsgd_mx.figures.captions import data_note
from slsgd_mx.figures.declarations import legend
from slsgd_mx.figures.panels import TITLES, metric_curve
from slsgd_mx.runs.metrics import average, epochs_to
from slsgd_mx.tasks.lstm.sizes import Lstm
from slsgd_mx.workloads import WORKLOADS, Sizes, Workload

CNN = RunConfig(alpha=0.8, b=2, q=2, seed=3)
TEXT = RunConfig(sizes=Lstm(), gamma=20, q=2)


@dataclass(frozen=True)
class Points(Sizes):
    """The sizes of a workload that names neither data nor partition."""

    task = "points"


def rows_of(config, *values):
    """A row for each epoch 10, 20, ...; every metric is a multiple of the value."""
    return [
        {"epoch": str(10 * i), **{m: repr(j * v) for j, m in enumerate(config.sizes.metrics, 1)}}
        for i, v in enumerate(values, start=1)
    ]


@pytest.mark.parametrize("config", [CNN, TEXT])
def test_every_metric_has_a_title_and_every_panel_a_metric(config):
    assert set(config.sizes.panels) <= set(config.sizes.metrics) <= set(TITLES)


def test_the_average_of_repeats():
    runs = [rows_of(CNN, 1.0, 2.0), rows_of(CNN, 3.0, 0.5)]
    first, last = average(CNN, runs)
    assert first == {
        "epoch": "10",
        "train_loss": "2.0",
        "test_loss": "4.0",
        "test_accuracy": "6.0",
    }
    assert [last["epoch"], last["train_loss"]] == ["20", "1.25"]
    (only,) = average(TEXT, [rows_of(TEXT, 0.1)])
    assert only == rows_of(TEXT, 0.1)[0]  # one repeat is left as it is, to the last digit
    assert average(CNN, [runs[0], runs[1][:1]]) == [first]  # what all of them have


def test_a_curve_holds_every_repeat():
    made = metric_curve("x", [rows_of(CNN, 1.0, 2.0), rows_of(CNN, 3.0, 4.0)], "test_loss")
    assert made.label == "x" and np.asarray(made.x).tolist() == [10, 20]
    assert np.asarray(made.y).tolist() == [[2, 4], [6, 8]]


def test_a_repeat_that_ended_early_has_gaps():
    made = metric_curve("x", [rows_of(CNN, 1.0), rows_of(CNN, 3.0, 4.0)], "test_loss")
    assert np.asarray(made.x).tolist() == [10, 20]
    np.testing.assert_array_equal(made.y, [[2, np.nan], [6, 8]])


@pytest.mark.parametrize("stopped, whole", [("13", "20"), ("20", "25")])
def test_a_repeat_that_diverged_between_evaluations_keeps_its_epoch(stopped, whole):
    """Both have a row of epoch 10; the second is of an epoch that the other repeat lacks."""
    runs = [rows_of(CNN, 1.0, 2.0), rows_of(CNN, 3.0, 4.0)]
    runs[0][1]["epoch"], runs[1][1]["epoch"] = stopped, whole
    made = metric_curve("x", runs, "train_loss")
    points = {(x, y) for row in made.y.tolist() for x, y in zip(made.x.tolist(), row)}
    assert {(float(stopped), 2.0), (float(whole), 4.0)} <= points


@pytest.mark.parametrize(
    "changes, decay",
    [
        (dict(), 400),
        (dict(alpha=1.0), None),
        (dict(alpha_schedule="constant"), None),
        (dict(epochs=400), None),
    ],
)
def test_panels_of_the_cnn_and_the_mark_of_the_decay(changes, decay):
    config = RunConfig(**{"alpha": 0.8, **changes})
    panels = metric_panels(config, {"one": [rows_of(config, 1.0)]})
    assert [panel.title for panel in panels] == [
        "Top-1 accuracy on testing set",
        "Cross entropy on training set",
    ]
    assert [panel.decay_epoch for panel in panels] == [decay] * 2
    assert [float(panel.curves[0].y[0, 0]) for panel in panels] == [3.0, 1.0]


def test_panels_of_the_language_model():
    panels = metric_panels(TEXT, {"one": [rows_of(TEXT, 1.0)]})
    assert [panel.title for panel in panels] == [
        "Perplexity on testing set",
        "Cross entropy on training set",
    ]


def test_the_note_names_the_data():
    assert data_note(CNN) == "Data: cifar10." and data_note(TEXT) == "Data: wikitext2."
    assert "Synthetic" in data_note(RunConfig(sizes=Lstm(data="synthetic")))


def test_the_numbers_behind_a_picture(tmp_path):
    path = tmp_path / "curves.csv"
    lines = {
        legend(0.8, 2, gamma=0.1): [rows_of(CNN, 1.0, 2.0), rows_of(CNN, 3.0)],
        "$b=4$": [rows_of(CNN, 5.0)],
    }
    write_curves(path, CNN, lines)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert list(rows[0]) == ["curve", "seed", "epoch", *CNN.sizes.metrics]
    assert [(row["seed"], row["epoch"], row["train_loss"]) for row in rows] == [
        ("3", "10", "1.0"),
        ("3", "20", "2.0"),
        ("4", "10", "3.0"),
        ("3", "10", "5.0"),
    ]
    assert rows[0]["curve"] == "SLSGD; gamma=0.1; alpha=0.8; b=2" and rows[3]["curve"] == "b=4"


def test_numbers_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot write to"):
        write_curves(tmp_path / "file" / "curves.csv", CNN, {})


@pytest.mark.parametrize("config, last", [(CNN, 1.5), (TEXT, math.inf), (CNN, math.nan)])
def test_a_diverged_run_gets_a_picture(tmp_path, monkeypatch, config, last):
    monkeypatch.setitem(style.STYLE, "figure.dpi", 50)
    draw_runs(config, [rows_of(config, 2.0, 1.0, last)], tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_the_title_names_data_partition_and_attack(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(build, "draw", lambda panels, paths, *words: drawn.append((panels, *words)))
    draw_runs(TEXT, [rows_of(TEXT, 1.0)], tmp_path / "x.png")
    draw_runs(RunConfig(), [rows_of(CNN, 1.0)], tmp_path / "x.png")
    assert [(panels[0].curves[0].label, *words) for panels, *words in drawn] == [
        (
            r"FedAvg, $\gamma=20$",
            "lstm, wikitext2 (shuffled), label-permute, fresh start, q=2",
            "Data: wikitext2.",
        ),
        (r"FedAvg, $\gamma=0.1$", "cifar, cifar10 (balanced), no attack", "Data: cifar10."),
    ]


def test_the_title_does_not_name_data_that_have_no_name(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(build, "draw", lambda panels, paths, *words: drawn.append(words))
    monkeypatch.setitem(WORKLOADS, "points", Workload(Points, ""))
    config = RunConfig(sizes=Points())
    draw_runs(config, [rows_of(config, 1.0)], tmp_path / "x.png")
    assert drawn == [("points, no attack", "")]


def test_the_success_of_a_backdoor_is_drawn(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(build, "draw", lambda panels, *words: drawn.append(panels))
    config = RunConfig(q=2, attack="backdoor")
    rows = [{**row, "attack_success": "0.75"} for row in rows_of(config, 1.0, 2.0)]
    draw_runs(config, [rows], tmp_path / "x.png")
    *usual, last = drawn[0]
    assert len(usual) == len(config.sizes.panels) and last.title == "Attack success"
    assert last.curves[0].y.tolist() == [[0.75, 0.75]]


@pytest.mark.parametrize(
    "losses, loss, at", [([3, 2, 1], 2, 4), ([3, 1, 2], 1.5, 4), ([3], 2, math.inf)]
)
def test_the_first_epoch_with_the_loss(losses, loss, at):
    rows = [{"epoch": str(2 * i), "train_loss": str(x)} for i, x in enumerate(losses, start=1)]
    assert epochs_to(rows, loss) == at
