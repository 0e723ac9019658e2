"""The arena's cells, scores, tables, verdicts and pictures, from stored runs; no MXNet."""

import csv
import json
import math
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.run_folders import store_run

from slsgd_mx.arena import pictures, results, tables, verdict
from slsgd_mx.arena.grid import CLEAN, Arena, Setting, why_illegal
from slsgd_mx.arena.stored import find_boards
from slsgd_mx.cli import main
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.rules import RULES, Rule
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.prefix import prefix_of
from slsgd_mx.runs.pushes import Pushes, to_text
from slsgd_mx.tasks.problems.sizes import Problem

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


def as_dicts(table):
    columns, rows = table
    return [dict(zip(columns, row)) for row in rows]


def store(arena, home, values=ACCURACY):
    """Store all runs of an arena; seeds differ by 0.02."""
    for setting in arena.settings:
        for cell in arena.cells(setting):
            for run in cell.runs:
                value = values.get((cell.rule, cell.attack))
                if value is not None:
                    final = value + 0.02 * (run.seed - arena.seed)
                    points = run.epochs // run.eval_every
                    store_run(home, run, [final] * points)


def diverge(arena, home, epoch):
    """Let the model of the first run under negation stop being finite."""
    cell = next(c for c in arena.cells(arena.settings[0]) if c.attack == "negation")
    folder = RunFolder(home / cell.runs[0].slug, cell.runs[0])
    (folder.path / "DONE").unlink()
    with pytest.raises(Exception, match="stopped being finite"):
        folder.mark_diverged(epoch)


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
    assert verdict.verdict(board) == [
        "Best worst case: median, 0.610 under gaussian.",
        "mean: the strongest attack is negation, 0.110 (0.910 without attack)",
        "median: the strongest attack is gaussian, 0.610 (0.810 without attack)",
    ]
    assert results.missing_runs([board]) == []


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
    assert "mean: no verdict, runs are missing" in verdict.verdict(board)
    assert len(results.missing_runs([board])) == 1
    table = as_dicts(tables.table(arena, [board]))
    assert [row["seeds"] for row in table] == ["1", "1", "0", "1", "1", "1"]
    assert table[2]["test_accuracy"] == "" and table[1]["diverged"] == "1"


def test_an_attack_that_does_not_fit_is_an_empty_cell_with_the_reason():
    attacks = ("backdoor:target=10", "alie:z=auto", "alie-optimal", "negation")
    arena = small(rules=("mean",), attacks=attacks, servers=2)
    why = {c.attack: c.why_empty for c in arena.cells(arena.settings[0])}
    assert why == {
        CLEAN: "",
        "backdoor:target=10": "attack backdoor:target=10 needs 0 <= target <= 9, a class of the "
        "images",
        "alie:z=auto": "attack alie:z=auto needs z > 0, and z=auto gives 0 for k=10, q=2",
        "alie-optimal": "attack alie-optimal compares whole models: needs servers = 1, not 2",
        "negation": "",
    }
    assert arena.empty_cells() == {f"mean / {a}": text for a, text in why.items() if text}
    with pytest.raises(ConfigError, match="no cell of this arena can be computed: b=4"):
        small(rules=("krum",), bs=(4,)).runs()


def test_an_attack_that_needs_another_rule_or_more_honest_pushes_leaves_an_empty_cell():
    config, setting = RunConfig(sizes=Problem()), Setting("balanced", 2, 2, 1.0)
    why = "attack worst-case needs a rule that treats each coordinate by itself, not krum"
    for one in (setting, replace(setting, q=0, poisoned_devices=20)):
        assert why_illegal(config, one, "krum", "worst-case") == why
        assert why_illegal(config, one, "median", "worst-case") is None
    arena = small(attacks=("alie", "negation"), qs=(9,))
    why = {c.attack: c.why_empty for c in arena.cells(arena.settings[0])}
    few = "attack alie needs k - q >= 2 honest pushes, and k=10, q=9 leaves 1"
    assert why == {CLEAN: "", "alie": few, "negation": ""}


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


@pytest.mark.parametrize(
    "task, epochs, decay", [("cifar", 8, 4), ("cifar", 10, 4), ("lstm", 40, 30), ("lstm", 20, 14)]
)
def test_alpha_decays_in_proportion_in_an_evaluated_epoch(task, epochs, decay):
    attacks = ("negation",)
    arena = Arena("smoke", task=task, attacks=attacks, alphas=(0.8,), changes={"epochs": epochs})
    assert {run.alpha_decay_epoch for run in arena.runs()} == {decay}
    assert all(prefix_of(run) is not None for run in arena.runs())
    assert arena.warnings() == []


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


