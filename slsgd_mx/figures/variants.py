"""A figure's declaration + preset, changes and seeds -> the runs it needs."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, field, fields, replace
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.choice import choose, in_words
from slsgd_mx.figures.declarations import (
    Changes,
    Figure,
    MetricFigure,
    ReachFigure,
    attacked,
    legend,
)
from slsgd_mx.presets import RELEASED, preset, presets_of, released_switches
from slsgd_mx.rules.pipeline import find_rule
from slsgd_mx.tasks.sizes import SIZES
from slsgd_mx.validation import require, require_name


@dataclass(frozen=True)
class FigurePreset:
    """What figures add to a preset: repeats, and the alphas and losses of Figures 5 and 6."""

    repeats: int
    alphas: Tuple[float, ...]  # on the x-axis of Figures 5 and 6
    attacked_loss: Optional[float]  # the training loss of Figure 5
    passes_loss: Optional[float]  # the training loss of Figure 6
    reach_until_decay: bool  # Figures 5 and 6 end at the decay epoch of the others, not at T
    changes: Mapping[str, Any] = field(default_factory=dict)  # in the preset itself
    reach: Mapping[str, Changes] = field(default_factory=dict)  # by ``ReachFigure.loss``


# The losses of laptop are those that alpha=1, seed 0, reaches after more than half of the epochs
# (b=2 in Figure 5: epoch 33 of 60; pass=1 in Figure 6: epoch 16 of 24), fixed before any other cell
# was run; those of smoke are round numbers.
FIGURE_PRESETS: Dict[str, FigurePreset] = {
    "paper": FigurePreset(10, (0.2, 0.4, 0.6, 0.8, 1.0), 0.5, 0.003, False),
    "laptop": FigurePreset(
        *(3, (0.4, 0.6, 0.8, 1.0), 1.81, 1.5, False),
        reach={
            "attacked_loss": {"epochs": 60, "eval_every": 1},
            "passes_loss": {"epochs": 24, "eval_every": 1},
        },
    ),
    "smoke": FigurePreset(1, (0.6, 0.8, 1.0), 2.1, 2.0, True, {"epochs": 8}),
}
OTHER_TASK = FigurePreset(1, (0.6, 0.8, 1.0), None, None, False)  # with any preset of that task
OF_ARRAYS = ("shape", "classes", "train_images", "test_images")  # follow from a file's digest


@dataclass(frozen=True)
class Variant:
    """The variant of the figures to make: a preset, changes of it, and seeds.

    ``slsgd_mx.figures.adapted`` makes a figure's declaration fit another task, and poisoned devices
    instead of q.
    """

    preset: str
    changes: Mapping[str, Any]
    repeats: Optional[int] = None  # None: the preset's
    seed: int = 0  # the first
    loss: Optional[float] = None  # to reach in Figures 5 and 6; None: the preset's
    at: Tuple[float, ...] = ()  # alphas on the x-axis of Figures 5 and 6; empty: the preset's
    released: bool = False  # every switch as in the released code
    task: Optional[str] = None  # to train instead of the figures' own
    poisoned_devices: Optional[int] = None  # instead of q
    where: Tuple[str, ...] = ()  # conditions on the symbols of curves, see ``choice``

    def __post_init__(self) -> None:
        known = FIGURE_PRESETS if self.task is None else presets_of(self.task)
        require_name("preset", self.preset, tuple(known))
        if self.released and self.task not in (None, *RELEASED):
            raise ConfigError(f"the released code has no task {self.task!r}: leave out --released")
        poisoned = self.poisoned_devices
        legal = "poisoned_devices >= 1: curves without attack are always included"
        require(poisoned is None or poisoned >= 1, "poisoned_devices", poisoned, legal)
        repeats, loss = self.repeats, self.loss
        require(repeats is None or repeats >= 1, "repeats", repeats, "repeats >= 1")
        require(loss is None or 0 < loss < math.inf, "loss", loss, "0 < loss < infinity")

    @property
    def papers_own(self) -> bool:
        """Whether it trains the paper's tasks with q poisoned workers, as the claims are about."""
        return self.task is None and self.poisoned_devices is None

    @property
    def compares_b(self) -> bool:
        """Whether its rule uses b, whose values the claims compare."""
        return find_rule(self.changes.get("rule", "trimmed-mean")).uses_b

    @property
    def data(self) -> str:
        """The data of the CNN, on which most claims are judged."""
        return self.config("cifar").sizes.data

    @property
    def defaults(self) -> FigurePreset:
        return FIGURE_PRESETS[self.preset] if self.task is None else OTHER_TASK

    @property
    def folder(self) -> str:
        """The name of the folder for its pictures: the task, the preset and what is changed in it.

        >>> Variant("smoke", {"attack": "alie:z=2", "epochs": 8}, repeats=3).folder
        'smoke-attack-alie-z-2-epochs-8-repeats-3'
        """
        repeats = None if self.repeats == self.defaults.repeats else self.repeats
        own = {"repeats": repeats, "seed": self.seed or None, "loss": self.loss}
        own["poisoned_devices"] = self.poisoned_devices
        own["alphas"] = "-".join(f"{alpha:g}" for alpha in self.at) or None
        own["where"] = "-".join(map(in_words, self.where)) or None
        changed = {**self.changes, **{name: v for name, v in own.items() if v is not None}}
        if changed.get("sha256"):
            changed = {name: v for name, v in changed.items() if name not in OF_ARRAYS}
            changed["sha256"] = changed["sha256"][:8]
        words = [*filter(None, [self.task]), self.preset, *["released"] * self.released]
        words += [f"{name}-{changed[name]}" for name in sorted(changed)]
        text = re.sub(r"[^A-Za-z0-9.+-]+", "-", "-".join(words)).strip("-")
        if len(text) <= 100:
            return text
        return f"{text[:80]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @property
    def seeds(self) -> range:
        return range(self.seed, self.seed + (self.repeats or self.defaults.repeats))

    @property
    def alphas(self) -> Tuple[float, ...]:
        return tuple(sorted(set(self.at or self.defaults.alphas)))

    def config(self, task: str, own: Optional[Changes] = None, **changes: Any) -> RunConfig:
        """A run of this variant; ``own`` are the figure's sizes, which the user's changes override.

        If T is changed, the decay epoch of alpha moves in proportion.
        """
        base = preset(task, self.preset)
        released = released_switches(task, base) if self.released else {}
        decay = released.pop("alpha_decay_epoch", base.alpha_decay_epoch)
        clean = {} if self.task is None else {"q": 0, "poisoned_devices": None}  # in its preset
        own = {**clean, **self.defaults.changes, **(own or {})}
        changes = {**self.changes, **changes}
        asked = {**own, **released, **changes}
        every = {**own, **changes}.get("eval_every", base.eval_every)  # that of the text
        epochs = asked.get("epochs")
        whole = isinstance(every, int) and isinstance(epochs, int)  # else ``preset`` refuses them
        if whole and "alpha_decay_epoch" not in asked:
            every = max(1, every)
            share = max(1, int(epochs * base.alpha_decay_epoch / base.epochs / every)) * every
            asked["alpha_decay_epoch"] = share + decay - base.alpha_decay_epoch
        elif epochs is None:
            asked.setdefault("alpha_decay_epoch", decay)
        if self.task is None:
            asked = _of_task(task, asked)
        config = preset(task, self.preset, **asked)
        return replace(config, alpha=1.0) if config.alpha_never_acts else config

    def warnings(self, tasks: Iterable[str]) -> List[str]:
        """What is allowed but probably not meant."""
        plain = [self.config(task) for task in sorted(tasks)]
        return [
            f"{run.sizes.task}: alpha decays after epoch {run.alpha_decay_epoch}, but runs end at "
            f"T={run.epochs}: alpha < 1 gives the same as alpha=1 (a smaller --alpha-decay-epoch "
            "or --alpha-schedule constant lets it act)"
            for run in plain
            if run.alpha_never_acts
        ]

    def repeated(self, config: RunConfig) -> Tuple[RunConfig, ...]:
        return tuple(replace(config, seed=seed) for seed in self.seeds)


