"""Some curves of a figure, chosen by their symbols."""

import pytest

from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.variants import Variant, groups, runs_of


def chosen(name, *where):
    variant = Variant("smoke", {}, repeats=2, where=where)
    found = groups(FIGURES[name], variant)
    return {group: [line.label for line in lines] for group, lines in found.items()}


def test_without_conditions_every_curve_is_there():
    assert [len(lines) for lines in chosen("fig3").values()] == [6, 4]


@pytest.mark.parametrize(
    "where, shown",
    [
        (["b=2"], {"$q=2$": 2}),
        (["q=0"], {"$q=2$": 1}),  # the same curve in both groups is shown once
        (["q<=2"], {"$q=2$": 6}),  # q=4 would show the curve without attack only
        (["q!=2"], {"$q=4$": 4}),
        (["alpha=1"], {"$q=2$": 4, "$q=4$": 3}),
        (["attack=label-flip", "b>=4"], {"$q=2$": 2, "$q=4$": 2}),
    ],
)
def test_conditions_on_figure_3(where, shown):
    found = chosen("fig3", *where)
    assert {group: len(labels) for group, labels in found.items()} == shown


def test_figures_over_alpha_have_lines_to_choose():
    assert chosen("fig5", "b>2") == {"": ["$b=3$", "$b=4$"]}
    assert chosen("fig6", "passes=2") == {"": ["pass=2"]}


@pytest.mark.parametrize(
    "name, where, why",
    [
        ("fig3", "b=7", "no curve fulfils 'b=7': b is 0, 2, 4; q is 0, 2, 4; alpha is 0.8, 1"),
        ("fig3", "status=done", "'status=done' is no condition on curves: name a symbol"),
        ("fig3", "epoch=0", "'epoch=0' is no condition on curves"),
        ("fig3", "seed=1", "'seed=1' holds for some runs of a curve only, and --where chooses"),
        ("fig5", "alpha<1", "--alphas the x-axis of Figures 5 and 6"),
        ("fig3", "colour=red", "'colour=red' names no symbol: choose one of task, data"),
        ("fig3", "b", "'b' is not a condition"),
        ("fig3", "b>x", "needs a number"),
    ],
)
def test_a_condition_that_chooses_nothing_says_why(name, where, why):
    with pytest.raises(ConfigError) as error:
        chosen(name, where)
    assert why in str(error.value)


def test_chosen_runs_are_those_of_the_whole_figure():
    whole, some = (
        runs_of(FIGURES["fig4"], Variant("laptop", {}, where=where)) for where in ((), ("b=2",))
    )
    assert set(some) < set(whole) and len(some) == 2 * 3


def test_different_conditions_have_different_folders():
    conditions = ["b=2", "b<=2", "b>=2", "b<2", "b>2", "b!=2"]
    folders = {Variant("smoke", {}, where=(text,)).folder for text in conditions}
    assert len(folders) == len(conditions)
    assert Variant("smoke", {}, where=("q<=2", "b<=2")).folder == "smoke-where-q-to-2-b-to-2"
