"""The declarations against the paper's table, their variants, and the runs they share."""

from dataclasses import replace

import pytest

from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.declarations import FIGURES, ReachFigure, attacked, legend
from slsgd_mx.figures.variants import FIGURE_PRESETS, Variant, groups, loss_to_reach, runs_of
from slsgd_mx.presets import NAMES, preset
from slsgd_mx.runs.prefix import prefix_of

PAPER = Variant("paper", {}, repeats=1)
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
    "fig1": ("balanced", [BOTH[:4], BOTH[4:]]),
    "fig2": ("unbalanced", [BOTH[:4], BOTH[4:]]),
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


def test_the_papers_thirteen_figures_come_first():
    assert list(FIGURES)[:13] == [f"fig{n}" for n in range(1, 14)]
    assert set(CURVES) | {"fig5", "fig6"} == set(list(FIGURES)[:13])
    assert tuple(FIGURE_PRESETS) == NAMES


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
            [alpha] * 4 for alpha in FIGURE_PRESETS["paper"].alphas
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
    assert loss_to_reach(FIGURES["fig6"], Variant("paper", {}, loss=1.5)) == 1.5


@pytest.mark.parametrize("loss", [0.0, -1.0, float("inf"), float("nan")])
def test_a_loss_that_no_run_can_be_asked_to_reach(loss):
    with pytest.raises(ConfigError, match=f"loss={loss} is out of range: needs 0 < loss < inf"):
        Variant("paper", {}, loss=loss)


def test_other_alphas_on_the_x_axis():
    variant = Variant("laptop", {}, repeats=1, at=(1.0, 0.5))
    for line in groups(FIGURES["fig5"], variant)[""]:
        assert [(run.alpha, run.alpha_at(1)) for run in line.runs] == [(0.5, 0.5), (1.0, 1.0)]


def test_attacker_start_changes_only_the_start_and_the_boost():
    fresh, pulled, boosted = (
        [run for line in group for run in line.runs]
        for group in groups(FIGURES["attacker-start"], PAPER).values()
    )
    assert [(r.q, r.b, r.attacker_start, r.boost) for r in fresh] == [
        (0, 0, None, 1),
        *((q, b, "fresh", 1) for q, b in ((2, 0), (2, 2), (2, 4), (4, 4))),
    ]
    lines = groups(FIGURES["attacker-start"], PAPER)["fresh start"]
    assert ["q=" in line.label for line in lines] == [False] * 4 + [True]  # the title has q=2
    assert pulled[0] == boosted[0] == fresh[0]
    assert pulled[1:] == [replace(run, attacker_start="pulled") for run in fresh[1:]]
    assert boosted[1:] == [replace(run, boost=5) for run in fresh[1:]]
    assert set(fresh) <= set(runs_of(FIGURES["fig3"], PAPER))


def test_figures_5_and_6_have_sizes_of_their_own_at_laptop_scale():
    for name, epochs in (("fig5", 60), ("fig6", 24)):
        for run in runs_of(FIGURES[name], Variant("laptop", {})):
            assert (run.epochs, run.eval_every, run.alpha_schedule) == (epochs, 1, "constant")
        shorter = runs_of(FIGURES[name], Variant("laptop", {"epochs": 10}))
        assert {(run.epochs, run.eval_every) for run in shorter} == {(10, 1)}


def test_released_sets_every_switch_of_the_released_code():
    switches = dict(selection="permutation", nonfinite="keep", warm_up=True, partition_seed=0)
    for name, attack in (("fig3", "label-flip"), ("fig12", "label-shift")):
        for variant in (Variant("paper", {}, 2, released=True), Variant("paper", {}, 2)):
            for run in runs_of(FIGURES[name], variant):
                changed = {key: getattr(run, key) for key in switches}
                assert (changed == switches) == variant.released
                if run.q and variant.released:
                    assert (run.attack, run.attacker_start) == (attack, "fresh")
    overridden = Variant("paper", {"nonfinite": "reject"}, released=True)
    for name, decay, every in (("paper", 599, 10), ("laptop", 23, 2)):  # the LSTM's
        for run in runs_of(FIGURES["fig12"], Variant(name, {}, 1, released=True)):
            assert (run.alpha_decay_epoch, run.eval_every) == (decay, every)
    for name, changes, decay in (
        ("laptop", {"epochs": 16}, 11),
        ("laptop", {"alpha_decay_epoch": 20}, 20),
        ("paper", {"epochs": 100}, 59),
        ("paper", {"epochs": 100, "eval_every": 50}, 49),
    ):
        run = Variant(name, changes, released=True).config("lstm", alpha=0.8)
        assert run.alpha_decay_epoch == decay
    assert {run.nonfinite for run in runs_of(FIGURES["fig3"], overridden)} == {"reject"}
    starts = {run.attacker_start for run in runs_of(FIGURES["attacker-start"], overridden)}
    assert starts == {None, "fresh", "pulled"}


@pytest.mark.parametrize("zoomed, whole", [(7, 1), (8, 2), (9, 3), (10, 4), (13, 12)])
def test_zoomed_figures_need_no_additional_runs(zoomed, whole):
    names = f"fig{zoomed}", f"fig{whole}"
    inner, outer = (set(runs_of(FIGURES[name], PAPER)) for name in names)
    assert inner <= outer and (inner == outer or zoomed == 13)


