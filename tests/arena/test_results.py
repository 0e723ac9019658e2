"""The arena's scores, tables and verdicts, from stored runs; no MXNet."""

import csv
import json
import math
import shutil
import warnings

import pytest
from helpers.arena import ACCURACY, as_dicts, diverge, small, store

from slsgd_mx.arena import pictures, results, tables, verdict
from slsgd_mx.arena.grid import CLEAN, Arena
from slsgd_mx.arena.stored import find_boards
from slsgd_mx.attacks import register_attack
from slsgd_mx.errors import RunError
from slsgd_mx.runs.pushes import Pushes, to_text


def test_scores_are_means_over_seeds_and_the_worst_attack_decides(tmp_path):
    arena = small(repeats=2)
    store(arena, tmp_path)
    (board,) = results.read_boards(arena, tmp_path)
    assert board.scores["mean", CLEAN].values == pytest.approx((0.9, 0.92))
    assert board.scores["mean", CLEAN].mean == pytest.approx(0.91)
    assert board.scores["mean", CLEAN].spread == pytest.approx(0.02 / 2**0.5)
    assert board.worst("mean").cell.attack == "negation"
    assert board.worst("median").cell.attack == "gaussian"
    assert verdict.verdict(board) == [
        "Best worst case: median, 0.610 under gaussian.",
        "mean: the strongest attack is negation, 0.110 (0.910 without attack)",
        "median: the strongest attack is gaussian, 0.610 (0.810 without attack)",
    ]
    assert results.missing_runs([board]) == []


def test_a_rule_that_some_attack_spares_is_not_ranked_without_a_word(tmp_path, fresh_plugins):
    @register_attack("one-by-one", by_coordinate=True)
    def one_by_one(seen):
        return seen.previous

    arena = small(rules=("krum", "median"), attacks=("one-by-one", "gaussian"))
    others = {("krum", CLEAN): 0.9, ("krum", "gaussian"): 0.7, ("median", "one-by-one"): 0.5}
    store(arena, tmp_path, {**ACCURACY, **others})
    (board,) = results.read_boards(arena, tmp_path)
    assert board.spared("krum") == ["one-by-one"] and board.spared("median") == []
    said = "; one-by-one is illegal for it, so its worst case is over fewer attacks"
    assert [line.endswith(said) for line in verdict.verdict(board)] == [False, True, False]
    (cell,) = (
        c for c in arena.cells(arena.settings[0]) if (c.rule, c.attack) == ("krum", "gaussian")
    )
    shutil.rmtree(tmp_path / cell.runs[0].slug)
    (board,) = results.read_boards(arena, tmp_path)
    lines = verdict.verdict(board)
    assert lines[0].startswith("Best worst case so far, of 1 of 2 rules: median")
    assert lines[-1] == "krum: no verdict, runs are missing" and not pictures.finals(board).framed


def test_a_run_that_never_changed_the_model_counts_with_that_model(tmp_path):
    arena = small()
    store(arena, tmp_path, {**ACCURACY, ("median", "negation"): 0.1})
    (cell,) = (
        c for c in arena.cells(arena.settings[0]) if (c.rule, c.attack) == ("median", "negation")
    )
    folder = tmp_path / cell.runs[0].slug
    (folder / "DONE").unlink()
    (folder / "FAILED").write_text("no update was applied")
    (board,) = results.read_boards(arena, tmp_path)
    assert results.missing_runs([board]) == [] and not board.unfinished
    assert results.stuck_runs([board])[0] == cell.runs[0].slug  # then its prefix
    assert board.scores["median", "negation"].values == (0.1,)
    assert board.ends(("median", "negation")) == ["no update"]
    said = "median under negation: too few pushes were left, so no epoch changed the model"
    assert verdict.verdict(board)[-1] == said
    assert pictures.finals(board).texts[1][1].endswith("1 without update")
    (again,) = tables.from_json(tables.to_json(arena, [board]))
    assert again.scores["median", "negation"].stuck == 1 and verdict.verdict(again)[-1] == said


def test_a_rule_that_no_attack_harms_is_said_to_be_undecided(tmp_path):
    arena = small()
    better = {("median", CLEAN): 0.11, ("median", "negation"): 0.15, ("median", "gaussian"): 0.14}
    store(arena, tmp_path, {**ACCURACY, **better})
    (board,) = results.read_boards(arena, tmp_path)
    assert verdict.verdict(board)[-1].startswith("No attack worsens the test accuracy of median: ")


