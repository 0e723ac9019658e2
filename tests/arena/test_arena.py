"""The arena's cells, scores, tables, verdicts and pictures, from stored runs; no MXNet."""

import csv
import json

import pytest
from helpers.run_folders import store_run

from slsgd_mx.arena import pictures, results
from slsgd_mx.arena.grid import CLEAN, Arena
from slsgd_mx.errors import ConfigError
from slsgd_mx.rules import RULES, Rule
from slsgd_mx.runs.folder import RunFolder

ACCURACY = {
    ("mean", CLEAN): 0.9,
    ("mean", "negation"): 0.1,
    ("mean", "gaussian"): 0.5,
    ("median", CLEAN): 0.8,
    ("median", "negation"): 0.7,
    ("median", "gaussian"): 0.6,
}


def small(**changes):
    values = dict(rules=("mean", "median"), attacks=("negation", "gaussian"))
    return Arena("smoke", **{**values, **changes})


def store(arena, home, accuracy=ACCURACY):
    """Store all runs of an arena; seeds differ by 0.02 in accuracy."""
    for setting in arena.settings:
        for cell in arena.cells(setting):
            for run in cell.runs:
                value = accuracy.get((cell.rule, cell.attack))
                if value is not None:
                    final = value + 0.02 * (run.seed - arena.seed)
                    points = run.epochs // run.eval_every
                    store_run(home, run, [final] * points)


def test_cells_are_all_pairs_with_a_column_without_attack():
    arena = small(alphas=(1.0, 0.8), bs=(2, 4), repeats=2)
    assert len(arena.settings) == 4
    cells = arena.cells(arena.settings[0])
    assert [(c.rule, c.attack) for c in cells] == list(ACCURACY)
    clean, attacked = cells[0].runs[0], cells[1].runs[0]
    assert (clean.q, clean.attack) == (0, None) and (attacked.q, attacked.attack) == (2, "negation")
    assert [run.seed for run in cells[0].runs] == [0, 1]
    # neither rule uses b, so both values of b share their runs
    assert len(arena.runs()) == 6 * 2 * 2


def test_a_rule_that_is_illegal_is_an_empty_cell_with_the_reason(monkeypatch):
    picky = Rule("picky", RULES["mean"].aggregate, legal=lambda k, b, p: f"k > {4 * b + 3}")
    monkeypatch.setitem(RULES, "picky", picky)
    arena = small(rules=("mean", "picky"))
    cells = {(c.rule, c.attack): c for c in arena.cells(arena.settings[0])}
    assert cells["picky", "negation"].runs == () and cells["mean", "negation"].runs
    assert cells["picky", CLEAN].why_empty == "b=2 is out of range for k=10: picky needs k > 11"


@pytest.mark.parametrize(
    "change, said",
    [
        (dict(rules=("best",)), "rule='best' is unknown"),
        (dict(attacks=("magic",)), "attack='magic' is unknown"),
        (dict(qs=(0,)), "q=0 is out of range"),
        (dict(rules=()), "at least one of the rules"),
        (dict(partitions=("odd",)), "partition='odd' is unknown"),
        (dict(qs=(11,)), "q=11 is out of range: needs 0 <= q <= k=10"),
        (dict(repeats=0), "repeats=0 is out of range"),
    ],
)
def test_wrong_arenas_are_refused(change, said):
    with pytest.raises(ConfigError, match=said):
        small(**change).runs()


def test_scores_are_means_over_seeds_and_the_worst_attack_decides(tmp_path):
    arena = small(repeats=2)
    store(arena, tmp_path)
    (board,) = results.read_boards(arena, tmp_path)
    assert board.scores["mean", CLEAN].values == pytest.approx((0.9, 0.92))
    assert board.scores["mean", CLEAN].mean == pytest.approx(0.91)
    assert board.scores["mean", CLEAN].spread == pytest.approx(0.02 / 2**0.5)
    assert board.worst("mean").cell.attack == "negation"
    assert board.worst("median").cell.attack == "gaussian"
    assert results.verdict(board) == [
        "Best worst case: median, 0.610 under gaussian.",
        "mean: the strongest attack is negation, 0.110 (0.910 without attack)",
        "median: the strongest attack is gaussian, 0.610 (0.810 without attack)",
    ]
    assert results.missing_runs([board]) == []


def test_missing_and_diverged_runs_are_shown_as_such(tmp_path):
    arena = small()
    store(arena, tmp_path, {k: v for k, v in ACCURACY.items() if k != ("mean", "gaussian")})
    cell = next(c for c in arena.cells(arena.settings[0]) if c.attack == "negation")
    folder = RunFolder(tmp_path / cell.runs[0].slug, cell.runs[0])
    (folder.path / "DONE").unlink()
    with pytest.raises(Exception, match="stopped being finite"):
        folder.mark_diverged(8)
    (board,) = results.read_boards(arena, tmp_path)
    score = board.scores["mean", "negation"]
    assert (score.values, score.diverged) == ((0.0,), 1)
    assert board.worst("mean") is None
    assert "mean: no verdict, runs are missing" in results.verdict(board)
    assert len(results.missing_runs([board])) == 1
    table = [dict(zip(results.COLUMNS, row)) for row in results.table([board])]
    assert [row["seeds"] for row in table] == ["1", "1", "0", "1", "1", "1"]
    assert table[2]["test_accuracy"] == "" and table[1]["diverged"] == "1"


def test_json_holds_the_curves_behind_every_cell(tmp_path):
    arena = small(alphas=(1.0, 0.8))
    store(arena, tmp_path)
    boards = results.read_boards(arena, tmp_path)
    content = json.loads(results.to_json(arena, boards))
    assert [board["alpha"] for board in content["boards"]] == [1.0, 0.8]
    cell = content["boards"][0]["cells"][1]
    assert (cell["rule"], cell["attack"], cell["mean"]) == ("mean", "negation", 0.1)
    assert cell["runs"][0]["test_accuracy"] == [0.1] * len(cell["runs"][0]["epoch"])


def test_pictures(tmp_path):
    arena = small(repeats=2, partitions=("balanced", "unbalanced"))
    store(arena, tmp_path)
    boards = results.read_boards(arena, tmp_path)
    for draw, what in ((pictures.draw_heat_maps, boards), (pictures.draw_curves, boards[0])):
        (path,) = draw(what, tmp_path / "x.png", "Title", "Note")
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 20_000
        path.unlink()


def test_table_is_readable_as_csv(tmp_path):
    from slsgd_mx.system.files import write_csv

    arena = small()
    store(arena, tmp_path)
    boards = results.read_boards(arena, tmp_path)
    write_csv(tmp_path / "a.csv", results.COLUMNS, results.table(boards))
    with open(tmp_path / "a.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6 and rows[0]["rule"] == "mean" and rows[0]["test_accuracy"] == "0.9"
