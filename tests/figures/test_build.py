"""Stored runs -> panels, pictures and tables; no missing run is left out silently, no MXNet."""

import csv
import math
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product
from operator import itemgetter

import numpy as np
import pytest
from helpers.run_folders import keep, store_run

from slsgd_mx.errors import RunError
from slsgd_mx.figures import build, style
from slsgd_mx.figures.build import draw_figure
from slsgd_mx.figures.captions import plain
from slsgd_mx.figures.declarations import FIGURES, file_name, full_title, legend
from slsgd_mx.figures.panels import line_curve
from slsgd_mx.figures.plot import band
from slsgd_mx.figures.stored import read_figure
from slsgd_mx.figures.variants import Variant, groups, runs_of
from slsgd_mx.runs.prefix import prefix_of
from slsgd_mx.runs.status import Outcome

SMALL = Variant("smoke", {"epochs": 8, "eval_every": 2}, repeats=2)


def store_all(home, name, variant=SMALL, value=lambda run, point: 1.0 / point):
    for run in runs_of(FIGURES[name], variant):
        points = run.epochs // run.eval_every
        store_run(home, run, [value(run, point) for point in range(1, points + 1)])


def read(path):
    with open(path) as file:
        return list(csv.DictReader(file))


@pytest.fixture
def drawn(monkeypatch):
    """The panels, title and note that would be drawn; drawing itself takes a second."""
    calls = []
    monkeypatch.setattr(build, "draw", lambda panels, paths, *words: calls.append((panels, *words)))
    return calls


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_its_panels_and_table(name, tmp_path, drawn):
    store_all(tmp_path / "runs", name)
    done = draw_figure(name, SMALL, tmp_path / "runs", tmp_path / "out")
    stem = file_name(name)
    assert [path.name for path in done.files] == [f"{stem}.png", f"{stem}.svg", f"{stem}.csv"]
    assert done.missing == []
    ((panels, title, note),) = drawn
    assert title == f"{full_title(name)} (synthetic data)"
    assert "made-up stand-in" in note and "seeds 0 to 1" in note
    lines = groups(FIGURES[name], SMALL)
    assert len(panels) == len({panel.title for panel in panels})
    for panel in panels:
        assert all(len(curve.y) == 2 for curve in panel.curves)
    rows = read(done.files[-1])
    assert {row["seed"] for row in rows} == {"0", "1"}
    assert {row["curve"] for row in rows} == {
        plain(line.label) for group in lines.values() for line in group
    }


def test_panels_and_table_hold_the_numbers_of_the_runs(tmp_path, drawn):
    store_all(tmp_path, "fig3", value=lambda run, point: point + run.b / 8 + run.seed / 64)
    rows = read(draw_figure("fig3", SMALL, tmp_path, tmp_path / "out").files[-1])
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


@pytest.mark.parametrize("name", ["fig5", "fig11"])
def test_the_same_runs_give_the_same_bytes(name, tmp_path, monkeypatch):
    monkeypatch.setitem(style.STYLE, "figure.dpi", 50)
    store_all(tmp_path / "runs", name)
    first, second = (
        [p.read_bytes() for p in draw_figure(name, SMALL, tmp_path / "runs", tmp_path / o).files]
        for o in "ab"
    )
    assert first == second and all(len(content) > 100 for content in first)


def test_a_missing_run_is_named_everywhere(tmp_path, drawn):
    store_all(tmp_path, "fig11")
    lost = runs_of(FIGURES["fig11"], SMALL)[3]  # FedAvg's neighbour alpha=0.8, b=0, the second seed
    shutil.rmtree(tmp_path / lost.slug)
    done = draw_figure("fig11", SMALL, tmp_path, tmp_path / "out")
    assert done.missing == [f"{lost.slug}: missing"]
    ((panels, _, note),) = drawn
    assert [curve.remark for curve in panels[0].curves] == ["", "1 of 2 missing", "", ""]
    assert "1 of 8 runs are missing" in note


