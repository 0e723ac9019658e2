r"""The paper's figures as declarations: which runs, in which panels.

``FIGURES`` is the table to compare with the paper's captions; adding a figure is adding a line to
it.  A curve is what it changes in the preset: ``alpha`` and ``b`` as in the paper's legends
(alpha is 1 up to the decay epoch, and that factor after it), ``gamma``, ``q``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from slsgd_mx.errors import ConfigError

if TYPE_CHECKING:  # at run time where they are used: ``slsgd-mx --help`` reads the declarations
    from slsgd_mx.config import RunConfig
    from slsgd_mx.presets import Scale

Changes = Dict[str, Any]

NO_ATTACK = ((1, 0), (0.8, 0), (1, 2), (0.8, 2))  # (alpha, b); (1, 0) is FedAvg
Q2 = ((1, 0), (1, 2), (0.8, 2), (1, 4), (0.8, 4))
Q4 = ((1, 0), (1, 4), (0.8, 4))


def curves(pairs: Sequence[Tuple[float, int]], **common: Any) -> Tuple[Changes, ...]:
    """A curve for each (alpha, b), all with the same other symbols."""
    return tuple({"alpha": alpha, "b": b, **common} for alpha, b in pairs)


IDEAL = curves(NO_ATTACK[:1], gamma=0.1)  # FedAvg without attack, beside those under attack
BY_GAMMA = {
    r"$\gamma=0.1$": curves(NO_ATTACK, gamma=0.1),
    r"$\gamma=0.05$": curves(NO_ATTACK, gamma=0.05),
}
BOTH_GAMMAS = {"": sum(BY_GAMMA.values(), ())}
BY_Q = {
    "$q=2$": IDEAL + curves(Q2, gamma=0.1, q=2),
    "$q=4$": IDEAL + curves(Q4, gamma=0.1, q=4),
}
BY_START = {
    f"poisoned workers start {name}": IDEAL + curves(Q2[:2], gamma=0.1, q=2, attacker_start=start)
    for name, start in (("afresh", "fresh"), ("from the pulled model", "pulled"))
}
TEXT_Q2 = curves(NO_ATTACK[:1]) + curves(Q2, q=2)


@dataclass(frozen=True)
class Curves:
    """Metrics over epochs: a row of the task's panels for each group of curves."""

    title: str
    task: str
    setup: Mapping[str, Any]  # what all its curves have in common
    groups: Mapping[str, Sequence[Changes]]  # what the panels' titles add -> curves
    zoom: bool = False  # y from the second half of the curves with b >= q


@dataclass(frozen=True)
class Reach:
    """Epochs until the training loss is reached, over a constant alpha; a line for each change."""

    title: str
    task: str
    setup: Mapping[str, Any]
    lines: Mapping[str, Changes]  # legend -> change
    loss: str  # the field of ``Scale`` with the loss to reach


Figure = Union[Curves, Reach]

BALANCED, UNBALANCED = {"partition": "balanced"}, {"partition": "unbalanced"}
ATTACKED = {**UNBALANCED, "gamma": 0.1, "q": 2}
BY_B = {f"$b={b}$": {"b": b} for b in (2, 3, 4)}
BY_PASS = {f"pass={passes}": {"passes": passes} for passes in (1, 2, 3)}

FIGURES: Dict[str, Figure] = {
    "fig1": Curves("balanced partition, without attack", "cifar", BALANCED, BOTH_GAMMAS),
    "fig2": Curves("unbalanced partition, without attack", "cifar", UNBALANCED, BOTH_GAMMAS),
    "fig3": Curves("balanced partition, label-flipping attack", "cifar", BALANCED, BY_Q),
    "fig4": Curves("unbalanced partition, label-flipping attack", "cifar", UNBALANCED, BY_Q),
    "fig5": Reach("unbalanced partition, $q=2$", "cifar", ATTACKED, BY_B, "attacked_loss"),
    "fig6": Reach(
        "balanced partition, without attack",
        "cifar",
        {**BALANCED, "gamma": 0.1},
        BY_PASS,
        "passes_loss",
    ),
    "fig7": Curves("balanced partition, without attack", "cifar", BALANCED, BY_GAMMA, True),
    "fig8": Curves("unbalanced partition, without attack", "cifar", UNBALANCED, BY_GAMMA, True),
    "fig9": Curves("balanced partition, label-flipping attack", "cifar", BALANCED, BY_Q, True),
    "fig10": Curves("unbalanced partition, label-flipping attack", "cifar", UNBALANCED, BY_Q, True),
    "fig11": Curves("without attack", "lstm", {}, {"": curves(NO_ATTACK)}),
    "fig12": Curves("permuted labels, $q=2$", "lstm", {}, {"": TEXT_Q2}),
    "fig13": Curves(
        "permuted labels, $q=2$, without the curve that diverges",
        "lstm",
        {},
        {"": tuple(c for c in TEXT_Q2 if c["b"] >= c.get("q", 0))},
    ),
    "ledger": Curves("label flipping, $q=2$, balanced partition", "cifar", BALANCED, BY_START),
}


@dataclass(frozen=True)
class Line:
    """One curve: its legend, what it changes, and a run for each seed (and, over alpha, point)."""

    label: str
    changes: Changes
    runs: Tuple[RunConfig, ...]