def test_rules_that_tie_are_all_named_and_framed(tmp_path):
    arena = small()
    store(arena, tmp_path, {**ACCURACY, ("mean", "negation"): 0.6004, ("mean", "gaussian"): 0.7})
    (board,) = results.read_boards(arena, tmp_path)
    first = verdict.verdict(board)[0]
    assert first == "Best worst case: mean (under negation) and median (under gaussian), 0.600."
    assert pictures.finals(board).framed == [(0, 3), (1, 3)]
    store(arena, tmp_path / "other")
    (board,) = results.read_boards(arena, tmp_path / "other")
    assert pictures.finals(board).framed == [(1, 3)]


def test_less_is_better_where_no_accuracy_is_measured(tmp_path):
    choices = dict(rules=("mean", "median"), attacks=("negation", "gaussian"))
    arena = Arena("smoke", task="lstm", **choices, changes={"epochs": 2, "eval_every": 1})
    losses = {pair: 1 - value for pair, value in ACCURACY.items()}
    store(arena, tmp_path, losses)
    (board,) = results.read_boards(arena, tmp_path)
    assert verdict.verdict(board)[:2] == [
        "Best worst case: median, 0.400 under gaussian.",
        "mean: the strongest attack is negation, 0.900 (0.100 without attack)",
    ]
    grid = pictures.finals(board)
    assert grid.framed == [(1, 3)] and (grid.share(1), grid.share(0)) == (1, 0)
    assert as_dicts(tables.table(arena, [board]))[1]["test_loss"] == "0.9"
    (read,) = tables.from_json(tables.to_json(arena, [board]))
    assert verdict.verdict(read) == verdict.verdict(board)
    pictures.draw_heat_maps([board], tmp_path / "loss.png", "title", "note")

    diverge(arena, tmp_path, 2)
    (board,) = results.read_boards(arena, tmp_path)
    assert board.worst("mean").values == (math.inf,)
    assert pictures.finals(board).share(math.inf) == 1
    pictures.draw_heat_maps([board], tmp_path / "lost.png", "title", "note")


def test_tiny_losses_do_not_tie_and_huge_ones_fit_into_their_cells(tmp_path):
    arena = Arena("smoke", ("mean", "median"), ("gaussian",), task="lstm")
    losses = {("mean", CLEAN): 3e-5, ("median", CLEAN): 4e-5, ("median", "gaussian"): 5e-5}
    store(arena, tmp_path, {**losses, ("mean", "gaussian"): 1e30})
    (board,) = results.read_boards(arena, tmp_path)
    assert verdict.verdict(board) == [
        "Best worst case: median, 5.00e-05 under gaussian.",
        "mean: the strongest attack is gaussian, 1.00e+30 (3.00e-05 without attack)",
        "median: the strongest attack is gaussian, 5.00e-05 (4.00e-05 without attack)",
    ]
    assert pictures.finals(board).texts[0] == ["3.00e-05", "1.00e+30", "1.00e+30\ngaussian"]


