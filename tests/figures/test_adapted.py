"""Figures of a user's workload, and with poisoned devices: the same curves, truthful words."""

import csv

import pytest
from helpers.blobs import write_plugin
from helpers.run_folders import store_run

from slsgd_mx import load_plugin
from slsgd_mx.errors import ConfigError
from slsgd_mx.figures import build
from slsgd_mx.figures.adapted import figure_of
from slsgd_mx.figures.build import draw_figure
from slsgd_mx.figures.declarations import FIGURES, ReachFigure, attacked
from slsgd_mx.figures.variants import Variant, groups, runs_of


@pytest.fixture(autouse=True)
def tasks(fresh_plugins, tmp_path):
    """The workloads blobs and distances."""
    write_plugin(tmp_path / "own.py")
    load_plugin(str(tmp_path / "own.py"))


@pytest.fixture
def drawn(monkeypatch):
    """The panels, title and note of every picture."""
    calls = []
    monkeypatch.setattr(build, "draw", lambda panels, paths, *words: calls.append((panels, *words)))
    return calls


def draw(name, variant, folder):
    """Store all runs of a figure and draw it; return the rows of its table."""
    for run in runs_of(figure_of(name, variant), variant):
        store_run(folder / "runs", run, [0.5] * (run.epochs // run.eval_every))
    files = draw_figure(name, variant, folder / "runs", folder / "out").files
    with open(files[2]) as file:
        return list(csv.DictReader(file))


UNBALANCED = ("fig2", "fig4", "fig5", "fig8", "fig10")


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_its_curves_on_images(name):
    """The same alpha, b, q and, where several are compared, gamma as in the paper."""
    loss = 1.0 if isinstance(FIGURES[name], ReachFigure) else None
    variant = Variant("smoke", {}, loss=loss, task="images")
    if name == "fig13":
        with pytest.raises(ConfigError, match="leaves out FedAvg under attack on the LSTM"):
            figure_of(name, variant)
        return
    usual = Variant("smoke", {}, repeats=1)
    found, paper = (
        {
            (group, line.changes.get("b"), run.alpha, run.b, run.q)
            for group, lines in groups(figure, of).items()
            for line in lines
            for run in line.runs
        }
        for figure, of in ((figure_of(name, variant), variant), (FIGURES[name], usual))
    )
    assert found == paper
    runs = runs_of(figure_of(name, variant), variant)
    assert {run.sizes.task for run in runs} == {"images"} and {run.epochs for run in runs} == {40}
    partition = FIGURES[name].setup.get("partition", "balanced")
    assert {run.sizes.partition for run in runs} == {partition}


def test_a_workload_with_a_partition_of_its_own():
    variant = Variant("small", {}, loss=1.0, task="blobs")
    for name in FIGURES:
        if name in UNBALANCED:
            with pytest.raises(ConfigError, match=f"{name} cannot show task 'blobs': it needs the"):
                figure_of(name, variant)
        elif name != "fig13":
            assert runs_of(figure_of(name, variant), variant)


@pytest.mark.parametrize(
    "name, task, preset, said",
    [
        ("fig1", "distances", "small", "needs the metric test_accuracy, and the task measures"),
        ("fig6", "distances", "small", "needs the metric train_loss, and the task measures dist"),
        ("fig6", "blobs", "small", "which training loss is task 'blobs' to reach"),
        ("fig3", "blobs", "paper", "preset='paper' is unknown: choose one of small, long"),
        ("fig3", "nothing", "small", "task='nothing' is unknown: choose one of cifar, lstm"),
    ],
)
def test_what_a_workload_does_not_have_is_refused(name, task, preset, said):
    with pytest.raises(ConfigError, match=said):
        figure_of(name, Variant(preset, {}, task=task))


def test_gamma_is_the_workloads_own_unless_a_figure_compares_several():
    variant = Variant("small", {}, task="blobs")
    runs = {name: runs_of(figure_of(name, variant), variant) for name in ("fig3", "fig1", "fig12")}
    assert {run.gamma for run in runs["fig3"] + runs["fig12"]} == {0.05}
    assert {run.gamma for run in runs["fig1"]} == {0.1, 0.05}
    assert {run.q for run in runs["fig1"]} == {0}  # although the preset has q=1


def test_titles_and_tables_name_the_workload(tmp_path, drawn):
    rows = draw("fig3", Variant("small", {"spread": 2.0}, task="blobs"), tmp_path)
    panels, title, note = drawn[0]
    assert title == "Curves of Figure 3: blobs, own partition, label-flipping attack"
    assert "own" not in note and "spread=2.0" in note
    assert [panel.title for panel in panels[:2]] == ["Train loss, $q=2$", "Test accuracy, $q=2$"]
    assert {row["task"] for row in rows} == {"blobs"} and {row["gamma"] for row in rows} == {"0.05"}
    assert "task" not in draw("fig11", Variant("smoke", {}), tmp_path / "usual")[0]


def test_the_folder_names_the_workload_and_its_data():
    names = [
        Variant("smoke", {}).folder,
        Variant("smoke", {}, task="images").folder,
        Variant("smoke", {"network": "mlp"}, task="images").folder,
        Variant("small", {}, task="blobs").folder,
        Variant("small", {"spread": 2.0}, task="blobs").folder,
        Variant("smoke", {}, poisoned_devices=4).folder,
    ]
    arrays = dict(data="my.npz", shape=(1, 6, 6), classes=3, train_images=60, test_images=12)
    names += [
        Variant("smoke", {**arrays, "sha256": 64 * digit}, task="images").folder for digit in "ab"
    ]
    assert names[1:] == [
        "images-smoke",
        "images-smoke-network-mlp",
        "blobs-small",
        "blobs-small-spread-2.0",
        "smoke-poisoned-devices-4",
        "images-smoke-data-my.npz-sha256-aaaaaaaa",
        "images-smoke-data-my.npz-sha256-bbbbbbbb",
    ]


# ---- poisoned devices ----------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in FIGURES if attacked(FIGURES[name])])
def test_poisoned_devices_replace_q_in_every_curve(name):
    usual, variant = Variant("smoke", {}), Variant("smoke", {}, poisoned_devices=4)
    before = runs_of(FIGURES[name], usual)
    figure = figure_of(name, variant)
    runs = runs_of(figure, variant)
    assert {run.q for run in runs} == {0}
    assert {run.poisoned_devices for run in runs} == {run.q and 4 or None for run in before}
    assert {(run.alpha, run.b, run.attack) for run in runs} == {
        (run.alpha, run.b, run.attack) for run in before
    }
    assert "q=" not in figure.title and "4 poisoned devices" in figure.title


def test_titles_and_tables_name_the_poisoned_devices(tmp_path, drawn):
    rows = draw("fig3", Variant("smoke", {}, poisoned_devices=4), tmp_path)
    panels, title, note = drawn[0]
    assert title == (
        "Figure 3: CNN, balanced partition, label-flipping attack, 4 poisoned devices "
        "(synthetic data)"
    )
    assert "4 of 20 devices are poisoned." in note
    assert [panel.title for panel in panels] == [  # q=2 and q=4 are one group
        "Top-1 accuracy on testing set",
        "Cross entropy on training set",
    ]
    labels = [curve.label for curve in panels[0].curves]
    assert len(labels) == len(set(labels)) == 6 and "no attack" in labels[0]
    assert {row["poisoned_devices"] for row in rows} == {"4"}


def test_curves_that_lose_do_not_set_the_limits(tmp_path, drawn):
    """With 4 of 20 devices poisoned, 2 of the k=10 are: b=2 may survive, b=0 does not."""
    variant = Variant("smoke", {}, poisoned_devices=4)
    for run in runs_of(figure_of("fig12", variant), variant):
        lost = run.attacked and not run.b
        store_run(tmp_path, run, [1e6 if lost else 2.0] * (run.epochs // run.eval_every))
    draw_figure("fig12", variant, tmp_path, tmp_path / "out")
    assert all(panel.ylim[1] < 3 for panel in drawn[0][0])


def test_a_figure_without_attack_has_no_poisoned_devices():
    with pytest.raises(ConfigError, match="fig1 has no attack: leave out --poisoned-devices"):
        figure_of("fig1", Variant("smoke", {}, poisoned_devices=4))
    with pytest.raises(ConfigError, match="poisoned_devices=0 is out of range"):
        Variant("smoke", {}, poisoned_devices=0)