def test_a_damaged_run_is_missing_and_says_why(tmp_path, drawn):
    store_all(tmp_path, "fig11")
    hurt = runs_of(FIGURES["fig11"], SMALL)[0]
    path = tmp_path / hurt.slug / "metrics.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    (said,) = draw_figure("fig11", SMALL, tmp_path, tmp_path / "out").missing
    assert said.startswith(f"{hurt.slug}: ") and "is damaged" in said


def test_a_curve_without_any_run_stays_in_the_legend(tmp_path, drawn):
    store_all(tmp_path, "fig11")
    for run in runs_of(FIGURES["fig11"], SMALL)[:2]:
        shutil.rmtree(tmp_path / run.slug)
    draw_figure("fig11", SMALL, tmp_path, tmp_path / "out")
    curve = drawn[0][0][0].curves[0]
    assert (curve.label, curve.remark) == ("FedAvg", "2 of 2 missing")


def test_a_figure_without_any_run_is_an_error(tmp_path):
    with pytest.raises(RunError, match="fig3 cannot be drawn: none of its 18 runs is finished"):
        draw_figure("fig3", SMALL, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("last, drawn_on", [(9.0, 9.0), (math.inf, math.inf), (math.nan, math.inf)])
def test_a_diverged_run_is_named_and_carried_on_in_the_picture_alone(
    last, drawn_on, tmp_path, drawn
):
    one = replace(SMALL, repeats=1)
    bad = next(run for run in runs_of(FIGURES["fig12"], one) if run.q and not run.b)
    for run in runs_of(FIGURES["fig12"], one):
        store_run(tmp_path, run, [5, last] if run == bad else [5, 4, 3, 2], diverged=run == bad)
    done = draw_figure("fig12", one, tmp_path, tmp_path / "out")
    assert done.missing == []
    rows = [row for row in read(done.files[-1]) if row["curve"] == "FedAvg"]
    assert [(row["epoch"], row["train_loss"]) for row in rows] == [("2", "5.0"), ("4", str(last))]
    stored = read_figure("fig12", done.files[-1])  # as the report has it
    for panel in [*drawn[0][0], *stored.panels]:
        curve = panel.curves[1]
        assert (curve.label, curve.remark) == ("FedAvg", "diverged")
        assert curve.x.tolist() == [2, 4, 6, 8] and curve.diverged == (4.0,)
        assert curve.y.tolist() == [[5, *[drawn_on] * 3]]
        assert [each.diverged for each in panel.curves].count(()) == len(panel.curves) - 1


def test_a_repeat_that_diverges_does_not_end_the_curve_of_the_others():
    """It may diverge between evaluations, before the first one, or have no known accuracy."""
    line = groups(FIGURES["fig11"], SMALL)[""][0]
    found = {run: Outcome("done", 8, points(2, 4, 6, 8)) for run in line.runs}
    found[line.runs[1]] = Outcome("diverged", 5, points(2, 4, 5))
    curve = line_curve(line, found, "train_loss", 3, "remark")
    assert curve.x.tolist() == [2, 4, 6, 8] and curve.diverged == (5.0,)
    assert curve.y.tolist() == [[2, 4, 6, 8], [2, 4, math.inf, math.inf]]
    assert line_curve(line, found, "test_loss", 3, "").y[1].tolist() == [2, 4, 5, 5]
    assert line_curve(line, found, "test_accuracy", 3, "").y[1, :2].tolist() == [2, 4]
    assert np.isnan(line_curve(line, found, "test_accuracy", 3, "").y[1, 2:]).all()
    found[line.runs[1]] = Outcome("diverged", 1, points(1))
    early = line_curve(line, found, "test_loss", 3, "")
    assert early.y[1].tolist() == [1] * 4 and early.diverged == (1.0,)
    found[line.runs[1]] = Outcome("begun", rows=points(2, 4))
    assert np.isnan(line_curve(line, found, "test_loss", 3, "").y[1, 2:]).all()


def points(*epochs):
    """Rows whose metrics are their epoch; in the last, train_loss and accuracy may be NaN."""
    rows = [{"epoch": str(t), "test_loss": str(t)} for t in epochs]
    for row in rows:
        lost = "nan" if row is rows[-1] and epochs[-1] < 8 else row["epoch"]
        row.update(train_loss=lost, test_accuracy=lost)
    return rows


def store_begun(home, run, epoch):
    """A run that was interrupted after this epoch."""
    keep(home / run.slug, run, epoch)


def test_an_unfinished_run_is_drawn_as_far_as_it_got_and_named(tmp_path, drawn):
    one = replace(SMALL, repeats=1)
    ideal, begun, *others = runs_of(FIGURES["fig12"], one)
    for run in (ideal, *others):
        store_run(tmp_path, run, [5, 4, 3, 2])
    store_begun(tmp_path, begun, 4)
    done = draw_figure("fig12", one, tmp_path, tmp_path / "out")
    assert done.missing == [f"{begun.slug}: up to epoch 4 of 8"]
    ((panels, _, note),) = drawn
    assert "1 of 6 runs are not finished." in note
    curve = panels[0].curves[1]
    assert (curve.remark, curve.x.tolist(), curve.y.tolist()) == (
        "up to epoch 4",
        [2, 4],
        [[0.5] * 2],
    )
    rows = read(done.files[-1])
    assert {row["unfinished"] for row in rows if row["q"] == "2" and row["b"] == "0"} == {"yes"}
    assert len([row for row in rows if row["unfinished"]]) == 2
    stored = read_figure("fig12", done.files[-1]).panels[0].curves[1]
    assert (stored.remark, stored.y.tolist()) == (curve.remark, curve.y.tolist())


def test_a_run_that_has_not_begun_has_the_rows_of_its_prefix(tmp_path, drawn):
    one = replace(SMALL, repeats=1)
    decaying = next(run for run in runs_of(FIGURES["fig11"], one) if run.alpha < 1)
    prefix = prefix_of(decaying)
    store_run(tmp_path, prefix, [7, 6])
    missing = draw_figure("fig11", one, tmp_path, tmp_path / "out").missing
    found = {curve.label: (curve.remark, curve.y.tolist()) for curve in drawn[0][0][0].curves}
    expected = ("up to epoch 4", [[7.0, 6.0]])
    assert found["FedAvg"] == found[r"SLSGD, $\alpha=0.8$, $b=0$"] == expected
    assert len(missing) == 4 and f"{decaying.slug}: up to epoch 4 of 8" in missing


@pytest.mark.parametrize("begun", [True, False])
def test_an_unfinished_seed_does_not_shorten_the_curve_of_finished_ones(begun, tmp_path, drawn):
    """Neither its own rows nor those of its prefix."""
    *_, last = runs = runs_of(FIGURES["fig11"], SMALL)
    for run in runs[:-1]:
        store_run(tmp_path, run, [5, 4, 3, 2])
    if begun:
        store_begun(tmp_path, last, 2)
    store_run(tmp_path, prefix_of(last), [7, 6])
    done = draw_figure("fig11", SMALL, tmp_path, tmp_path / "out")
    curve = drawn[0][0][0].curves[-1]
    assert (curve.remark, curve.y.tolist()) == ("1 of 2 missing", [[5, 4, 3, 2]])
    assert "unfinished" not in read(done.files[-1])[0]


def test_a_run_whose_prefix_diverged_diverged(tmp_path, drawn):
    one = replace(SMALL, repeats=1)
    ideal, *others = runs_of(FIGURES["fig11"], one)
    for run in others:
        store_run(tmp_path, run, [5, 4, 3, 2])
    store_run(tmp_path, prefix_of(ideal), [7], diverged=True)
    draw_figure("fig11", one, tmp_path, tmp_path / "out")
    curve = drawn[0][0][0].curves[0]
    assert (curve.remark, curve.y.tolist()) == ("diverged", [[7] * 4])
    assert curve.x.tolist() == [2, 4, 6, 8] and curve.diverged == (2.0,)


def test_an_unfinished_curve_does_not_widen_a_zoom(tmp_path, drawn):
    long = Variant("smoke", {"epochs": 40, "eval_every": 2}, repeats=1)
    first, *others = runs_of(FIGURES["fig7"], long)
    for run in others:
        store_run(tmp_path, run, [0.1 + 0.035 * point for point in range(20)])
    store_begun(tmp_path, first, 8)
    draw_figure("fig7", long, tmp_path, tmp_path / "out")
    assert len({panel.ylim for panel in drawn[0][0] if panel.title.startswith("Top-1")}) == 1


def test_damaged_rows_of_an_unfinished_run_are_not_drawn(tmp_path, drawn):
    one = replace(SMALL, repeats=1)
    begun, *others = runs_of(FIGURES["fig11"], one)
    for run in others:
        store_run(tmp_path, run, [5, 4, 3, 2])
    store_begun(tmp_path, begun, 6)
    path = tmp_path / begun.slug / "metrics.csv"
    header, first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([header, *rest]) + "\n")
    store_run(tmp_path, prefix_of(begun), [7, 6])
    draw_figure("fig11", one, tmp_path, tmp_path / "out")
    assert drawn[0][0][0].curves[0].remark == "missing"


