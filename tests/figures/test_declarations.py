"""The declarations against the paper's table, the sizes they are made at, the runs they share."""

from dataclasses import replace

import pytest

from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.declarations import (
    FIGURES,
    Reach,
    Size,
    attacked,
    groups,
    legend,
    loss_to_reach,
    runs_of,
)
from slsgd_mx.presets import SCALES, preset
from slsgd_mx.runs.prefix import prefix_of

PAPER = Size("paper", {}, repeats=1)
NO_ATTACK = [(1, 0), (0.8, 0), (1, 2), (0.8, 2)]
Q2 = [(1, 0), (1, 2), (0.8, 2), (1, 4), (0.8, 4)]
Q4 = [(1, 0), (1, 4), (0.8, 4)]
IDEAL = (0.1, 0, 1, 0)

# (gamma, q, alpha, b) of the curves, group by group, typed from the paper's captions
BOTH = [(0.1, 0, a, b) for a, b in NO_ATTACK] + [(0.05, 0, a, b) for a, b in NO_ATTACK]
FLIPPED = [
    [IDEAL] + [(0.1, 2, a, b) for a, b in Q2],
    [IDEAL] + [(0.1, 4, a, b) for a, b in Q4],
]
LSTM_Q2 = [(20, 0, 1, 0)] + [(20, 2, a, b) for a, b in Q2]
CURVES = {
    "fig1": ("balanced", [BOTH]),
    "fig2": ("unbalanced", [BOTH]),
    "fig3": ("balanced", FLIPPED),
    "fig4": ("unbalanced", FLIPPED),
    "fig7": ("balanced", [BOTH[:4], BOTH[4:]]),
    "fig8": ("unbalanced", [BOTH[:4], BOTH[4:]]),
    "fig9": ("balanced", FLIPPED),
    "fig10": ("unbalanced", FLIPPED),
    "fig11": ("shuffled", [[(20, 0, a, b) for a, b in NO_ATTACK]]),
    "fig12": ("shuffled", [LSTM_Q2]),
    "fig13": ("shuffled", [[c for c in LSTM_Q2 if c[3] >= c[1]]]),
}


def test_there_are_thirteen_figures_and_the_ledger():
    assert list(FIGURES) == [f"fig{n}" for n in range(1, 14)] + ["ledger"]
    assert set(CURVES) | {"fig5", "fig6", "ledger"} == set(FIGURES)


@pytest.mark.parametrize("name", CURVES)
def test_the_curves_are_the_papers(name):
    partition, expected = CURVES[name]
    made = groups(FIGURES[name], PAPER).values()
    assert [
        [(run.gamma, run.q, run.alpha, run.b) for line in group for run in line.runs]
        for group in made
    ] == expected
    runs = runs_of(FIGURES[name], PAPER)
    assert {run.sizes.partition for run in runs} == {partition}
    assert {run.epochs for run in runs} == {800}
    decay = 600 if FIGURES[name].task == "lstm" else 400
    assert {(run.alpha_schedule, run.alpha_decay_epoch) for run in runs} == {("step", decay)}
    assert {run.attacker_start for run in runs if run.q} <= {"fresh"}


def test_figure_5_is_the_papers():
    lines = groups(FIGURES["fig5"], PAPER)[""]
    assert [line.label for line in lines] == ["$b=2$", "$b=3$", "$b=4$"]
    for b, line in zip((2, 3, 4), lines):
        assert {(r.b, r.q, r.gamma, r.sizes.partition, r.passes) for r in line.runs} == {
            (b, 2, 0.1, "unbalanced", 1)
        }
        assert [[r.alpha_at(t) for t in (1, 400, 401, 800)] for r in line.runs] == [
            [alpha] * 4 for alpha in SCALES["paper"].alphas
        ]
    assert loss_to_reach(FIGURES["fig5"], PAPER) == 0.5


def test_figure_6_is_the_papers():
    lines = groups(FIGURES["fig6"], PAPER)[""]
    assert [line.label for line in lines] == ["pass=1", "pass=2", "pass=3"]
    for passes, line in zip((1, 2, 3), lines):
        assert {(r.b, r.q, r.gamma, r.sizes.partition, r.passes) for r in line.runs} == {
            (0, 0, 0.1, "balanced", passes)
        }
    assert loss_to_reach(FIGURES["fig6"], PAPER) == 0.003
    assert loss_to_reach(FIGURES["fig6"], Size("paper", {}, loss=1.5)) == 1.5


def test_other_alphas_on_the_x_axis():
    size = Size("laptop", {}, repeats=1, at=(1.0, 0.5))
    for line in groups(FIGURES["fig5"], size)[""]:
        assert [(run.alpha, run.alpha_at(1)) for run in line.runs] == [(0.5, 0.5), (1.0, 1.0)]


def test_the_ledger_changes_nothing_but_the_start():
    fresh, pulled = (
        [run for line in group for run in line.runs]
        for group in groups(FIGURES["ledger"], PAPER).values()
    )
    assert [(r.q, r.b, r.attacker_start) for r in fresh] == [
        (0, 0, None),
        (2, 0, "fresh"),
        (2, 2, "fresh"),
    ]
    assert pulled[0] == fresh[0]
    assert pulled[1:] == [replace(run, attacker_start="pulled") for run in fresh[1:]]
    assert set(fresh) <= set(runs_of(FIGURES["fig3"], PAPER))


