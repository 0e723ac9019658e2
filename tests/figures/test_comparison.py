"""Pictures of any stored runs."""

import json

import numpy as np
import pytest
from helpers.run_folders import forget_digests, keep, store_run

from slsgd_mx import load_run, load_runs, plot_runs
from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.comparison import group_labels

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def runs(tiny, tmp_path):
    for seed, losses in enumerate([[3, 2, 1], [5, 4, 3]]):
        store_run(tmp_path, tiny(seed=seed), losses)
        store_run(tmp_path, tiny(seed=seed, q=1, b=1), losses)
    store_run(tmp_path, tiny(q=1, attack="nan", nonfinite="keep"), [3], diverged=True)
    return load_runs(tmp_path)


def texts(figure):
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    return legend, " ".join(text.get_text() for text in figure.texts).replace("\n", " ")


def test_seeds_are_one_curve_and_the_legend_names_what_differs(runs, tmp_path):
    figure = plot_runs(runs, path=tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(PNG)
    legend, small = texts(figure)
    assert sorted(legend) == [
        "b=0, q=0, nonfinite=reject",
        "b=0, q=1, attack=nan, nonfinite=keep (diverged)",
        "b=1, q=1, attack=label-flip, nonfinite=reject",
    ]
    assert "cifar, synthetic data" in small and "In common: n=8, k=4" in small
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["Top-1 accuracy on testing set", "Cross entropy on training set"]
    means = sorted(
        line.get_ydata().tolist() for line in figure.axes[1].lines if len(line.get_xdata()) == 3
    )
    assert means == [[4.0, 3.0, 2.0], [4.0, 3.0, 2.0]]


def test_metrics_can_be_chosen_and_paths_given(runs):
    figure = plot_runs([run.path for run in runs], metric=["test_loss", "refused"])
    assert [ax.get_title() for ax in figure.axes] == ["Cross entropy on testing set", "Refused"]
    with pytest.raises(ConfigError, match="metric='loss' is unknown: choose one of train_loss"):
        plot_runs(runs, metric="loss")


def test_equal_runs_in_two_folders_are_two_curves(tiny, tmp_path):
    for name in ("one", "two"):
        keep(tmp_path / name, tiny(), 3)
    labels = group_labels(load_runs(tmp_path))
    assert labels == [
        "b=0, q=0, gamma=0.1, alpha=1, rule=trimmed-mean",
        "b=0, q=0, gamma=0.1, alpha=1, rule=trimmed-mean (two)",
    ]


def test_a_folder_with_dollar_signs_in_its_name_is_no_formula(tiny, tmp_path):
    for name in ("one", "two$_$"):
        keep(tmp_path / name, tiny(), 3)
    plot_runs(load_runs(tmp_path), path=tmp_path / "p.svg")
    assert "(two$_$)" in (tmp_path / "p.svg").read_text()  # as a comment next to the glyphs


def test_epochs_that_a_run_lacks_are_nan(tiny, tmp_path):
    keep(tmp_path / "one", tiny(), 3)
    keep(tmp_path / "two", tiny(seed=1), 2)
    figure = plot_runs(load_runs(tmp_path), metric="train_loss")
    (line,) = (line for line in figure.axes[0].lines if len(line.get_xdata()) == 3)
    assert line.get_xdata().tolist() == [1, 2, 3]
    assert np.isnan(line.get_ydata()).tolist() == [False, False, True]


def test_runs_without_an_evaluation_are_counted_or_refused(tiny, tmp_path):
    keep(tmp_path / "new", tiny())
    with pytest.raises(ConfigError, match="none of the 1 runs has been evaluated"):
        plot_runs([tmp_path / "new"])
    keep(tmp_path / "done", tiny(seed=1), 3)
    figure = plot_runs([load_run(tmp_path / "new"), tmp_path / "done"])
    assert "1 runs without an evaluation are not shown" in texts(figure)[1]


def test_the_small_print_names_the_data_of_each_workload(tiny, tmp_path):
    store_run(tmp_path, tiny(), [3, 2, 1])
    file = next(tmp_path.glob("*/config.json"))
    values = json.loads(file.read_text())
    for number, data in enumerate(("my.npz", None)):
        keep(tmp_path / f"other{number}", tiny(seed=1), 3)
        sizes = {**values["sizes"], "data": data}
        changed = {**values, "task": f"mine{number}", "sizes": sizes if data else {}}
        (tmp_path / f"other{number}" / "config.json").write_text(json.dumps(changed))
        forget_digests(tmp_path / f"other{number}")
    small = texts(plot_runs(load_runs(tmp_path), metric="test_loss"))[1]
    assert "Data: synthetic (cifar), my.npz (mine0), its own (mine1)." in small
    assert "Synthetic data" not in small
    assert "Data" not in texts(plot_runs([tmp_path / "other1"]))[1]


def test_a_run_with_metrics_of_its_own_is_shown_beside_others(tiny, tmp_path):
    keep(tmp_path / "one", tiny(), 3)
    keep(tmp_path / "two", tiny(), 3)
    values = json.loads((tmp_path / "two" / "config.json").read_text())
    (tmp_path / "two" / "config.json").write_text(json.dumps({**values, "task": "mine"}))
    rows = tmp_path / "two" / "metrics.csv"
    text = rows.read_text().replace("train_loss,test_loss,test_accuracy", "error,gap,rank")
    rows.write_text(text)
    forget_digests(tmp_path / "two")
    figure = plot_runs(load_runs(tmp_path))
    assert texts(figure)[0] == ["task=cifar", "task=mine"]
    usual = ["Test accuracy", "Train loss"]
    assert [ax.get_title() for ax in figure.axes] == [*usual, "Error", "Gap", "Rank"][:5] + [""]


def test_the_title_names_the_poisoned_devices(tiny, tmp_path):
    store_run(tmp_path, tiny(poisoned_devices=2), [3, 2, 1])
    assert "label-flip, 2 poisoned devices" in texts(plot_runs(load_runs(tmp_path)))[1]
    store_run(tmp_path, tiny(q=1), [3, 2, 1])
    (run,) = [run for run in load_runs(tmp_path) if run.symbols["q"]]
    assert "label-flip, q=1" in texts(plot_runs([run]))[1]
