"""The picture of which pushes a rule used."""

import csv
import math

import numpy as np
import pytest
from helpers.run_folders import store_run

from slsgd_mx.errors import RunError
from slsgd_mx.figures import build, plot
from slsgd_mx.figures.build import draw_figure
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.plot import band
from slsgd_mx.figures.used import used_panels
from slsgd_mx.figures.variants import Variant, groups, runs_of
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.pushes import FILE, Pushes, by_epoch, read_pushes, to_text

VARIANT = Variant("smoke", {"epochs": 4, "eval_every": 2}, repeats=2)


def made_up(run):
    poisoned = tuple(range(run.q))
    used = tuple(0.1 if slot < run.q else 0.8 for slot in range(run.k))
    return [Pushes(t, tuple(range(run.k)), poisoned, used) for t in range(1, run.epochs + 1)]


def test_panels_show_poisoned_used_and_honest_lost(tmp_path, monkeypatch):
    for run in runs_of(FIGURES["fig3"], VARIANT):
        store_run(tmp_path / "runs", run, [1.0, 0.5])
        (tmp_path / "runs" / run.slug / FILE).write_text(to_text(made_up(run)))
    calls = []
    monkeypatch.setattr(build, "draw", lambda panels, paths, *words: calls.append((panels, paths)))
    files = draw_figure("fig3", VARIANT, tmp_path / "runs", tmp_path).files
    assert [path.name for path in files][3:] == ["fig03-used.png", "fig03-used.csv"]
    panels = calls[1][0]
    assert [panel.title.partition(", $")[0] for panel in panels[:2]] == [
        "Share of a poisoned push that the rule used",
        "Share of an honest push that the rule did not use",
    ]
    attacked, all_curves = panels[0].curves, panels[1].curves
    assert len(all_curves) == len(attacked) + 1  # FedAvg without attack has no poisoned push
    assert attacked[0].y.shape == (2, 4) and (attacked[0].y == 0.1).all()
    assert all_curves[0].y == pytest.approx(0.2)
    with open(files[-1]) as file:
        rows = list(csv.DictReader(file))
    assert {row["honest_lost"] for row in rows} == {"0.2"}
    assert {row["poisoned_used"] for row in rows} == {"0.1", "nan"}
    assert {(row["rule"], row["attack"]) for row in rows} == {
        ("trimmed-mean", "none"),
        ("trimmed-mean", "label-flip"),
    }


def test_an_epoch_without_poisoned_pushes_of_one_seed_has_the_mean_of_the_others(tmp_path):
    """As with poisoned devices, of which an epoch may select none."""
    line = groups(FIGURES["fig3"], VARIANT)["$q=2$"][1]
    folders = {run: tmp_path / str(run.seed) for run in line.runs}
    for run, folder in folders.items():
        rows = made_up(run)
        poisoned = () if run.seed == 0 else rows[1].poisoned
        rows[1] = Pushes(2, rows[1].devices, poisoned, rows[1].used)
        rows[2] = Pushes(3, rows[2].devices, (), rows[2].used)
        folder.mkdir()
        (folder / FILE).write_text(to_text(rows))
    panels, _ = used_panels({"": [line]}, folders)
    low, mean, high = band(panels[0].curves[0])
    assert mean == pytest.approx([0.1, 0.1, math.nan, 0.1], nan_ok=True)
    assert low == pytest.approx(high, nan_ok=True)
    (folders[line.runs[0]] / FILE).write_text(to_text(made_up(line.runs[0])[:3]))  # it diverged
    ended = band(used_panels({"": [line]}, folders)[0][0].curves[0])
    assert np.isnan(ended[:, 3]).all() and not np.isnan(ended[:, 0]).any()


def test_the_small_print_says_that_a_line_ends_with_its_first_repeat(tmp_path, monkeypatch):
    """Not only of the metrics: also of pushes, whose means leave out what is unknown."""
    line, notes = groups(FIGURES["fig3"], VARIANT)["$q=2$"][1], []
    monkeypatch.setattr(plot, "_arrange", lambda figure, entries, title, note: notes.append(note))
    folders = {run: tmp_path / str(run.seed) for run in line.runs}
    for epochs in (4, 2):
        for run, folder in folders.items():
            folder.mkdir(exist_ok=True)
            rows = made_up(run)[: epochs if run.seed else 4]
            (folder / FILE).write_text(to_text(rows))
        plot.draw(used_panels({"": [line]}, folders)[0], tmp_path / "used.png")
    said = "A line ends where the first of its repeats ends."
    assert [said in note for note in notes] == [False, True]


def test_runs_that_recorded_nothing_have_no_picture(tmp_path, monkeypatch):
    for run in runs_of(FIGURES["fig3"], VARIANT):
        store_run(tmp_path / "runs", run, [1.0, 0.5])
    monkeypatch.setattr(build, "draw", lambda *arguments: None)
    assert len(draw_figure("fig3", VARIANT, tmp_path / "runs", tmp_path).files) == 3


def test_rows_are_read_back(tmp_path):
    rows = [Pushes(1, (4, 2, 9), (1,), (0.5, 0.25, 1.0)), Pushes(2, (1, 3, 5), (), None)]
    (tmp_path / FILE).write_text(to_text(rows) + "3,1 2")  # a crash has truncated the last line
    assert read_pushes(tmp_path) == rows
    assert (rows[0].poisoned_used, rows[0].honest_lost) == (0.25, 0.25)
    assert math.isnan(rows[1].poisoned_used) and math.isnan(rows[1].honest_lost)
    epochs, values = by_epoch([rows, rows[:1]])["poisoned_used"]
    assert epochs.tolist() == [1, 2] and values[:, 0].tolist() == [0.25, 0.25]
    assert read_pushes(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    "line, said",
    [
        ("3,1 2,0,1 1", "an epoch is missing"),
        ("2,1 2,7,1 1", "other numbers of slots"),
        ("2,1 2,0,1", "other numbers of slots"),
        ("2,x,0,1 1", "invalid literal"),
        ("2,1 2", "not enough values"),
    ],
)
def test_damaged_rows_are_errors(tmp_path, line, said):
    (tmp_path / FILE).write_text(to_text([Pushes(1, (4, 2), (1,), None)]) + line + "\n")
    with pytest.raises(RunError, match=f"is damaged: .*{said}.*remove it to go on"):
        read_pushes(tmp_path)


def test_resuming_keeps_the_rows_up_to_the_checkpoint(tmp_path):
    run = runs_of(FIGURES["fig3"], VARIANT)[0]
    with RunFolder(tmp_path / "run", run) as folder:
        folder.resume()
        for row in made_up(run):
            folder.append_pushes(row)
        assert read_pushes(folder.path) == made_up(run)
        assert folder.resume()[0] == 0  # there is no checkpoint
        assert read_pushes(folder.path) == []