@pytest.mark.parametrize("zoomed, whole", [(7, 1), (8, 2), (9, 3), (10, 4), (13, 12)])
def test_zoomed_figures_need_no_runs_of_their_own(zoomed, whole):
    names = f"fig{zoomed}", f"fig{whole}"
    inner, outer = (set(runs_of(FIGURES[name], PAPER)) for name in names)
    assert inner <= outer and (inner == outer or zoomed == 13)


def test_fedavg_without_attack_is_one_run_for_all():
    (fedavg,) = [preset("cifar", "paper", gamma=0.1)]
    using = [name for name in FIGURES if fedavg in runs_of(FIGURES[name], PAPER)]
    assert using == ["fig1", "fig3", "fig6", "fig7", "fig9", "ledger"]


@pytest.mark.parametrize("name", ["laptop", "smoke"])
def test_figures_5_and_6_begin_as_others_do_where_they_are_cut(name):
    """With alpha=1 they are the beginning that the runs of Figures 4 and 1 share."""
    size = Size(name, {}, repeats=1)
    for reach, curves, count in (("fig5", "fig4", 2), ("fig6", "fig1", 1)):
        beginnings = {prefix_of(run) for run in runs_of(FIGURES[curves], size)}
        assert len(beginnings & set(runs_of(FIGURES[reach], size))) == count


@pytest.mark.parametrize("name", SCALES)
def test_every_seed_is_a_run_of_its_own(name):
    size = Size(name, {}, repeats=3, seed=5)
    for figure in FIGURES.values():
        for group in groups(figure, size).values():
            for line in group:
                points = len(size.alphas) if isinstance(figure, Reach) else 1
                assert [run.seed for run in line.runs] == [5, 6, 7] * points
    repeats = {"paper": 10, "laptop": 3, "smoke": 1}
    assert list(Size(name, {}).seeds) == list(range(repeats[name]))


def test_changes_reach_every_run_and_the_decay_moves_along():
    size = Size("paper", {"epochs": 80, "n": 50, "train_images": 1000, "loss_images": 1000})
    for name in ("fig1", "fig4", "fig5"):
        for run in runs_of(FIGURES[name], size):
            assert (run.n, run.epochs, run.alpha_decay_epoch) == (50, 80, 40)
            assert run.sizes.train_images == 1000
    text = runs_of(FIGURES["fig11"], Size("paper", {"epochs": 80}))
    assert {run.alpha_decay_epoch for run in text} == {60}
    given = runs_of(FIGURES["fig1"], Size("paper", {"epochs": 80, "alpha_decay_epoch": 20}))
    assert {run.alpha_decay_epoch for run in given} == {20}


def test_where_alpha_never_decays_curves_are_one_run():
    size = Size("smoke", {"epochs": 2, "alpha_decay_epoch": 2}, repeats=1)
    assert len(runs_of(FIGURES["fig11"], size)) == 2  # b=0 and b=2
    assert {run.alpha for run in runs_of(FIGURES["fig11"], size)} == {1.0}


def test_another_attack_reaches_the_attacked_only():
    size = Size("paper", {"attack": "negation"}, repeats=1)
    runs = runs_of(FIGURES["fig3"], size)
    assert {run.attack for run in runs if run.q} == {"negation"}
    assert {run.attack for run in runs if not run.q} == {None}
    assert [name for name in FIGURES if attacked(FIGURES[name])] == [
        f"fig{n}" for n in (3, 4, 5, 9, 10, 12, 13)
    ] + ["ledger"]


@pytest.mark.parametrize(
    "name, changes, said",
    [
        ("fig1", dict(gamma=0.05, alpha=1, b=0), r"FedAvg, $\gamma=0.05$"),
        ("fig1", dict(gamma=0.1, alpha=1, b=2), r"SLSGD, $\gamma=0.1$, $\alpha=1$, $b=2$"),
        ("fig3", dict(gamma=0.1, alpha=1, b=0), r"FedAvg, $\gamma=0.1$, no attack"),
        ("fig3", dict(gamma=0.1, alpha=1, b=0, q=2), r"FedAvg, $\gamma=0.1$"),
        ("fig12", dict(alpha=0.8, b=4, q=2), r"SLSGD, $\alpha=0.8$, $b=4$"),
    ],
)
def test_the_legend_has_the_papers_wording(name, changes, said):
    assert legend(FIGURES[name], changes) == said


@pytest.mark.parametrize(
    "wrong, said",
    [
        (dict(preset="tiny", changes={}), "preset='tiny' is unknown: choose one of paper, laptop"),
        (dict(preset="smoke", changes={}, repeats=0), "repeats=0 is out of range"),
    ],
)
def test_wrong_sizes(wrong, said):
    with pytest.raises(ConfigError, match=said):
        Size(**wrong)


@pytest.mark.parametrize("changes", [{"eval_every": 0, "epochs": 4}, {"k": 3}, {"epochs": 0}])
def test_wrong_changes_name_the_legal_range(changes):
    with pytest.raises(ConfigError, match="out of range"):
        runs_of(FIGURES["fig4"], Size("smoke", changes))