@pytest.mark.parametrize("loss, curve", [(0.5, [0.52, 0.52]), (math.inf, [None, None])])
def test_one_diverged_seed_of_two_makes_a_loss_infinite_and_its_json_null(tmp_path, loss, curve):
    choices = dict(rules=("mean",), attacks=("negation",), repeats=2)
    arena = Arena("smoke", task="lstm", **choices, changes={"epochs": 2, "eval_every": 1})
    store(arena, tmp_path, {("mean", CLEAN): 0.1, ("mean", "negation"): loss})
    diverge(arena, tmp_path, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (board,) = results.read_boards(arena, tmp_path)
        assert board.worst("mean").spread == math.inf
        assert pictures.finals(board).texts[0][1] == "inf\n±inf\n1 diverged"
    text = tables.to_json(arena, [board])
    cell = json.loads(text, parse_constant=pytest.fail)["boards"][0]["cells"][1]
    assert (cell["mean"], cell["spread"], cell["diverged"]) == (None, None, 1)
    assert cell["runs"][1]["test_loss"] == curve
    (read,) = tables.from_json(text)
    assert read.scores["mean", "negation"].values == (math.inf, curve[1] or math.inf)
    assert verdict.verdict(read) == verdict.verdict(board)


def test_missing_and_diverged_runs_are_shown_as_such(tmp_path):
    arena = small()
    store(arena, tmp_path, {k: v for k, v in ACCURACY.items() if k != ("mean", "gaussian")})
    diverge(arena, tmp_path, 8)
    (board,) = results.read_boards(arena, tmp_path)
    score = board.scores["mean", "negation"]
    assert (score.values, score.diverged) == ((0.0,), 1)
    assert board.worst("mean") is None
    said = verdict.verdict(board)
    assert "mean: no verdict, runs are missing" in said and "1 of 6 runs are missing" in said
    assert said[0].startswith("Best worst case so far, of 1 of 2 rules: median, ")
    assert not pictures.finals(board).framed
    assert len(results.missing_runs([board])) == 1
    table = as_dicts(tables.table(arena, [board]))
    assert [row["seeds"] for row in table] == ["1", "1", "0", "1", "1", "1"]
    assert table[2]["test_accuracy"] == "" and table[1]["diverged"] == "1"


def test_a_cell_that_lacks_seeds_says_so_everywhere(tmp_path):
    arena = small(repeats=3)
    store(arena, tmp_path)
    (setting,) = arena.settings
    cells = {(cell.rule, cell.attack): cell for cell in arena.cells(setting)}
    for run in cells["mean", "negation"].runs[1:]:
        shutil.rmtree(tmp_path / run.slug)
    folders = {run: tmp_path / run.slug for run in arena.runs() if (tmp_path / run.slug).exists()}
    for board in (*results.read_boards(arena, tmp_path), *find_boards(folders)):
        said = verdict.verdict(board)
        assert "2 of 18 runs are missing: a mean is over the seeds that are there" in said
        assert said[0].startswith("Best worst case so far: median")
        grid = pictures.finals(board)
        assert not grid.framed
        row, column = grid.rules.index("mean"), grid.columns.index("negation")
        assert grid.texts[row][column] == "0.100\n1 of 3 seeds"
        assert "seeds" not in grid.texts[row][0]
        curve = pictures.cell_curve(board, ("mean", "negation"), "mean", 0)
        assert curve.remark == "2 of 3 missing"


def test_a_run_that_diverged_early_shows_which_pushes_it_used(tmp_path):
    arena = small(rules=("mean",), attacks=("negation",))
    store(arena, tmp_path)
    diverge(arena, tmp_path, 2)
    run = next(cell for cell in arena.cells(arena.settings[0]) if cell.attack == "negation").runs[0]
    rows = [Pushes(t, tuple(range(run.k)), (0, 1), (1.0,) * run.k) for t in (1, 2)]
    (tmp_path / run.slug / "pushes.csv").write_text(to_text(rows))
    (board,) = results.read_boards(arena, tmp_path)
    assert board.scores["mean", "negation"].poisoned_used == 1.0


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content["boards"][0].update(alpha=None),
        lambda content: content["boards"][0]["cells"].pop(),
        lambda content: content["boards"][0]["cells"].clear(),
        lambda content: content["boards"][0]["cells"][0]["runs"][0].update(epoch=["x"]),
        lambda content: content["boards"][0]["cells"][0]["runs"][0].update(epoch=[]),
        lambda content: content["boards"][0]["cells"][0].update(attack=3),
    ],
)
def test_damaged_numbers_are_one_sentence(tmp_path, damage):
    arena = small()
    store(arena, tmp_path)
    content = json.loads(tables.to_json(arena, results.read_boards(arena, tmp_path)))
    damage(content)
    with pytest.raises(RunError, match="not the numbers of slsgd-mx arena"):
        tables.from_json(json.dumps(content))


