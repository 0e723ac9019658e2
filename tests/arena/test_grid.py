"""The arena's cells: what is computed, what is empty and why; no MXNet."""

from dataclasses import replace

import pytest
from helpers.arena import ACCURACY, small

from slsgd_mx.arena.grid import CLEAN, Arena, Setting, why_illegal
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.rules import RULES, Rule
from slsgd_mx.runs.prefix import prefix_of
from slsgd_mx.tasks.problems.sizes import Problem


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


def test_two_spellings_of_a_rule_are_one_row():
    arena = small(rules=("bucketing:s=2+median", "bucketing+median"))
    assert arena.rules == ("bucketing+median",)


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
    several = small(rules=("bulyan", "krum"), attacks=("ipm",), bs=(2, 4)).empty_cells()
    assert [name for name in several if name.startswith("krum")] == [
        "krum / none (balanced, q=2, b=4, alpha=1)", "krum / ipm (balanced, q=2, b=4, alpha=1)"
    ]  # fmt: skip
    assert len(several) == 6 and "b=2 is out of range" in list(several.values())[0]
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


@pytest.mark.parametrize(
    "task, epochs, decay", [("cifar", 8, 4), ("cifar", 10, 4), ("lstm", 40, 30), ("lstm", 20, 14)]
)
def test_alpha_decays_in_proportion_in_an_evaluated_epoch(task, epochs, decay):
    attacks = ("negation",)
    arena = Arena("smoke", task=task, attacks=attacks, alphas=(0.8,), changes={"epochs": epochs})
    assert {run.alpha_decay_epoch for run in arena.runs()} == {decay}
    assert all(prefix_of(run) is not None for run in arena.runs())
    assert arena.warnings() == []