def test_figures_5_and_6_leave_out_unfinished_runs(tmp_path, drawn):
    run = runs_of(FIGURES["fig5"], SMALL)[0]
    store_begun(tmp_path, run, 2)
    with pytest.raises(RunError, match="none of its"):
        draw_figure("fig5", SMALL, tmp_path, tmp_path / "out")


def test_chosen_curves_alone_are_drawn(tmp_path, drawn):
    few = replace(SMALL, where=("q<=2", "b<=2"))
    runs = runs_of(FIGURES["fig3"], few)
    assert {(run.q, run.alpha, run.b) for run in runs} == {
        (0, 1, 0),
        (2, 1, 0),
        (2, 1, 2),
        (2, 0.8, 2),
    }
    for run in runs:
        store_run(tmp_path, run, [1, 2, 3, 4])
    assert draw_figure("fig3", few, tmp_path, tmp_path / "out").missing == []
    ((panels, _, note),) = drawn
    assert [panel.title for panel in panels] == [
        "Top-1 accuracy on testing set, $q=2$",
        "Cross entropy on training set, $q=2$",
    ]
    assert note.endswith("Only curves with q<=2, b<=2.")


def test_a_table_with_more_runs_is_not_replaced(tmp_path, drawn):
    store_all(tmp_path / "runs", "fig3")
    table = draw_figure("fig3", SMALL, tmp_path / "runs", tmp_path / "out").files[-1]
    before = table.read_bytes()
    for run in runs_of(FIGURES["fig3"], SMALL):
        if run.q == 4:
            shutil.rmtree(tmp_path / "runs" / run.slug)
    for less in (SMALL, replace(SMALL, where=("q<=2",)), replace(SMALL, repeats=1)):
        with pytest.raises(RunError, match=r"fig03.csv has its \d+ finished runs and \d+ more"):
            draw_figure("fig3", less, tmp_path / "runs", tmp_path / "out")
    assert table.read_bytes() == before and len(drawn) == 1
    assert draw_figure("fig3", SMALL, tmp_path / "runs", tmp_path / "other").missing
    other = replace(SMALL, seed=1)  # has runs that the table has not
    store_all(tmp_path / "runs", "fig3", other)
    draw_figure("fig3", other, tmp_path / "runs", tmp_path / "out")
    assert table.read_bytes() != before
    for damage in (b"\xff" + before, b"run\n" + b"x" * 200_000 + b"\n"):  # is replaced
        table.write_bytes(damage)
        draw_figure("fig3", SMALL, tmp_path / "runs", tmp_path / "out")
        assert table.read_bytes().startswith(b"data,group,curve")
        assert table.with_name("fig03.csv.damaged").read_bytes() == damage


