"""Every symbol of the paper in one frozen, validated, hashable object."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple, Union

from .aggregation import RULES, check_trim
from .attacks import find_attack
from .errors import ConfigError
from .schedule import SCHEDULES
from .sizes import TASKS, Cifar, Lstm, Problem, require, require_name, require_whole

LARGEST = 3.4e38  # what a float32 holds


def _are_bounds(value: object) -> bool:
    """Whether this is a pair of whole numbers."""
    return isinstance(value, tuple) and [type(bound) for bound in value] == [int, int]


@dataclass(frozen=True)
class RunConfig:
    """One run of Algorithm 1; the defaults are the paper's CNN without attack (FedAvg).

    Attributes carry the paper's symbols: ``n`` devices, ``k`` selected an epoch, ``b`` values
    trimmed at each end, ``q`` poisoned of the k, ``gamma`` learning rate, ``alpha`` weight of
    the moving average, ``epochs`` T, ``local_steps`` bounds between which H_t^i is drawn (None:
    ``passes`` full passes of the device's data).

    Examples
    --------
    >>> fedavg = RunConfig()
    >>> (fedavg.n, fedavg.k, fedavg.b, fedavg.alpha)
    (100, 10, 0, 1.0)
    >>> RunConfig(k=10, b=5)
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.ConfigError: b=5 is out of range for k=10: trimmed mean needs 0 <= b <= 4
    >>> RunConfig.from_json(fedavg.to_json()) == fedavg
    True
    """

    task: Union[Cifar, Lstm, Problem] = field(default_factory=Cifar)
    n: int = 100
    k: int = 10
    b: int = 0
    q: int = 0
    gamma: float = 0.1
    alpha: float = 1.0
    alpha_schedule: str = "step"
    alpha_decay_epoch: int = 400
    epochs: int = 800
    passes: int = 1
    local_steps: Optional[Tuple[int, int]] = None
    batch_size: int = 50
    rule: str = "trimmed-mean"
    attack: Optional[str] = None  # None: the task's own if q > 0
    attacker_start: Optional[str] = None  # None: the attack's own
    attack_scale: Optional[float] = None  # None: the attack's own
    drop_rate: float = 0.0
    nonfinite: str = "reject"
    selection: str = "independent"
    warm_up: bool = True
    seed: int = 0
    eval_every: int = 10
    deadline: Optional[float] = None  # seconds of an epoch, on a parameter server

    def __post_init__(self) -> None:
        for name in ("gamma", "alpha", "drop_rate", "attack_scale", "deadline"):
            self._set_number(name)
        if isinstance(self.local_steps, list):  # as JSON has it
            object.__setattr__(self, "local_steps", tuple(self.local_steps))
        self._validate()
        self._resolve_attack()

    def _set_number(self, name: str) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, (int, float, type(None))):
            raise ConfigError(f"{name}={value!r} must be a number")
        object.__setattr__(self, name, value if value is None else float(value))

    def _validate(self) -> None:
        whole = dict(n=1, k=1, b=0, q=0, epochs=1, passes=1, batch_size=1, seed=0, eval_every=1)
        require_whole(self, alpha_decay_epoch=0, **whole)
        require(self.k <= self.n, "k", self.k, f"1 <= k <= n={self.n}")
        require(self.q <= self.k, "q", self.q, f"0 <= q <= k={self.k}")
        check_trim(self.k, self.b)
        require(0 < self.gamma <= LARGEST, "gamma", self.gamma, f"0 < gamma <= {LARGEST:g}")
        require(0 < self.alpha <= 1, "alpha", self.alpha, "0 < alpha <= 1")
        require(0 <= self.drop_rate < 1, "drop_rate", self.drop_rate, "0 <= drop_rate < 1")
        require_name("alpha_schedule", self.alpha_schedule, tuple(SCHEDULES))
        require_name("rule", self.rule, tuple(RULES))
        require_name("nonfinite", self.nonfinite, ("reject", "keep"))
        require_name("selection", self.selection, ("independent", "permutation"))
        if self.rule != "trimmed-mean":
            require(self.b == 0, "b", self.b, f"b=0 with rule {self.rule!r}, which trims nothing")
        if self.local_steps is not None:
            if not _are_bounds(self.local_steps):
                raise ConfigError(f"local_steps={self.local_steps!r} must be two whole numbers")
            low, high = self.local_steps
            require(1 <= low <= high, "local_steps", f"{low}:{high}", "1 <= MIN <= MAX")
            require(self.passes == 1, "passes", self.passes, "passes=1 where local_steps is given")
        if self.deadline is not None:
            legal = "a finite number of seconds, deadline > 0"
            require(0 < self.deadline < math.inf, "deadline", f"{self.deadline:g}", legal)
        if self.selection == "permutation":
            divides = self.n % self.k == 0
            require(divides, "k", self.k, f"a divisor of n={self.n} with selection by permutation")
        self.task.validate(self.n)

    def _resolve_attack(self) -> None:
        """Write the attack's own choices out, so that equal runs have equal configurations."""
        if self.attack is not None:
            find_attack(self.attack)
        if self.q == 0:
            attack = start = scale = None
        else:
            attack = self.attack or self.task.default_attack
            known = find_attack(attack)
            start = known.start if self.attacker_start is None else self.attacker_start
            scale = known.scale if self.attack_scale is None else float(self.attack_scale)
            require_name("attacker_start", start, ("fresh", "pulled"))
            legal = f"-{LARGEST:g} <= attack_scale <= {LARGEST:g}"
            require(abs(scale) <= LARGEST, "attack_scale", scale, legal)
        for name, value in (("attack", attack), ("attacker_start", start), ("attack_scale", scale)):
            object.__setattr__(self, name, value)

    def alpha_at(self, t: int) -> float:
        """alpha_t, the weight of the moving average in epoch t = 1..T."""
        return SCHEDULES[self.alpha_schedule](t, self.alpha, self.alpha_decay_epoch)

    def is_evaluated(self, t: int) -> bool:
        """Whether the model after epoch t is evaluated: the last one always."""
        return t % self.eval_every == 0 or t == self.epochs

    def warnings(self) -> List[str]:
        """What is allowed but probably not meant."""
        said = []
        if self.q > 0 and self.b < self.q and self.rule != "median":
            said.append(f"b={self.b} < q={self.q}: trimming cannot remove every poisoned push")
        gone = self.attack == "silent" or (
            self.attack in ("nan", "inf") and self.nonfinite == "reject"
        )
        if gone and self.k - self.q <= 2 * self.b:
            said.append(
                f"{self.attack} leaves k-q={self.k - self.q} pushes, and trimming needs more than "
                f"2b={2 * self.b}: the model will never change"
            )
        if 2 * self.q >= self.k:
            said.append(f"2q={2 * self.q} >= k={self.k}: no rule can withstand that many")
        never = self.alpha_schedule == "step" and self.alpha_decay_epoch >= self.epochs
        if never and self.alpha < 1:
            said.append(
                f"alpha={self.alpha} takes effect after epoch {self.alpha_decay_epoch}, "
                f"and the run ends at T={self.epochs}: alpha stays 1"
            )
        return said

    def to_dict(self) -> Dict[str, Any]:
        values = dataclasses.asdict(self)
        values["task"] = {"kind": self.task.kind, **values["task"]}
        if self.deadline is None:  # as it was before there were any: identities stay
            del values["deadline"]
        return values

    def to_json(self) -> str:
        """Canonical JSON: equal configurations have equal text."""
        return json.dumps(self.to_dict(), sort_keys=True, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> RunConfig:
        try:
            values = json.loads(text)
            task = dict(values.pop("task"))
            return cls(task=TASKS[task.pop("kind")](**task), **values)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"not a configuration of a run: {error}") from error

    @property
    def identity(self) -> str:
        """Hash of all that determines the numbers of the run."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:12]

    @property
    def slug(self) -> str:
        """A folder name a person can read, unique by its identity."""
        attack = "" if self.q == 0 else f"-{self.attack}-q{self.q}"
        rule = f"b{self.b}" if self.rule == "trimmed-mean" else self.rule
        symbols = f"gamma{self.gamma:g}-alpha{self.alpha:g}-{rule}{attack}-seed{self.seed}"
        return f"{self.task.slug}-{symbols}-{self.identity}"
