r"""The paper's figures as declarations: which runs, in which panels.

``FIGURES`` is the table to compare with the paper's captions.  A new figure is a new entry: its
command, its script (``python -m slsgd_mx.figures.scripts``) and its tests follow from it.  A curve
is declared by what it changes in the preset: ``alpha`` and ``b`` as in the paper's legends (alpha
is 1 up to the decay epoch, and that factor after it), ``gamma``, ``q``.

``slsgd-mx --help`` reads this module, so it imports nothing heavy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

Changes = Dict[str, Any]

NETWORKS = {"cifar": "CNN", "lstm": "LSTM"}

NO_ATTACK = ((1, 0), (0.8, 0), (1, 2), (0.8, 2))  # (alpha, b); (1, 0) is FedAvg
Q2 = ((1, 0), (1, 2), (0.8, 2), (1, 4), (0.8, 4))
Q4 = ((1, 0), (1, 4), (0.8, 4))


def each(pairs: Sequence[Tuple[float, int]], **common: Any) -> Tuple[Changes, ...]:
    """The changes of one curve for each (alpha, b), all with the same other symbols."""
    return tuple({"alpha": alpha, "b": b, **common} for alpha, b in pairs)


IDEAL = each(NO_ATTACK[:1], gamma=0.1)  # FedAvg without attack, for comparison
BY_GAMMA = {
    r"$\gamma=0.1$": each(NO_ATTACK, gamma=0.1),
    r"$\gamma=0.05$": each(NO_ATTACK, gamma=0.05),
}
BY_Q = {
    "$q=2$": IDEAL + each(Q2, gamma=0.1, q=2),
    "$q=4$": IDEAL + each(Q4, gamma=0.1, q=4),
}
BY_START = {
    name: IDEAL
    + each(((1, 0), (1, 2), (1, 4)), gamma=0.1, q=2, **attack)
    + each(((1, 4),), gamma=0.1, q=4, **attack)
    for name, attack in {
        "fresh start": {"attacker_start": "fresh"},
        "pulled start": {"attacker_start": "pulled"},
        "fresh start, boosted": {"attacker_start": "fresh", "boost": 5},
    }.items()
}
TEXT_Q2 = each(NO_ATTACK[:1]) + each(Q2, q=2)


@dataclass(frozen=True)
class MetricFigure:
    """Metrics over epochs: a row of the task's panels for each group of curves."""

    title: str
    task: str
    setup: Mapping[str, Any]  # what all its curves have in common
    groups: Mapping[str, Sequence[Changes]]  # added to the panels' titles -> curves
    zoom: bool = False  # y limits from the second half of the curves that may survive
    whole: str = ""  # of a zoom that leaves out curves: the figure that has them all
    derived: Sequence[str] = ()  # panels below the others, see ``panels.DERIVED``
    only: str = ""  # why it is a figure of its own task only; empty: others have its curves too
    about: str = "Metrics over epochs."  # for help and script


@dataclass(frozen=True)
class ReachFigure:
    """Epochs until a training loss is reached, over a constant alpha; a curve for each change."""

    title: str
    task: str
    setup: Mapping[str, Any]
    curves: Mapping[str, Changes]  # legend -> changes
    loss: str  # the field of ``FigurePreset`` with the loss to reach
    about: str = "The epochs needed to reach a training loss, over a constant alpha."


Figure = Union[MetricFigure, ReachFigure]

BALANCED, UNBALANCED = {"partition": "balanced"}, {"partition": "unbalanced"}
ATTACKED, PASSES = {**UNBALANCED, "gamma": 0.1, "q": 2}, {**BALANCED, "gamma": 0.1}
BY_B = {f"$b={b}$": {"b": b} for b in (2, 3, 4)}
BY_PASS = {f"pass={passes}": {"passes": passes} for passes in (1, 2, 3)}

# titles
IID, NON_IID = "balanced partition", "unbalanced partition"
FREE, FLIPPED = "without attack", "{attack}"  # replaced by the attack of the runs
SPREAD = ("difference", "roughness")
SURVIVORS = tuple(changes for changes in TEXT_Q2 if changes["b"] >= changes.get("q", 0))

FIGURES: Dict[str, Figure] = {
    "fig1": MetricFigure(f"{IID}, {FREE}", "cifar", BALANCED, BY_GAMMA, derived=SPREAD[:1]),
    "fig2": MetricFigure(f"{NON_IID}, {FREE}", "cifar", UNBALANCED, BY_GAMMA, derived=SPREAD),
    "fig3": MetricFigure(f"{IID}, {FLIPPED}", "cifar", BALANCED, BY_Q),
    "fig4": MetricFigure(f"{NON_IID}, {FLIPPED}", "cifar", UNBALANCED, BY_Q),
    "fig5": ReachFigure(f"{NON_IID}, {FLIPPED}, $q=2$", "cifar", ATTACKED, BY_B, "attacked_loss"),
    "fig6": ReachFigure(f"{IID}, {FREE}", "cifar", PASSES, BY_PASS, "passes_loss"),
    "fig7": MetricFigure(f"{IID}, {FREE}", "cifar", BALANCED, BY_GAMMA, zoom=True),
    "fig8": MetricFigure(f"{NON_IID}, {FREE}", "cifar", UNBALANCED, BY_GAMMA, zoom=True),
    "fig9": MetricFigure(f"{IID}, {FLIPPED}", "cifar", BALANCED, BY_Q, zoom=True),
    "fig10": MetricFigure(f"{NON_IID}, {FLIPPED}", "cifar", UNBALANCED, BY_Q, zoom=True),
    "fig11": MetricFigure(FREE, "lstm", {}, {"": each(NO_ATTACK)}),
    "fig12": MetricFigure("{attack}, $q=2$", "lstm", {}, {"": TEXT_Q2}),
    "fig13": MetricFigure(
        "{attack}, $q=2$, without FedAvg under attack",
        *("lstm", {}, {"": SURVIVORS}),
        zoom=True,
        whole="fig12",
        only="leaves out FedAvg under attack on the LSTM; fig12 has all of them",
    ),
    "attacker-start": MetricFigure(
        "{attack} ($q=2$ unless named), where poisoned workers start, balanced partition",
        "cifar",
        BALANCED,
        BY_START,
        about="Poisoned workers train from newly initialised parameters, as in the released code; "
        "from the pulled model, as in the paper's text; or from newly initialised parameters with "
        "pushes boosted 5 times, as in the authors' development repository.",
    ),
}