def test_a_remark_names_its_group_unless_it_holds_for_all(tmp_path, drawn):
    store_all(tmp_path, "fig3")
    ideal, failing = (next(r for r in runs_of(FIGURES["fig3"], SMALL) if r.q == q) for q in (0, 2))
    for run in (ideal, failing):
        shutil.rmtree(tmp_path / run.slug)
    draw_figure("fig3", SMALL, tmp_path, tmp_path / "out")
    found = [(panel.curves[0].remark, panel.curves[1].remark) for panel in drawn[0][0]]
    only = ("1 of 2 missing", "$q=2$: 1 of 2 missing")
    assert found == [only, only, ("1 of 2 missing", ""), ("1 of 2 missing", "")]


@pytest.mark.parametrize("name", ["fig3", "fig12"])
def test_survivors_set_the_limits_of_losses_and_accuracy_is_not_cut(name, tmp_path, drawn):
    store_all(tmp_path, name, value=lambda run, p: 7.0 + p if run.b < run.q else 3.0 - p / 2)
    draw_figure(name, SMALL, tmp_path, tmp_path / "out")
    for panel in drawn[0][0]:
        if "accuracy" in panel.title:
            assert panel.ylim is None  # `frame` shows every share
        else:
            np.testing.assert_allclose(panel.ylim, (0.925, 2.575))  # 1 to 2.5 and margins


