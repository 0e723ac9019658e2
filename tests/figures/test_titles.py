"""What is drawn names the attack and the rule of its runs; a failed drawing destroys nothing."""

import csv

import pytest
from helpers.run_folders import store_run

from slsgd_mx.figures import build
from slsgd_mx.figures.build import draw_figure
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.variants import Variant, runs_of


def store_all(home, name, variant):
    for run in runs_of(FIGURES[name], variant):
        store_run(home, run, [1.0] * (run.epochs // run.eval_every))


def test_titles_name_the_attack_of_the_runs_and_footers_its_parameters(tmp_path, monkeypatch):
    variant = Variant("smoke", {"attack": "negation", "attack_scale": 3.0, "rule": "median"})
    store_all(tmp_path / "runs", "fig3", variant)
    calls = []
    monkeypatch.setattr(build, "draw", lambda panels, paths, *words: calls.append((panels, *words)))
    draw_figure("fig3", variant, tmp_path / "runs", tmp_path)
    ((panels, title, note),) = calls
    assert title == "Figure 3: CNN, balanced partition, attack negation (synthetic data)"
    assert "Attack: negation, scale 3. Rule: median." in note
    labels = [curve.label for curve in panels[0].curves]
    assert all("median" in label for label in labels) and len(set(labels)) == len(labels)
    with (tmp_path / "fig03.csv").open(newline="") as file:
        rows = {(row["data"], row["rule"], row["attack"]) for row in csv.DictReader(file)}
    assert rows == {("synthetic", "median", "negation"), ("synthetic", "median", "none")}


def test_a_picture_that_cannot_be_drawn_leaves_the_previous_files(tmp_path, monkeypatch):
    variant = Variant("smoke", {})
    store_all(tmp_path / "runs", "fig1", variant)
    files = draw_figure("fig1", variant, tmp_path / "runs", tmp_path).files
    before = {path: path.read_bytes() for path in files}

    def broken(figure, target, format, **options):
        if format == "svg":
            raise ValueError("no more ink")
        target.write(b"half a picture")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", broken)
    with pytest.raises(ValueError, match="no more ink"):
        draw_figure("fig1", variant, tmp_path / "runs", tmp_path)
    assert {path: path.read_bytes() for path in before} == before
