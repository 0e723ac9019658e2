"""The cells of an arena: every rule against every attack; no MXNet."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from slsgd_mx.arena import ATTACKS, RULES
from slsgd_mx.attacks import find_attack
from slsgd_mx.attacks.engine import find_misfit, find_obstacle
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.variants import Variant
from slsgd_mx.presets import divides_by_labels, presets_of
from slsgd_mx.rules.pipeline import find_rule
from slsgd_mx.validation import require, require_name

CLEAN = "none"  # the name of the column without attack


# What the arena changes in a preset: all cells together should take minutes or hours.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {},
    "laptop": {"epochs": 16, "eval_every": 2},
    "smoke": {"epochs": 8, "eval_every": 2},
}


@dataclass(frozen=True)
class Measure:
    """The metric in the cells, and whether more of it is better."""

    name: str = "test_accuracy"

    @property
    def rises(self) -> bool:
        """Accuracies should be high; losses, perplexities, distances and all others low."""
        return self.name.endswith("accuracy")

    @property
    def diverged(self) -> float:
        """What a run counts whose model stopped being finite."""
        return 0.0 if self.rises else math.inf

    @property
    def words(self) -> str:
        return self.name.replace("_", " ")

    def show(self, value: float) -> str:
        """A value in the digits in which rules are compared: three, also of a tiny or huge loss.

        >>> Measure().show(0.0456), Measure("error").show(0.0456), Measure("error").show(4.2)
        ('0.046', '0.0456', '4.200')
        >>> [Measure("error").show(value) for value in (0.0, 1.234e-6, 1e30, math.inf)]
        ['0.00', '1.23e-06', '1.00e+30', 'inf']
        """
        return f"{value:.3f}" if self.rises or 0.1 <= abs(value) < 1e5 else f"{value:#.3g}"

    def is_better(self, value: float, other: float) -> bool:
        return value > other if self.rises else value < other


def measure_of(metrics: Sequence[str]) -> Measure:
    """An accuracy if a workload measures one, else its first metric of the test set, or of all.

    >>> measure_of(("train_loss", "test_loss", "test_perplexity"))
    Measure(name='test_loss')
    """
    tested = [name for name in metrics if name.startswith("test_")]
    found = [name for name in (*tested, *metrics) if name.endswith("accuracy")]
    return Measure([*found, *tested, *metrics][0])


@dataclass(frozen=True)
class Setting:
    """What the cells of one heat map have in common."""

    partition: str
    q: int
    b: int
    alpha: float
    poisoned_devices: Optional[int] = None  # instead of q

    def __str__(self) -> str:
        return f"{self.partition}, {self.threat}, b={self.b}, alpha={self.alpha:g}"

    @property
    def threat(self) -> str:
        """How many are poisoned, in words."""
        many = self.poisoned_devices
        return f"q={self.q}" if many is None else f"{many} poisoned devices"


@dataclass(frozen=True)
class Cell:
    """A rule against an attack: a run for each seed, or the reason why there is none."""

    rule: str
    attack: str  # CLEAN: no attack
    runs: Tuple[RunConfig, ...] = ()
    why_empty: str = ""


@dataclass(frozen=True)
class Arena:
    """A grid of rules and attacks, for each combination of the other factors.

    >>> arena = Arena("smoke", rules=("mean", "median"), attacks=("ipm",))
    >>> [str(setting) for setting in arena.settings]
    ['balanced, q=2, b=2, alpha=1']
    """

    preset: str
    rules: Tuple[str, ...] = RULES
    attacks: Tuple[str, ...] = ATTACKS
    partitions: Tuple[str, ...] = ()  # empty: balanced, or the task's own
    qs: Tuple[int, ...] = (2,)
    poisoned_devices: Tuple[int, ...] = ()  # instead of the qs
    bs: Tuple[int, ...] = (2,)
    alphas: Tuple[float, ...] = (1.0,)
    repeats: int = 1
    seed: int = 0
    task: str = "cifar"
    servers: int = 1  # of each run; with several, whole models cannot be compared
    changes: Mapping[str, Any] = field(default_factory=dict)  # in the preset

    def __post_init__(self) -> None:
        require(self.repeats >= 1, "repeats", self.repeats, "repeats >= 1")
        require_name("preset", self.preset, presets_of(self.task))
        sizes = self.sizes
        if not divides_by_labels(self.task):
            if self.partitions:
                why = f"task {self.task!r} has a partition of its own: leave out --partition"
                raise ConfigError(why)
            object.__setattr__(self, "partitions", (sizes.partition,))
        elif not self.partitions:
            object.__setattr__(self, "partitions", ("balanced",))
        for name, find in (("rules", find_rule), ("attacks", find_attack)):
            object.__setattr__(self, name, tuple(find(text).text for text in getattr(self, name)))
        for name in ("rules", "attacks", "partitions", "qs", "bs", "alphas"):
            values = tuple(dict.fromkeys(getattr(self, name)))
            require(bool(values), name, "()", f"at least one of the {name}")
            object.__setattr__(self, name, values)
        for name, values in (("q", self.qs), ("poisoned_devices", self.poisoned_devices)):
            least, legal = min(values, default=1), "1: the clean run is always included"
            require(least >= 1, name, least, f"{name} >= {legal}")

    @property
    def sizes(self) -> Any:
        """The workload of the preset."""
        return presets_of(self.task)[self.preset].sizes

    @property
    def settings(self) -> List[Setting]:
        threats = [(q, None) for q in self.qs]
        if self.poisoned_devices:
            threats = [(0, count) for count in dict.fromkeys(self.poisoned_devices)]
        factors = product(self.partitions, threats, self.bs, self.alphas)
        return [
            Setting(partition, q, b, alpha, poisoned)
            for partition, (q, poisoned), b, alpha in factors
        ]

    @property
    def usual(self) -> bool:
        """Whether it is an arena of the paper's CNN."""
        return self.task == "cifar"

    @property
    def columns(self) -> Tuple[str, ...]:
        """The attacks, after the column without one."""
        return (CLEAN, *self.attacks)

    def cells(self, setting: Setting) -> List[Cell]:
        """All cells of one heat map, row by row."""
        return [self._cell(setting, rule, attack) for rule in self.rules for attack in self.columns]

    def runs(self) -> List[RunConfig]:
        """Every run, each once; a ConfigError if all cells are empty."""
        cells = [cell for setting in self.settings for cell in self.cells(setting)]
        if not any(cell.runs for cell in cells):
            raise ConfigError(f"no cell of this arena can be computed: {cells[0].why_empty}")
        return list(dict.fromkeys(run for cell in cells for run in cell.runs))

    def empty_cells(self) -> Dict[str, str]:
        """Why cells cannot be computed, by rule and attack, and by setting if they differ in it."""
        found: Dict[str, Dict[Setting, str]] = {}
        for setting in self.settings:
            for cell in self.cells(setting):
                found.setdefault(f"{cell.rule} / {cell.attack}", {})[setting] = cell.why_empty
        reasons = {}
        for name, why in found.items():
            differ = len({*why.values()}) > 1
            reasons.update({f"{name} ({s})" if differ else name: why[s] for s in why if why[s]})
        return reasons

    def _cell(self, setting: Setting, rule: str, attack: str) -> Cell:
        shared = self._why_not_shared(rule, attack)
        if shared is not None:
            return Cell(rule, attack, why_empty=shared)
        try:
            base = self._config(setting, rule, attack)
        except ConfigError:
            reason = self._reason(setting, rule, attack)
            if reason is None:
                raise
            return Cell(rule, attack, why_empty=reason)
        seeds = range(self.seed, self.seed + self.repeats)
        return Cell(rule, attack, tuple(replace(base, seed=seed) for seed in seeds))

    def warnings(self) -> List[str]:
        """What is allowed but probably not meant."""
        return self._variant.warnings([self.task]) if min(self.alphas) < 1 else []

    @property
    def _variant(self) -> Variant:
        """The preset with the changes of the arena and of the user."""
        usual = PRESETS[self.preset] if self.usual else {}
        return Variant(self.preset, {**usual, **self.changes}, task=self.task)

    def _config(self, setting: Setting, rule: str, attack: str) -> RunConfig:
        asked: Dict[str, Any] = dict(rule=rule, b=setting.b, alpha=setting.alpha)
        if divides_by_labels(self.task):
            asked["partition"] = setting.partition
        if attack != CLEAN:
            asked.update(attack=attack, q=setting.q, poisoned_devices=setting.poisoned_devices)
        return self._variant.config(self.task, **asked)

    def _reason(self, setting: Setting, rule: str, attack: str) -> Optional[str]:
        """Why a rule is illegal for k and b, or an attack for k, q, b and the task.

        None if something else is wrong.
        """
        usual = self._config(replace(setting, b=0), "mean", CLEAN)
        return why_illegal(usual, setting, rule, attack)

    def _why_not_shared(self, rule: str, attack: str) -> Optional[str]:
        """Why several servers cannot compute a cell; None if they can."""
        whole = [f"rule {rule}"] * find_rule(rule).whole
        if attack != CLEAN and find_attack(attack).entry.whole:
            whole.append(f"attack {attack}")
        if not whole or self.servers == 1:
            return None
        return f"{whole[0]} compares whole models: needs servers = 1, not {self.servers}"


def why_illegal(config: RunConfig, setting: Setting, rule: str, attack: str) -> Optional[str]:
    """Why a rule or an attack is illegal for q, b, and the k and task of a configuration.

    None if something else is wrong, or nothing.
    """
    reason = find_rule(rule).obstacle(config.k, setting.b)
    if reason is not None or attack == CLEAN or setting.q > config.k:
        return reason
    chosen = find_attack(attack)
    return find_misfit(chosen, config.sizes) or find_obstacle(
        chosen, config.k, setting.q, setting.b, rule
    )