def noisy(run, point):
    return math.sin(point**2 * (1 + run.b + 3 * run.seed + 7 * run.gamma) * run.alpha) / 3


def test_differences_are_paired_by_seed_and_gamma(tmp_path, drawn):
    store_all(tmp_path, "fig1", value=noisy)
    lost = runs_of(FIGURES["fig1"], SMALL)[0]  # FedAvg, gamma=0.1, seed 0
    shutil.rmtree(tmp_path / lost.slug)
    rows = read(draw_figure("fig1", SMALL, tmp_path, tmp_path / "out").files[-1])
    panels = drawn[0][0]
    assert len(panels) == 6 and {c.label for p in panels for c in p.curves} == {
        legend(alpha, b) for alpha in (1, 0.8) for b in (0, 2)
    }
    key = itemgetter("group", "curve", "seed", "epoch")
    told = {key(row): float(row["test_accuracy"]) for row in rows}
    for panel, group, seeds in zip(panels[4:], ("gamma=0.1", "gamma=0.05"), ("1", "01")):
        assert plain(panel.title) == f"Test accuracy minus that of FedAvg; {group}"
        for c in panel.curves:
            expected = [
                [
                    told[group, plain(c.label), s, f"{e:g}"] - told[group, "FedAvg", s, f"{e:g}"]
                    for e in c.x
                ]
                for s in seeds
            ]
            assert c.y.tolist() == expected and c.x.tolist() == [2, 4, 6, 8]
            assert c.y.any() == (c.label != "FedAvg")


def test_roughness_over_alpha(tmp_path, drawn):
    """After the decay at epoch 4: epochs 6 and 8, the third and fourth points."""
    store_all(tmp_path, "fig2", value=noisy)
    draw_figure("fig2", SMALL, tmp_path, tmp_path / "out")
    panel = drawn[0][0][-1]
    assert panel.own_legend and panel.dots
    runs = {(r.gamma, r.b, r.seed, r.alpha): r for r in runs_of(FIGURES["fig2"], SMALL)}
    for curve, (gamma, b) in zip(panel.curves, product((0.1, 0.05), (0, 2))):
        assert curve.label == rf"$\gamma={gamma}$, $b={b}$" and curve.x.tolist() == [0.8, 1]
        found = [[runs[gamma, b, seed, alpha] for alpha in (0.8, 1)] for seed in (0, 1)]
        change = [[abs(noisy(run, 4) - noisy(run, 3)) for run in seed] for seed in found]
        np.testing.assert_allclose(curve.y, change)


def test_zoom_shows_the_second_half_of_curves_with_b_at_least_q(tmp_path, drawn):
    def value(run, point):
        return 1e6 if run.b < run.q else 10.0 * (3 - point) + 50 if point < 3 else 2.0 + run.b / 4

    store_all(tmp_path, "fig9", value=value)
    draw_figure("fig9", SMALL, tmp_path, tmp_path / "out")
    for panel in drawn[0][0]:
        low, high = panel.ylim
        assert 1.8 < low < 2.0 and 3.0 < high < 3.2  # b=0 without attack 2.0, b=4 3.0
        assert any(run_label.startswith("FedAvg, $\\gamma=0.1$") for run_label in labels(panel))


