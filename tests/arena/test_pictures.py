"""The arena's pictures, and the folders they go to, from stored runs; no MXNet."""

from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner
from helpers.arena import small, store
from helpers.run_folders import keep

from slsgd_mx.arena import pictures, results
from slsgd_mx.arena.grid import CLEAN, Arena
from slsgd_mx.cli import main


def test_pictures(tmp_path):
    arena = small(repeats=2, partitions=("balanced", "unbalanced"))
    store(arena, tmp_path)
    boards = results.read_boards(arena, tmp_path)
    cells = [("mean", "negation"), ("mean", "gaussian")]
    drawn = {
        pictures.draw_heat_maps: (boards,),
        pictures.draw_used: (boards,),
        pictures.draw_curves: (boards[0],),
        pictures.draw_cells: (boards, cells),
    }
    for draw, what in drawn.items():
        (path,) = draw(*what, tmp_path / "x.png", "Title", "Note")
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 20_000
        path.unlink()


def test_texts_around_a_small_heat_map_are_inside_the_picture(tmp_path, monkeypatch):
    arena = small(attacks=("negation",))
    boards = results.read_boards(arena, tmp_path)
    kept = []
    monkeypatch.setattr(pictures, "write", lambda figure, paths: kept.append(figure))
    title = "Share of the poisoned pushes that the rule used (synthetic data)"
    pictures.draw_used(boards, tmp_path / "x.png", title, 4 * "This is small print. ")
    (figure,) = kept
    boxes = [text.get_window_extent(figure.canvas.get_renderer()) for text in figure.texts]
    assert len(boxes) == 2
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)


def test_texts_fit_into_their_cells_and_name_the_worst_attack_with_its_parameters(
    tmp_path, monkeypatch
):
    attacks = ("backdoor", "label-flip:start=pulled", "alie", "ipm", "min-max")
    arena = small(attacks=attacks, partitions=("balanced", "unbalanced"), repeats=2)
    columns = (CLEAN, *attacks)
    boards = []
    for setting in arena.settings:
        scores = {
            (cell.rule, cell.attack): results.Score(cell, (0.345, 0.456), 1, attack_success=0.5)
            for cell in arena.cells(setting)
        }
        lowest = ("mean", "label-flip:start=pulled")
        scores[lowest] = replace(scores[lowest], values=(0.123, 0.233))
        boards.append(results.Board(setting, arena.rules, columns, scores, {}))
    assert pictures.finals(boards[0]).texts[0][-1] == "0.178\nlabel-flip\nstart=pulled"
    kept = []
    monkeypatch.setattr(pictures, "write", lambda figure, paths: kept.append(figure))
    pictures.draw_heat_maps(boards, tmp_path / "x.png", "Title", "Note")
    (figure,) = kept
    for ax in figure.axes:
        shape = (len(columns) + 1, 2)
        width, height = ax.bbox.width / shape[0], ax.bbox.height / shape[1]
        boxes = [text.get_window_extent(figure.canvas.get_renderer()) for text in ax.texts]
        assert len(boxes) == shape[0] * shape[1]
        assert max(box.width for box in boxes) < width
        assert max(box.height for box in boxes) < height


def test_pictures_of_another_arena_go_to_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arena = Arena("smoke", rules=("mean", "median"), attacks=("ipm",), changes={"epochs": 2})
    keep(Path("runs") / arena.runs()[0].slug, arena.runs()[0], 2)
    line = "arena --preset smoke --rule mean --rule median --attack ipm --epochs 2 --draw-only"
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == 1 and "not finished" in result.output  # but for one run
    assert [path.name for path in Path("figures").iterdir()] == [
        "smoke-attack-ipm-epochs-2-rule-mean-median"
    ]


def test_several_seeds_do_not_overwrite_the_arena_of_one(tmp_path, monkeypatch):
    """Three are what the figures of this preset have; an arena has one."""
    monkeypatch.chdir(tmp_path)
    first = Arena("laptop", rules=("mean",), attacks=("ipm",)).runs()[0]
    keep(Path("runs") / first.slug, first, first.epochs)
    for more in ("", " --repeats 2", " --repeats 3"):
        line = f"arena --preset laptop --rule mean --attack ipm --draw-only{more}"
        assert CliRunner().invoke(main, line.split()).exit_code == 1  # the others are not there
    assert sorted(path.name for path in Path("figures").iterdir()) == [
        "laptop-attack-ipm-repeats-2-rule-mean",
        "laptop-attack-ipm-repeats-3-rule-mean",
        "laptop-attack-ipm-rule-mean",
    ]