def test_table_is_readable_as_csv(tmp_path):
    from slsgd_mx.system.files import write_csv

    arena = small()
    store(arena, tmp_path)
    boards = results.read_boards(arena, tmp_path)
    write_csv(tmp_path / "a.csv", *tables.table(arena, boards))
    with open(tmp_path / "a.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6 and rows[0]["rule"] == "mean" and rows[0]["test_accuracy"] == "0.9"


def test_pictures_of_another_arena_go_to_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = "arena --preset smoke --rule mean --rule median --attack ipm --epochs 1 --draw-only"
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == 1 and "not finished" in result.output  # no run is there
    assert [path.name for path in Path("figures").iterdir()] == [
        "smoke-attack-ipm-epochs-1-rule-mean-median"
    ]


def test_several_seeds_do_not_overwrite_the_arena_of_one(tmp_path, monkeypatch):
    """Three are what the figures of this preset have; an arena has one."""
    monkeypatch.chdir(tmp_path)
    for more in ("", " --repeats 2", " --repeats 3"):
        line = f"arena --preset laptop --rule mean --attack ipm --draw-only{more}"
        assert CliRunner().invoke(main, line.split()).exit_code == 1  # no run is there
    assert sorted(path.name for path in Path("figures").iterdir()) == [
        "laptop-attack-ipm-repeats-2-rule-mean",
        "laptop-attack-ipm-repeats-3-rule-mean",
        "laptop-attack-ipm-rule-mean",
    ]


def test_boards_of_poisoned_devices_are_found_among_runs(tmp_path):
    grids = small(poisoned_devices=(3, 5)), small(qs=(2,))
    for arena in grids:
        store(arena, tmp_path)
    runs = {run: tmp_path / run.slug for arena in grids for run in arena.runs()}
    found = {board.setting.threat: board for board in find_boards(runs)}
    assert sorted(found) == ["3 poisoned devices", "5 poisoned devices", "q=2"]
    for arena in grids:
        for expected in results.read_boards(arena, tmp_path):
            board = found[expected.setting.threat]
            assert {k: s.values for k, s in board.scores.items()} == {
                k: s.values for k, s in expected.scores.items()
            }


def test_attacks_of_almost_the_same_scale_are_not_repeats_of_each_other(tmp_path):
    attacks = ("gaussian:scale=0.12345671", "gaussian:scale=0.12345672")
    arena = small(attacks=attacks)
    store(arena, tmp_path, {("mean", attacks[0]): 0.2, ("mean", attacks[1]): 0.4})
    (board,) = find_boards({run: tmp_path / run.slug for run in arena.runs()})
    assert board.columns == (CLEAN, *attacks)
    assert [board.scores["mean", attack].values for attack in attacks] == [(0.2,), (0.4,)]


def test_boards_say_what_was_trained_and_how_many_devices_were_poisoned(tmp_path):
    arena = small(poisoned_devices=(3,), changes={"k": 8})
    store(arena, tmp_path)
    (stored,) = tables.from_json(tables.to_json(arena, results.read_boards(arena, tmp_path)))
    assert str(stored.setting) == "balanced, 3 poisoned devices, b=2, alpha=1"
    assert stored.workload == "cifar, preset smoke, k=8"
    (found,) = find_boards({run: tmp_path / run.slug for run in arena.runs()})
    assert found.setting.threat == stored.setting.threat
    assert found.workload.startswith("cifar, n=20, k=8, T=8, ")


def test_runs_of_different_versions_of_a_plugin_are_not_repeats_of_each_other(tmp_path):
    arena = small(attacks=("negation",))
    runs = {}
    for run in arena.runs():
        for digest in ("1" * 64, "2" * 64) if run.rule == "median" else (None,):
            stored = replace(run)
            if digest:
                object.__setattr__(stored, "sources", (("mine.py", digest),))
            store_run(tmp_path, stored, [0.5] * (run.epochs // run.eval_every))
            runs[stored] = tmp_path / stored.slug
    boards = find_boards(runs)
    assert [len(s.values) for board in boards for s in board.scores.values()] == [1] * 8
    endings = [board.workload.rpartition(", ")[2] for board in boards]
    assert endings == ["mine.py (111111111111)", "mine.py (222222222222)"]