@pytest.mark.parametrize("rule", ["trimmed-mean", "median"])
def test_figure_13_is_a_zoom_of_figure_12_with_its_looks(rule, tmp_path, drawn):
    variant = replace(SMALL, changes={**SMALL.changes, "rule": rule})
    store_all(tmp_path, "fig12", variant, lambda run, point: 60.0 if point < 3 else 2.0 + run.b / 4)
    for name in ("fig12", "fig13"):
        draw_figure(name, variant, tmp_path, tmp_path / "out")
    (whole, *_), (zoom, title, _) = drawn
    looks = {curve.label: curve.style for curve in whole[0].curves}
    assert "FedAvg" in looks or rule == "median"
    for panel in zoom:
        assert {curve.label: curve.style for curve in panel.curves}.items() <= looks.items()
        assert panel.zoom and panel.ylim[1] < 4 and panel.title.endswith(", zoomed")
    assert "without FedAvg under attack" in title and "zoomed" not in title
    assert not (tmp_path / "out" / "fig13-used.png").exists()
    if rule == "trimmed-mean":
        assert looks.keys() - set(labels(zoom[0])) == {"FedAvg"}
        stored = read_figure("fig13", tmp_path / "out" / "fig13.csv").panels
        found = [[curve.style for curve in panel.curves] for panel in stored]
        assert found == [[curve.style for curve in panel.curves] for panel in zoom]
        assert found[0] == [0, 2, 3, 4, 5]


def test_figure_13_of_chosen_curves_has_figure_12s_looks_of_them(tmp_path, drawn):
    few = replace(SMALL, where=("q=2",))
    store_all(tmp_path, "fig12", few)
    for name in ("fig12", "fig13"):
        draw_figure(name, few, tmp_path, tmp_path / "out")
    looks, zoomed = ({c.label: c.style for c in panels[0].curves} for panels, *_ in drawn)
    assert zoomed.items() < looks.items() and list(zoomed.values()) == [1, 2, 3, 4]


@pytest.mark.parametrize("rule, high", [("median", 3.0), ("mean", 2.0)])
def test_zoom_shows_attacked_curves_of_a_rule_that_needs_no_b(tmp_path, drawn, rule, high):
    variant = replace(SMALL, changes={**SMALL.changes, "rule": rule})
    store_all(tmp_path, "fig9", variant, lambda run, point: 3.0 if run.q else 2.0)
    draw_figure("fig9", variant, tmp_path, tmp_path / "out")
    for panel in drawn[0][0]:
        assert panel.ylim[0] < 2.0 and high < panel.ylim[1] < high + 0.5
    stored = read_figure("fig9", tmp_path / "out" / "fig09.csv")
    assert [panel.ylim for panel in stored.panels] == [panel.ylim for panel in drawn[0][0]]


def test_a_rule_without_b_has_one_curve_named_after_it(tmp_path, drawn):
    variant = replace(SMALL, changes={**SMALL.changes, "rule": "median"})
    for name in ("fig5", "fig2"):
        store_all(tmp_path, name, variant)
        draw_figure(name, variant, tmp_path, tmp_path / "out")
    assert labels(drawn[0][0][0]) == ["median"]
    roughness = drawn[1][0][-1]
    assert labels(roughness) == [r"$\gamma=0.1$, median", r"$\gamma=0.05$, median"]


def labels(panel):
    return [curve.label for curve in panel.curves]


