"""Rows of metrics.csv -> curves, their mean, their legend, the file of numbers behind them."""

import csv

import numpy as np
import pytest

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import RunError
from slsgd_mx.figures.curves import (
    TITLES,
    curve,
    data_note,
    draw_runs,
    legend,
    metric_panels,
    write_curves,
)
from slsgd_mx.runs.metrics import average
from slsgd_mx.tasks.lstm.sizes import Lstm

CNN = RunConfig(alpha=0.8, b=2, q=2, seed=3)
TEXT = RunConfig(sizes=Lstm(), gamma=20, q=2)


def rows_of(config, *values):
    """A row an epoch (10, 20, ...), every metric of it a multiple of the value."""
    return [
        {"epoch": str(10 * i), **{m: repr(j * v) for j, m in enumerate(config.sizes.metrics, 1)}}
        for i, v in enumerate(values, start=1)
    ]


@pytest.mark.parametrize(
    "changes, said",
    [
        (dict(), r"SLSGD, $\gamma=0.1$, $\alpha=1$, $b=0$"),
        (dict(alpha=0.8, b=2), r"SLSGD, $\gamma=0.1$, $\alpha=0.8$, $b=2$"),
        (dict(gamma=20, b=4, q=2), r"SLSGD, $\gamma=20$, $\alpha=1$, $b=4$"),
        (dict(gamma=0.05, rule="median"), r"SLSGD, $\gamma=0.05$, $\alpha=1$, median"),
    ],
)
def test_the_legend_has_the_papers_wording(changes, said):
    assert legend(RunConfig(**changes)) == said


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
    made = curve("x", [rows_of(CNN, 1.0, 2.0), rows_of(CNN, 3.0, 4.0)], "test_loss")
    assert made.label == "x" and np.asarray(made.x).tolist() == [10, 20]
    assert np.asarray(made.y).tolist() == [[2, 4], [6, 8]]


def test_a_repeat_that_ended_early_has_gaps():
    made = curve("x", [rows_of(CNN, 1.0), rows_of(CNN, 3.0, 4.0)], "test_loss")
    assert np.asarray(made.x).tolist() == [10, 20]
    np.testing.assert_array_equal(made.y, [[2, np.nan], [6, 8]])


@pytest.mark.parametrize("stopped, whole", [("13", "20"), ("20", "25")])
def test_a_repeat_that_diverged_between_evaluations_keeps_its_epoch(stopped, whole):
    """Both have a row of epoch 10; the second is of an epoch that the other repeat lacks."""
    runs = [rows_of(CNN, 1.0, 2.0), rows_of(CNN, 3.0, 4.0)]
    runs[0][1]["epoch"], runs[1][1]["epoch"] = stopped, whole
    made = curve("x", runs, "train_loss")
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
def test_panels_are_the_papers_with_the_decay_marked_where_there_is_one(changes, decay):
    config = RunConfig(**{"alpha": 0.8, **changes})
    panels = metric_panels(config, [("one", [rows_of(config, 1.0)])])
    assert [panel.title for panel in panels] == [
        "Top-1 accuracy on testing set",
        "Cross entropy on training set",
    ]
    assert [panel.decay_epoch for panel in panels] == [decay] * 2
    assert [float(panel.curves[0].y[0, 0]) for panel in panels] == [3.0, 1.0]


def test_panels_of_the_language_model():
    panels = metric_panels(TEXT, [("one", [rows_of(TEXT, 1.0)])])
    assert [panel.title for panel in panels] == [
        "Perplexity on testing set",
        "Cross entropy on training set",
    ]


def test_a_stand_in_is_called_one():
    assert data_note(CNN) == "Data: cifar10." and data_note(TEXT) == "Data: wikitext2."
    assert "Synthetic" in data_note(RunConfig(sizes=Lstm(data="synthetic")))


def test_the_numbers_behind_a_picture(tmp_path):
    path = tmp_path / "curves.csv"
    lines = [
        (legend(CNN), [rows_of(CNN, 1.0, 2.0), rows_of(CNN, 3.0)]),
        ("$b=4$", [rows_of(CNN, 5.0)]),
    ]
    write_curves(path, CNN, lines)
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["curve", "seed", "epoch", *CNN.sizes.metrics]
    assert [(row["seed"], row["epoch"], row["train_loss"]) for row in rows] == [
        ("3", "10", "1.0"),
        ("3", "20", "2.0"),
        ("4", "10", "3.0"),
        ("3", "10", "5.0"),
    ]
    assert rows[0]["curve"] == r"SLSGD; \gamma=0.1; \alpha=0.8; b=2" and rows[3]["curve"] == "b=4"


def test_numbers_that_cannot_be_written(tmp_path):
    with pytest.raises(RunError):
        write_curves(tmp_path / "no" / "folder" / "curves.csv", CNN, [])


@pytest.mark.parametrize("config", [CNN, TEXT])
@pytest.mark.parametrize("last", [1.5, float("inf"), float("nan")])
def test_a_picture_even_of_a_run_that_went_wrong(tmp_path, monkeypatch, config, last):
    monkeypatch.setattr("slsgd_mx.canvas.STYLE", {**plot_style(), "figure.dpi": 50})
    draw_runs(config, [rows_of(config, 2.0, 1.0, last)], tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def plot_style():
    from slsgd_mx.figures import style as canvas

    return canvas.STYLE


def test_the_title_names_data_partition_and_attack(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr("slsgd_mx.curves.draw", lambda panels, path, *words: said.append(words))
    draw_runs(TEXT, [rows_of(TEXT, 1.0)], tmp_path / "x.png")
    draw_runs(RunConfig(), [rows_of(CNN, 1.0)], tmp_path / "x.png")
    assert said == [
        ("lstm, wikitext2 (shuffled), label-permute, q=2", "Data: wikitext2."),
        ("cifar, cifar10 (balanced), no attack", "Data: cifar10."),
    ]