@dataclass(frozen=True)
class Size:
    """At which size figures are made: a preset, what overrides it, which seeds."""

    preset: str
    changes: Mapping[str, Any]
    repeats: Optional[int] = None  # None: the preset's
    seed: int = 0  # the first
    loss: Optional[float] = None  # what Figures 5 and 6 have to reach; None: the preset's
    at: Tuple[float, ...] = ()  # alphas on the x-axis of Figures 5 and 6; none: the preset's

    def __post_init__(self) -> None:
        from slsgd_mx.presets import SCALES

        if self.preset not in SCALES:
            known = ", ".join(SCALES)
            raise ConfigError(f"preset={self.preset!r} is unknown: choose one of {known}")
        if self.repeats is not None and self.repeats < 1:
            raise ConfigError(f"repeats={self.repeats} is out of range: needs repeats >= 1")
        if self.loss is not None and not 0 < self.loss < math.inf:
            raise ConfigError(f"loss={self.loss} is out of range: needs 0 < loss < infinity")

    @property
    def scale(self) -> Scale:
        from slsgd_mx.presets import SCALES

        return SCALES[self.preset]

    @property
    def seeds(self) -> range:
        return range(self.seed, self.seed + (self.repeats or self.scale.repeats))

    @property
    def alphas(self) -> Tuple[float, ...]:
        return tuple(sorted(set(self.at or self.scale.alphas)))

    def config(self, task: str, **changes: Any) -> RunConfig:
        """A run at this size; where T is changed, the decay of alpha moves along with it."""
        from slsgd_mx.presets import preset

        own = preset(task, self.preset)
        asked = {**self.scale.changes, **self.changes, **changes}
        if "epochs" in asked and "alpha_decay_epoch" not in asked:
            every = max(1, asked.get("eval_every", own.eval_every))
            share = asked["epochs"] * own.alpha_decay_epoch / own.epochs
            asked["alpha_decay_epoch"] = max(1, int(share / every)) * every
        config = preset(task, self.preset, **_of_task(task, asked))
        never = config.alpha_schedule == "step" and config.alpha_decay_epoch >= config.epochs
        return replace(config, alpha=1.0) if never else config

    def warnings(self, tasks: Iterable[str]) -> List[str]:
        """What is allowed but probably not meant."""
        plain = [self.config(task) for task in sorted(tasks)]
        return [
            f"{run.sizes.task}: alpha decays after epoch {run.alpha_decay_epoch}, and runs end at "
            f"T={run.epochs}: curves of alpha < 1 are those of alpha=1"
            for run in plain
            if run.alpha_decay_epoch >= run.epochs
        ]

    def repeated(self, config: RunConfig) -> Tuple[RunConfig, ...]:
        return tuple(replace(config, seed=seed) for seed in self.seeds)


def _of_task(task: str, changes: Mapping[str, Any]) -> Changes:
    """Changes without the sizes that only other tasks have."""
    from slsgd_mx.tasks.sizes import SIZES

    own = {field.name for field in fields(SIZES[task])}
    other = {field.name for kind in SIZES.values() for field in fields(kind)} - own
    return {name: value for name, value in changes.items() if name not in other}


def attacked(figure: Figure) -> bool:
    """Whether some of its workers are poisoned."""
    if isinstance(figure, Reach):
        return "q" in figure.setup
    return any("q" in changes for group in figure.groups.values() for changes in group)


def legend(figure: Figure, changes: Changes) -> str:
    r"""The paper's wording, FedAvg by its name.

    >>> legend(FIGURES["fig1"], {"gamma": 0.1, "alpha": 0.8, "b": 2})
    'SLSGD, $\\gamma=0.1$, $\\alpha=0.8$, $b=2$'
    >>> legend(FIGURES["fig12"], {"alpha": 1, "b": 0})
    'FedAvg, no attack'
    """
    gamma = [rf"$\gamma={changes['gamma']:g}$"] if "gamma" in changes else []
    if (changes["alpha"], changes["b"]) == (1, 0):
        ideal = attacked(figure) and not changes.get("q")
        return ", ".join(["FedAvg", *gamma, *(["no attack"] if ideal else [])])
    return ", ".join(["SLSGD", *gamma, rf"$\alpha={changes['alpha']:g}$", rf"$b={changes['b']}$"])


def groups(figure: Figure, size: Size) -> Dict[str, List[Line]]:
    """The figure's lines with their runs, by the group they are drawn in."""
    if isinstance(figure, Reach):
        return {"": [_reach_line(figure, size, *line) for line in figure.lines.items()]}
    return {
        name: [
            Line(
                legend(figure, changes),
                changes,
                size.repeated(size.config(figure.task, **{**figure.setup, **changes})),
            )
            for changes in group
        ]
        for name, group in figure.groups.items()
    }


def _reach_line(figure: Reach, size: Size, label: str, changes: Changes) -> Line:
    """One line over alpha; alpha=1 is the run that other figures have."""
    whole = size.config(figure.task)
    until_decay = size.scale.reach_until_decay and whole.alpha_decay_epoch > 0
    epochs = whole.alpha_decay_epoch if until_decay else whole.epochs
    runs: List[RunConfig] = []
    for alpha in size.alphas:
        schedule = {} if alpha == 1 else {"alpha_schedule": "constant"}
        asked = {**figure.setup, **changes, "alpha": alpha, **schedule}
        config = size.config(figure.task, **asked)
        runs += size.repeated(replace(config, epochs=min(epochs, config.epochs)))
    return Line(label, changes, tuple(runs))


def runs_of(figure: Figure, size: Size) -> List[RunConfig]:
    """Every run a figure needs, each once."""
    lines = [line for group in groups(figure, size).values() for line in group]
    return list(dict.fromkeys(run for line in lines for run in line.runs))


def loss_to_reach(figure: Reach, size: Size) -> float:
    return getattr(size.scale, figure.loss) if size.loss is None else size.loss