def test_epochs_to_a_loss(tmp_path, drawn):
    """b=2 always reaches it, b=3 with one seed only, b=4 never."""
    never = {2: (), 3: (1,), 4: (0, 1)}

    def value(run, point):
        reached = run.seed not in never[run.b] and point >= (1 if run.alpha < 0.7 else 2)
        return 0.1 if reached else 9.0

    store_all(tmp_path, "fig5", value=value)
    rows = read(draw_figure("fig5", replace(SMALL, loss=0.1), tmp_path, tmp_path / "out").files[-1])
    (panel,) = drawn[0][0]
    b2, b3, b4 = panel.curves
    assert b2.x.tolist() == [0.6, 0.8, 1.0]
    assert b2.y.tolist() == [[2, 4, 4], [2, 4, 4]]
    assert b3.y.tolist() == [[2, 4, 4], [math.inf] * 3] and (b4.y == math.inf).all()
    assert panel.title == "Epochs to reach training loss 0.1"
    assert panel.outside == "▲ not reached within 4 epochs" and panel.ylim[0] == 0
    reached = {(r["curve"], r["alpha"], r["seed"]): r["epochs_to_reach"] for r in rows}
    assert reached["b=2", "0.6", "1"] == "2" and reached["b=3", "0.8", "1"] == "never"
    assert {r["loss_to_reach"] for r in rows} == {"0.1"} and len(rows) == 18


def test_points_of_a_missing_seed_are_means_of_the_others(tmp_path, drawn):
    """From run folders and from the table alone; the legend says that a run is missing."""
    store_all(tmp_path, "fig5", value=lambda run, point: 9.0 if run.b == 4 else 1 / point)
    for b in (2, 4):
        lost = next(r for r in runs_of(FIGURES["fig5"], SMALL) if (r.b, r.seed) == (b, 1))
        shutil.rmtree(tmp_path / lost.slug)
    done = draw_figure("fig5", replace(SMALL, loss=0.5), tmp_path, tmp_path / "out")
    for (panel,) in (drawn[0][0], read_figure("fig5", done.files[-1]).panels):
        assert [curve.remark for curve in panel.curves] == ["1 of 6 missing", "", "1 of 6 missing"]
        b2, b3, b4 = (band(curve) for curve in panel.curves)
        assert b2.tolist() == b3.tolist() == [[4, 4, 4]] * 3
        assert (b4 == math.inf).all()  # a triangle: it was never reached
        assert np.isnan(panel.curves[0].y).sum() == 1
    row = read(done.files[-1])[-1]
    wanted = {"b": "4", "q": "2", "gamma": "0.1", "passes": "1", "attack": "label-flip"}
    assert {name: row[name] for name in wanted} == wanted


def test_a_table_alone_says_which_seeds_are_missing_or_diverged(tmp_path, drawn):
    store_all(tmp_path, "fig12")
    path = draw_figure("fig12", SMALL, tmp_path, tmp_path / "out").files[-1]
    header, *lines = path.read_text().splitlines()
    curve, epoch, seed = (header.split(",").index(name) for name in ("curve", "epoch", "seed"))
    names = list(dict.fromkeys(line.split(",")[curve] for line in lines))

    def stays(line):
        cells = line.split(",")
        lost = cells[curve] == names[0] and cells[seed] == "1"
        ended = cells[curve] == names[1] and cells[seed] == "0" and int(cells[epoch]) > 4
        return not lost and not ended

    path.write_text("\n".join([header, *filter(stays, lines)]) + "\n")
    for panel in read_figure("fig12", path).panels:
        remarks = [each.remark for each in panel.curves]
        assert remarks == ["1 of 2 missing", "1 of 2 diverged", *[""] * (len(names) - 2)]


def test_a_folder_that_cannot_be_written(tmp_path, drawn):
    store_all(tmp_path / "runs", "fig11")
    (tmp_path / "out").write_text("a file")
    with pytest.raises(RunError, match="cannot write to"):
        draw_figure("fig11", SMALL, tmp_path / "runs", tmp_path / "out")


def test_drawing_and_planning_need_no_mxnet():
    code = (
        "import sys; sys.modules['mxnet'] = None; "
        "import slsgd_mx.figures.build, slsgd_mx.sweeps.plan, slsgd_mx.sweeps.forecast; "
        "import slsgd_mx.cli.figures, slsgd_mx.cli.planning"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