def test_used_pushes_are_means_over_the_last_half_and_seeds(tmp_path):
    arena = small(rules=("mean",), attacks=("negation",), repeats=2)
    store(arena, tmp_path)
    _, attacked = arena.cells(arena.settings[0])
    for seed, run in enumerate(attacked.runs):
        rows = []
        for t in range(1, run.epochs + 1):
            late = 2 * t > run.epochs
            used = None if t == run.epochs else (0.2 * seed if late else 1.0, 0.5 if late else 0.0)
            rows.append(Pushes(t, (7, 9), (0,), used))
        (tmp_path / run.slug / "pushes.csv").write_text(to_text(rows))
    (board,) = results.read_boards(arena, tmp_path)
    score, clean = board.scores["mean", "negation"], board.scores["mean", CLEAN]
    assert (score.poisoned_used, score.honest_lost) == pytest.approx((0.1, 0.5))
    assert math.isnan(clean.poisoned_used) and math.isnan(clean.honest_lost)  # not recorded
    rows = as_dicts(tables.table(arena, [board]))
    shares = [(row["poisoned_used"], row["honest_lost"], row["attack_success"]) for row in rows]
    assert shares == [("", "", ""), ("0.1", "0.5", "")]
    cell = json.loads(tables.to_json(arena, [board]))["boards"][0]["cells"][1]
    assert (cell["poisoned_used"], cell["attack_success"]) == (pytest.approx(0.1), None)


def test_the_success_of_a_backdoor_is_a_column(tmp_path):
    arena = small(rules=("mean",), attacks=("backdoor",))
    store(arena, tmp_path, {("mean", "backdoor"): 0.7})
    (board,) = results.read_boards(arena, tmp_path)
    assert board.scores["mean", "backdoor"].attack_success == 0.5  # as made up


def test_the_verdict_compares_alphas(tmp_path):
    arena = small(alphas=(0.8, 1.0))
    for alpha, better in ((0.8, 0.05), (1.0, 0.0)):
        changed = {key: value + better * (key[0] == "mean") for key, value in ACCURACY.items()}
        store(small(alphas=(alpha,)), tmp_path, changed)
    boards = results.read_boards(arena, tmp_path)
    line = (
        "Moving average (balanced, q=2, b=2): the best worst case is 0.600 with alpha=0.8 "
        "(median), 0.600 with alpha=1 (median); alpha=0.8 improves the worst case of 1 of 2 rules."
    )
    assert verdict.compare_alphas(boards) == [line]
    assert json.loads(tables.to_json(arena, boards))["alphas"] == [line]
    assert verdict.compare_alphas(boards[:1]) == []


def test_an_alpha_that_never_acts_is_computed_once_and_not_compared(tmp_path):
    late = {"alpha_decay_epoch": 8}
    arena, usual = small(alphas=(1.0, 0.8), changes=late), small(changes=late)
    assert arena.runs() == usual.runs() and usual.warnings() == []
    (said,) = arena.warnings()
    assert "alpha decays after epoch 8, but runs end at T=8" in said
    store(arena, tmp_path)
    assert verdict.compare_alphas(results.read_boards(arena, tmp_path)) == []
    constant = small(alphas=(0.8,), changes={**late, "alpha_schedule": "constant"})
    assert {run.alpha for run in constant.runs()} == {0.8} and constant.warnings() == []


def test_json_holds_the_curves_behind_every_cell(tmp_path):
    arena = small(alphas=(1.0, 0.8))
    store(arena, tmp_path)
    boards = results.read_boards(arena, tmp_path)
    content = json.loads(tables.to_json(arena, boards))
    assert [board["alpha"] for board in content["boards"]] == [1.0, 0.8]
    cell = content["boards"][0]["cells"][1]
    assert (cell["rule"], cell["attack"], cell["mean"]) == ("mean", "negation", 0.1)
    assert cell["runs"][0]["test_accuracy"] == [0.1] * len(cell["runs"][0]["epoch"])


def test_the_data_are_those_of_the_runs_not_of_the_preset(tmp_path):
    for preset, data in (("laptop", "synthetic"), ("smoke", "cifar10")):
        arena = Arena(preset, rules=("mean",), attacks=("ipm",), changes={"data": data})
        boards = results.read_boards(arena, tmp_path)
        assert [board.data for board in tables.from_json(tables.to_json(arena, boards))] == [data]


def test_table_is_readable_as_csv(tmp_path):
    from slsgd_mx.system.files import write_csv

    arena = small()
    store(arena, tmp_path)
    boards = results.read_boards(arena, tmp_path)
    write_csv(tmp_path / "a.csv", *tables.table(arena, boards))
    with open(tmp_path / "a.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6 and rows[0]["rule"] == "mean" and rows[0]["test_accuracy"] == "0.9"