def file_name(name: str) -> str:
    """The name of a figure's files, without their ending.

    >>> file_name("fig3"), file_name("fig12"), file_name("fig3-paper"), file_name("attacker-start")
    ('fig03', 'fig12', 'fig03-paper', 'attacker-start')
    """
    return re.sub(r"^fig(\d)(?!\d)", r"fig0\1", name)


ATTACK_NAMES = {"label-flip": "label-flipping attack", "label-permute": "permuted labels"}


def attack_in_words(attack: str) -> str:
    """An attack as a part of a title.

    >>> attack_in_words("label-flip"), attack_in_words("alie:z=2")
    ('label-flipping attack', 'attack alie:z=2')
    """
    return ATTACK_NAMES.get(attack, f"attack {attack}")


def full_title(
    name: str, attack: Optional[str] = None, figure: Optional[Figure] = None, workload: str = ""
) -> str:
    """A figure's number, the network, and what it shows; ``attack`` instead of the paper's.

    ``figure`` is what became of the declaration (``slsgd_mx.figures.adapted``), and ``workload``
    the name of what it trains instead of the paper's network.  The title of a zoom says so, unless
    it says which curves are left out; the titles of its panels do then.

    >>> full_title("fig7")
    'Figure 7: CNN, balanced partition, without attack, zoomed'
    >>> full_title("fig3", "negation")
    'Figure 3: CNN, balanced partition, attack negation'
    >>> full_title("fig3", "negation", workload="digits")
    'Curves of Figure 3: digits, balanced partition, attack negation'
    """
    figure = figure or FIGURES[name]
    usual = "label-permute" if figure.task == "lstm" else "label-flip"
    number = f"Figure {name[3:]}: " if re.match(r"fig\d", name) else ""
    number = f"Curves of {number}" if number and workload else number
    metric = isinstance(figure, MetricFigure)
    zoomed = ", zoomed" if metric and figure.zoom and not figure.whole else ""
    title = figure.title.replace("{attack}", attack_in_words(attack or usual))
    return f"{number}{workload or NETWORKS[figure.task]}, {title}{zoomed}"


def _curves(figure: Figure) -> List[Changes]:
    """What every curve changes."""
    if isinstance(figure, ReachFigure):
        return list(figure.curves.values())
    return [changes for group in figure.groups.values() for changes in group]


def varied(figure: Figure) -> Set[str]:
    """The fields that a figure sets itself, in all its runs or in some of them.

    >>> sorted(varied(FIGURES["fig5"]))
    ['alpha', 'b', 'gamma', 'partition', 'q']
    """
    curves = _curves(figure)
    return {"alpha", *figure.setup, *(name for changes in curves for name in changes)}


def compared(figure: Figure) -> str:
    """In what a figure's curves differ, in words.

    >>> compared(FIGURES["fig3"]), compared(FIGURES["fig6"])
    ('alpha=0.8, 1; b=0, 2, 4; q=0, 2, 4', 'passes=1, 2, 3')
    """
    curves = _curves(figure)
    usual = {"q": 0, "boost": 1}
    names = ("gamma", "alpha", "b", "q", "passes", "attacker_start", "boost")
    found = {n: {c.get(n, usual.get(n)) for c in curves} - {None} for n in names}
    listed = {name: ", ".join(map(str, sorted(values))) for name, values in found.items()}
    return "; ".join(f"{n}={values}" for n, values in listed.items() if len(found[n]) > 1)


def attacked(figure: Figure) -> bool:
    """Whether some of its workers are poisoned."""
    return bool({"q", "poisoned_devices"} & varied(figure))


def legend(
    alpha: float,
    b: Optional[int],
    gamma: Optional[float] = None,
    rule: str = "trimmed-mean",
    note: str = "",
) -> str:
    r"""The paper's wording for a curve, FedAvg by its name; ``b`` None for a rule without b.

    >>> legend(0.8, 2, gamma=0.1)
    'SLSGD, $\\gamma=0.1$, $\\alpha=0.8$, $b=2$'
    >>> legend(1, 0, note="no attack")
    'FedAvg, no attack'
    >>> legend(1, 2, rule="krum")
    'SLSGD, $\\alpha=1$, krum, $b=2$'
    """
    words = [rf"$\gamma={gamma:g}$"] if gamma is not None else []
    if alpha == 1 and (rule, b) in (("trimmed-mean", 0), ("mean", None), ("mean", 0)):
        words = ["FedAvg", *words]
    else:
        words = ["SLSGD", *words, rf"$\alpha={alpha:g}$"]
        words += [rule] * (rule != "trimmed-mean") + [f"$b={b}$"] * (b is not None)
    return ", ".join(filter(None, [*words, note]))
