"""Arenas found among stored runs, whoever computed them; no MXNet."""

from dataclasses import replace

import pytest
from helpers.arena import small, store
from helpers.run_folders import store_run

from slsgd_mx.arena import results, stored, tables
from slsgd_mx.arena.grid import CLEAN
from slsgd_mx.arena.stored import find_boards
from slsgd_mx.errors import RunError


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


def test_arenas_that_differ_in_one_symbol_have_different_titles(tmp_path):
    changes = [{}, {"gamma": 0.05}, {"drop_rate": 0.1}, {"width": 3}]
    arenas = [small(changes=each) for each in changes]
    for arena in arenas:
        store(arena, tmp_path)
    found = find_boards({run: tmp_path / run.slug for arena in arenas for run in arena.runs()})
    ends = [board.workload.split(", ")[-3:] for board in found]
    wanted = [(0.1, 0, 16), (0.05, 0, 16), (0.1, 0.1, 16), (0.1, 0, 3)]
    assert ends == [[f"gamma={g}", f"drop_rate={d}", f"width={w}"] for g, d, w in wanted]


def test_too_many_versions_of_plugins_are_refused(tmp_path, monkeypatch):
    arena = small(attacks=("negation",))
    store(arena, tmp_path)
    monkeypatch.setattr(stored, "MOST_VERSIONS", 0)
    with pytest.raises(RunError, match="0 plug-ins have 1 combinations of versions, more than 0"):
        find_boards({run: tmp_path / run.slug for run in arena.runs()})


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