def _of_task(task: str, changes: Mapping[str, Any]) -> Changes:
    """Changes without the sizes that only other tasks have."""
    own = {field.name for field in fields(SIZES[task])}
    other = {field.name for kind in SIZES.values() for field in fields(kind)} - own
    return {name: value for name, value in changes.items() if name not in other}


@dataclass(frozen=True)
class Line:
    """The runs of one curve: a run for each seed (and, in a ReachFigure, for each alpha)."""

    label: str
    changes: Changes
    runs: Tuple[RunConfig, ...]


def groups(figure: Figure, variant: Variant) -> Dict[str, List[Line]]:
    """The figure's lines with their runs, by the group they are drawn in, as far as chosen."""
    return choose(_all_groups(figure, variant), variant.where)


def _all_groups(figure: Figure, variant: Variant) -> Dict[str, List[Line]]:
    if isinstance(figure, ReachFigure):
        lines = [_reach_line(figure, variant, *curve) for curve in figure.curves.items()]
        return {"": _distinct(lines)}
    found = {}
    for name, group in figure.groups.items():
        usual = next(filter(None, (changes.get("q") for changes in group)), None)
        lines = [_metric_line(figure, variant, changes, name, usual) for changes in group]
        found[name] = _distinct(lines)
    return found


def _distinct(lines: List[Line]) -> List[Line]:
    """Lines without repetitions, which a rule without b would cause."""
    return list({line.label: line for line in reversed(lines)}.values())[::-1]