def test_figures_share_the_run_of_fedavg_without_attack():
    (fedavg,) = [preset("cifar", "paper", gamma=0.1)]
    using = [name for name in FIGURES if fedavg in runs_of(FIGURES[name], PAPER)]
    assert using[:6] == ["fig1", "fig3", "fig6", "fig7", "fig9", "attacker-start"]


def test_figures_5_and_6_share_prefixes_where_they_end_at_the_decay():
    """With alpha=1 they are the prefix that the runs of Figures 4 and 1 share."""
    variant = Variant("smoke", {}, repeats=1)
    for reach, curves, count in (("fig5", "fig4", 2), ("fig6", "fig1", 1)):
        prefixes = {prefix_of(run) for run in runs_of(FIGURES[curves], variant)}
        assert len(prefixes & set(runs_of(FIGURES[reach], variant))) == count


@pytest.mark.parametrize("name", FIGURE_PRESETS)
def test_every_seed_is_a_separate_run(name):
    variant = Variant(name, {}, repeats=3, seed=5)
    for figure in FIGURES.values():
        for group in groups(figure, variant).values():
            for line in group:
                points = len(variant.alphas) if isinstance(figure, ReachFigure) else 1
                assert [run.seed for run in line.runs] == [5, 6, 7] * points
    repeats = {"paper": 10, "laptop": 3, "smoke": 1}
    assert list(Variant(name, {}).seeds) == list(range(repeats[name]))


def test_changes_reach_every_run_and_the_decay_epoch_moves_in_proportion():
    variant = Variant("paper", {"epochs": 80, "n": 50, "train_images": 1000, "loss_images": 1000})
    for name in ("fig1", "fig4", "fig5"):
        for run in runs_of(FIGURES[name], variant):
            assert (run.n, run.epochs, run.alpha_decay_epoch) == (50, 80, 40)
            assert run.sizes.train_images == 1000
    text = runs_of(FIGURES["fig11"], Variant("paper", {"epochs": 80}))
    assert {run.alpha_decay_epoch for run in text} == {60}
    given = runs_of(FIGURES["fig1"], Variant("paper", {"epochs": 80, "alpha_decay_epoch": 20}))
    assert {run.alpha_decay_epoch for run in given} == {20}


def test_curves_share_one_run_if_alpha_never_decays():
    variant = Variant("smoke", {"epochs": 2, "alpha_decay_epoch": 2}, repeats=1)
    assert len(runs_of(FIGURES["fig11"], variant)) == 2  # b=0 and b=2
    assert {run.alpha for run in runs_of(FIGURES["fig11"], variant)} == {1.0}


def test_another_attack_changes_only_attacked_runs():
    variant = Variant("paper", {"attack": "negation"}, repeats=1)
    runs = runs_of(FIGURES["fig3"], variant)
    assert {run.attack for run in runs if run.q} == {"negation"}
    assert {run.attack for run in runs if not run.q} == {None}
    assert [name for name in CURVES if attacked(FIGURES[name])] == [
        f"fig{n}" for n in (3, 4, 9, 10, 12, 13)
    ]
    assert attacked(FIGURES["fig5"]) and not attacked(FIGURES["fig6"])


@pytest.mark.parametrize(
    "symbols, said",
    [
        (dict(alpha=1, b=0, gamma=0.05), r"FedAvg, $\gamma=0.05$"),
        (dict(alpha=1, b=2, gamma=20), r"SLSGD, $\gamma=20$, $\alpha=1$, $b=2$"),
        (dict(alpha=0.8, b=0, note="no attack"), r"SLSGD, $\alpha=0.8$, $b=0$, no attack"),
        (dict(alpha=1, b=None, rule="median"), r"SLSGD, $\alpha=1$, median"),
        (dict(alpha=1, b=0, rule="mean"), "FedAvg"),
    ],
)
def test_the_legend_has_the_papers_wording(symbols, said):
    assert legend(**symbols) == said


def test_the_legends_of_a_figure():
    by_q = groups(FIGURES["fig3"], PAPER)
    assert [line.label for line in by_q["$q=2$"]] == [
        r"FedAvg, $\gamma=0.1$, no attack",
        r"FedAvg, $\gamma=0.1$",
        *(rf"SLSGD, $\gamma=0.1$, $\alpha={a:g}$, $b={b}$" for a, b in Q2[1:]),
    ]
    for group in groups(FIGURES["fig1"], PAPER).values():  # their panels' titles state gamma
        assert [line.label for line in group] == [legend(alpha, b) for alpha, b in NO_ATTACK]
    text = [line.label for line in groups(FIGURES["fig12"], PAPER)[""]]
    assert text[:2] == ["FedAvg, no attack", "FedAvg"] and text[-1] == r"SLSGD, $\alpha=0.8$, $b=4$"


@pytest.mark.parametrize(
    "wrong, said",
    [
        (dict(preset="tiny", changes={}), "preset='tiny' is unknown: choose one of paper, laptop"),
        (dict(preset="smoke", changes={}, repeats=0), "repeats=0 is out of range"),
    ],
)
def test_wrong_variants(wrong, said):
    with pytest.raises(ConfigError, match=said):
        Variant(**wrong)


@pytest.mark.parametrize("changes", [{"eval_every": 0, "epochs": 4}, {"k": 3}, {"epochs": 0}])
def test_wrong_changes_name_the_legal_range(changes):
    with pytest.raises(ConfigError, match="out of range"):
        runs_of(FIGURES["fig4"], Variant("smoke", changes))