def _metric_line(
    figure: MetricFigure, variant: Variant, changes: Changes, group: str, usual_q: Optional[int]
) -> Line:
    """One curve; its label omits the gamma that the name of its group states, and the usual q."""
    shown = ("alpha", "b") if r"\gamma" in group else ("alpha", "b", "gamma")
    config = variant.config(figure.task, **{**figure.setup, **changes})
    symbols = {name: changes[name] for name in shown if name in changes}
    symbols["b"] = config.b if find_rule(config.rule).uses_b else None
    ideal = attacked(figure) and not config.attacked
    q = changes.get("q") or usual_q
    note = "no attack" if ideal else "" if q == usual_q else f"$q={q}$"
    label = legend(**symbols, rule=config.rule, note=note)
    return Line(label, changes, variant.repeated(config))


def _reach_line(figure: ReachFigure, variant: Variant, label: str, changes: Changes) -> Line:
    """One line over alpha; without sizes of its own, alpha=1 is shared with other figures."""
    own = variant.defaults.reach.get(figure.loss)
    whole = variant.config(figure.task, own)
    until_decay = variant.defaults.reach_until_decay and whole.alpha_decay_epoch > 0
    epochs = whole.alpha_decay_epoch if until_decay else whole.epochs
    runs: List[RunConfig] = []
    for alpha in variant.alphas:
        schedule = {} if alpha == 1 and not own else {"alpha_schedule": "constant"}
        asked = {**figure.setup, **changes, "alpha": alpha, **schedule}
        config = variant.config(figure.task, own, **asked)
        runs += variant.repeated(replace(config, epochs=min(epochs, config.epochs)))
    return Line(trimming(runs[0]) if "b" in changes else label, changes, tuple(runs))


def trimming(config: RunConfig) -> str:
    """b in a legend; of a rule without b, its name.

    >>> trimming(RunConfig(b=2, rule="krum")), trimming(RunConfig(b=2, rule="median"))
    ('$b=2$', 'median')
    """
    return f"$b={config.b}$" if find_rule(config.rule).uses_b else config.rule


def runs_of(figure: Figure, variant: Variant) -> List[RunConfig]:
    """Every run a figure needs, each once."""
    lines = [line for group in groups(figure, variant).values() for line in group]
    return list(dict.fromkeys(run for line in lines for run in line.runs))


def loss_to_reach(figure: ReachFigure, variant: Variant) -> float:
    """The training loss that curves of Figures 5 and 6 have to reach."""
    loss = getattr(variant.defaults, figure.loss) if variant.loss is None else variant.loss
    if loss is None:
        raise ConfigError(f"which training loss is task {variant.task!r} to reach? Give --loss")
    return loss
