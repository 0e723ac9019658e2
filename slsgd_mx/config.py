"""Every symbol of the paper in one frozen, validated, hashable object."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from slsgd_mx.attacks import find_attack
from slsgd_mx.attacks.engine import find_misfit, find_obstacle
from slsgd_mx.errors import ConfigError
from slsgd_mx.frozen import FROZEN, FROZEN_SIZES, SHOWN, changed
from slsgd_mx.registry import Choice, replace_parameter
from slsgd_mx.rules.pipeline import find_rule
from slsgd_mx.schedules import SCHEDULES
from slsgd_mx.tasks import sizes as _sizes  # noqa: F401  (registers the package's workloads)
from slsgd_mx.tasks.cifar.sizes import Cifar
from slsgd_mx.validation import LARGEST, MOST, plain, require, require_name, require_whole
from slsgd_mx.workloads import WORKLOADS, Sizes, in_a_name

NONFINITE = ("reject", "keep")
SELECTIONS = ("independent", "permutation")
STARTS = ("fresh", "pulled")  # of attackers
PRECISIONS = ("float32", "bfloat16")
WARM_UP_PASSES, WARM_UP_GAMMA = 5, 0.01  # as in the released code


def _are_bounds(value: object) -> bool:
    """Whether this is a pair of whole numbers."""
    return isinstance(value, tuple) and [type(bound) for bound in value] == [int, int]


@dataclass(frozen=True)
class RunConfig:
    """One run of Algorithm 1; the defaults are the paper's CNN without attack (FedAvg).

    Frozen, validated and hashable.  Rules, attacks and partitions are texts
    ``NAME:key=value,...``; the configuration holds their canonical form.

    Parameters
    ----------
    sizes : Sizes
        The workload and how large it is: ``Cifar``, ``Lstm``, ``Images`` or a plug-in's.
    n : int
        Number of devices.  Paper: 100.
    k : int
        Devices selected in each epoch (line 4), ``1 <= k <= n``.  Paper: 10.
    b : int
        Values trimmed at each end (line 14), ``2b < k``; 0 is the plain mean.  Other rules state
        their own limits.  Paper: 0, 2 and 4.
    q : int
        Poisoned workers among the k of every epoch, ``0 <= q <= k``.  Paper: 0, 2 and 4.
    gamma : float
        Learning rate of local SGD (line 10), above 0.  Paper: 0.1 and 0.05 (CNN), 20 (LSTM).
    alpha : float
        Weight of the aggregate in ``x_t = (1 - alpha) x_{t-1} + alpha x'_t`` (line 15), in (0, 1].
    alpha_schedule : str
        alpha_t in epoch t: "step" (1 up to the decay epoch, alpha after it, as in the paper's
        figures), "constant" (Figures 5 and 6) or "inverse-square" (alpha / t^2).
    alpha_decay_epoch : int
        Last epoch with alpha_t = 1 under "step".  Paper: 400 (CNN), 600 (LSTM).
    epochs : int
        T, number of epochs (line 3).  Paper: 800.
    passes : int
        H_t^i in full passes over the device's data.  Paper: 1.
    local_steps : tuple of two ints, optional
        Instead of ``passes``: bounds between which H_t^i is drawn for every device and epoch.
    batch_size : int
        Minibatch of local SGD.  Paper: 50 images, 20 sequences.
    rule : str
        How k pushes become one model: "trimmed-mean" (Option II), "mean" (Option I) or another.
    attack : str, optional
        What poisoned workers do.  None: the workload's own, if there are poisoned workers.
    attacker_start : str, optional
        Poisoned workers train from a "fresh" random model or the "pulled" one.  None: the
        attack's own.
    attack_scale : float, optional
        Factor of "negation", noise of "gaussian", shift of "label-shift".  None: the attack's own.
    boost : float
        F: a poisoned worker pushes ``w_0 + F (x - w_0)``, w_0 being what it started from.
    drop_rate : float
        Probability that a selected worker does not answer, in [0, 1).
    nonfinite : str
        "reject" discards pushes with NaN or infinity as a whole; "keep" aggregates them.
    selection : str
        S_t is drawn "independent" in each epoch (the text), or in blocks of a "permutation" of all
        devices (the released code).
    warm_up : bool
        Initialise x_0 by 5 passes at gamma 0.01 over one device's data (the released code).
    seed : int
        All randomness follows from it.
    partition_seed : int, optional
        Seed of the partition alone.  None: the run's seed.
    eval_every : int
        Epochs between two evaluations; the last epoch is always evaluated.
    precision : str
        "float32", or "bfloat16" for the arithmetic of training and evaluation; weights, pushes and
        the aggregation stay float32.
    deadline : float, optional
        Seconds an epoch may take on a parameter server; slower devices are left out of it.
    poisoned_devices : int, optional
        Instead of ``q``: so many of the n devices, chosen by the seed, are poisoned throughout.
    sources : tuple
        Plug-ins in use and their digests; looked up, not given.

    Raises
    ------
    ConfigError
        If a value is out of range; the message gives the value and the legal range.

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

    sizes: Sizes = field(default_factory=Cifar)
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
    boost: float = 1.0  # F: a poisoned worker pushes w_0 + F (x - w_0), w_0 what it started from
    drop_rate: float = 0.0
    nonfinite: str = "reject"
    selection: str = "independent"
    warm_up: bool = True
    seed: int = 0
    partition_seed: Optional[int] = None  # None: the seed; a number fixes the partition
    eval_every: int = 10
    deadline: Optional[float] = None  # seconds of an epoch, on a parameter server
    poisoned_devices: Optional[int] = None  # of the n; None: q of the k in every epoch
    precision: str = "float32"  # of training and evaluation; the server keeps float32
    sources: Tuple[Tuple[str, str], ...] = ()  # plug-ins in use and their digests; looked up

    def __post_init__(self) -> None:
        self._convert_numpy()
        for name in ("gamma", "alpha", "drop_rate", "boost"):
            self._set_number(name)
        for name in ("attack_scale", "deadline"):
            if getattr(self, name) is not None:
                self._set_number(name)
        self._resolve_rule()
        self._validate()
        self._resolve_attack()
        object.__setattr__(self, "sources", self._find_sources())

    def _convert_numpy(self) -> None:
        """Replace NumPy numbers by plain ones, which print, compare and hash alike everywhere."""
        for name, value in vars(self).items():
            object.__setattr__(self, name, plain(value))
        own = {name: (value, plain(value)) for name, value in vars(self.sizes).items()}
        changed = {name: new for name, (old, new) in own.items() if new is not old}
        if changed:
            object.__setattr__(self, "sizes", dataclasses.replace(self.sizes, **changed))

    def _set_number(self, name: str) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigError(f"{name}={value!r} must be a number")
        object.__setattr__(self, name, float(value))

    def _validate(self) -> None:
        require_whole(self, n=1, k=1, b=0, q=0, epochs=1, passes=1, batch_size=1)
        require_whole(self, most=math.inf, seed=0, alpha_decay_epoch=0, eval_every=1)
        if self.partition_seed is not None:
            require_whole(self, most=math.inf, partition_seed=0)
        require(self.k <= self.n, "k", self.k, f"1 <= k <= n={self.n}")
        require(self.q <= self.k, "q", self.q, f"0 <= q <= k={self.k}")
        find_rule(self.rule).check(self.k, self.b)
        require(0 < self.gamma <= LARGEST, "gamma", self.gamma, f"0 < gamma <= {LARGEST:g}")
        require(0 < self.alpha <= 1, "alpha", self.alpha, "0 < alpha <= 1")
        require(0 <= self.drop_rate < 1, "drop_rate", self.drop_rate, "0 <= drop_rate < 1")
        require_name("alpha_schedule", self.alpha_schedule, tuple(SCHEDULES))
        require_name("nonfinite", self.nonfinite, NONFINITE)
        require_name("selection", self.selection, SELECTIONS)
        require_name("precision", self.precision, PRECISIONS)
        require(type(self.warm_up) is bool, "warm_up", self.warm_up, "True or False")
        legal = f"float32, because task {self.sizes.task} has no network"
        has_effect = self.sizes.has_network or self.precision == "float32"
        require(has_effect, "precision", self.precision, legal)
        if self.local_steps is not None:
            if not _are_bounds(self.local_steps):
                wrong = f"local_steps={self.local_steps!r} must be two whole numbers"
                raise ConfigError(f"{wrong}, 1 <= MIN <= MAX <= {MOST}")
            low, high = self.local_steps
            legal = f"1 <= MIN <= MAX <= {MOST}"
            require(1 <= low <= high <= MOST, "local_steps", f"{low}:{high}", legal)
            require(self.passes == 1, "passes", self.passes, "passes=1 where local_steps is given")
        if self.deadline is not None:
            legal = "a finite number of seconds, deadline > 0"
            require(0 < self.deadline < math.inf, "deadline", f"{self.deadline:g}", legal)
        if self.selection == "permutation":
            divides = self.n % self.k == 0
            require(divides, "k", self.k, f"a divisor of n={self.n} with selection by permutation")
        self.sizes.validate(self.n)

    def _resolve_rule(self) -> None:
        """The canonical form of the rule, and b=0 where it does not use b."""
        rule = find_rule(self.rule)
        object.__setattr__(self, "rule", rule.text)
        if not rule.uses_b:
            require_whole(self, b=0)
            object.__setattr__(self, "b", 0)

    @property
    def least_pushes(self) -> int:
        """The smallest number of pushes with which an epoch changes the model.

        >>> RunConfig(b=2).least_pushes, RunConfig(b=2, rule="krum").least_pushes
        (5, 7)
        """
        rule = find_rule(self.rule)
        return next(m for m in range(1, self.k + 1) if rule.obstacle(m, self.b) is None)

    @property
    def attacked(self) -> bool:
        """Whether some workers are poisoned."""
        return self.q > 0 or bool(self.poisoned_devices)

    def _resolve_attack(self) -> None:
        """Fill in the attack's defaults, so that equal runs have equal configurations."""
        if self.poisoned_devices is not None:
            require_whole(self, poisoned_devices=0)
            legal = f"0 <= poisoned_devices <= n={self.n}"
            require(
                self.poisoned_devices <= self.n, "poisoned_devices", self.poisoned_devices, legal
            )
            legal = "q=0 where poisoned_devices is given"
            require(self.q == 0, "q", self.q, legal)
        chosen = None if self.attack is None else find_attack(self.attack)
        if not self.attacked:
            attack = start = scale = None
            object.__setattr__(self, "boost", 1.0)
        else:
            chosen = self._take_fields(chosen or find_attack(self.sizes.default_attack))
            known, attack = chosen.entry, chosen.text
            start = known.start if self.attacker_start is None else self.attacker_start
            scale = known.scale if self.attack_scale is None else float(self.attack_scale)
            legal = f"-{LARGEST:g} <= attack_scale <= {LARGEST:g}"
            require(abs(scale) <= LARGEST, "attack_scale", scale, legal)
            require_name("attacker_start", start, STARTS)
            require(0 < self.boost <= LARGEST, "boost", self.boost, f"0 < boost <= {LARGEST:g}")
            if not known.poisons_data:
                legal = f"boost=1 with {attack!r}, because only attacks on data train a model"
                require(self.boost == 1, "boost", self.boost, legal)
            illegal = find_misfit(chosen, self.sizes) or find_obstacle(
                chosen, self.k, self.q, self.b, self.rule
            )
            if illegal:
                raise ConfigError(illegal)
        for name, value in (("attack", attack), ("attacker_start", start), ("attack_scale", scale)):
            object.__setattr__(self, name, value)

    def _take_fields(self, chosen: Choice) -> Choice:
        """The attack without the parameters that are fields: ``label-flip:start=pulled``."""
        names = {"scale": "attack_scale", "start": "attacker_start", "boost": "boost"}
        for key, name in names.items():
            known = chosen.entry.parameters.get(key)
            if known and known.default is None and chosen.parameters[key] is not None:
                object.__setattr__(self, name, chosen.parameters[key])
                chosen = replace_parameter(chosen, key, None)
        return chosen

    def _find_sources(self) -> Tuple[Tuple[str, str], ...]:
        """The plug-ins that the rule, the attack and the sizes come from, with their digests."""
        found = [*find_rule(self.rule).sources, *self.sizes.sources()]
        found += [] if self.attack is None else [find_attack(self.attack).source]
        return tuple(sorted({tuple(source) for source in found if source is not None}))

    def check_sources(self) -> None:
        """Raise a ConfigError if a plug-in in use is not the one that the configuration names."""
        here = self._find_sources()
        if here != self.sources:
            words = [show_sources(sources) for sources in (self.sources, here)]
            raise ConfigError(
                f"this configuration was made with {words[0]}, and here it would run with "
                f"{words[1]}: restore the plug-in, or make the configuration anew"
            )

    @property
    def metrics(self) -> Tuple[str, ...]:
        """The metrics in metrics.csv: those of the task, then those of the attack."""
        measured = self.attacked and find_attack(self.attack).entry.trigger is not None
        return (*self.sizes.metrics, *(self.sizes.attack_metrics if measured else ()))

    @property
    def data_seed(self) -> int:
        """The seed of the partition."""
        return self.seed if self.partition_seed is None else self.partition_seed

    @property
    def task(self) -> Sizes:
        """The name of ``sizes`` in version 0.1.0."""
        warnings.warn("RunConfig.task is now RunConfig.sizes", DeprecationWarning, stacklevel=2)
        return self.sizes

    def alpha_at(self, t: int) -> float:
        """alpha_t, the weight of the moving average in epoch t = 1..T."""
        return SCHEDULES[self.alpha_schedule](t, self.alpha, self.alpha_decay_epoch)

    @property
    def alpha_never_acts(self) -> bool:
        """Whether the run ends before alpha decays."""
        return self.alpha_schedule == "step" and self.alpha_decay_epoch >= self.epochs

    def is_evaluated(self, t: int) -> bool:
        """Whether the model after epoch t is evaluated; the last one always is."""
        return t % self.eval_every == 0 or t == self.epochs

    def evaluations(self, until: int, most: int) -> List[int]:
        """The first epochs up to ``until`` <= T that are evaluated, at most so many.

        Nobody counts to T, which may be large in somebody else's configuration.
        """
        every = range(self.eval_every, until + 1, self.eval_every)[:most]
        last = until == self.epochs and until % self.eval_every and len(every) < most
        return [*every, *([until] if last else [])]

    def warnings(self) -> List[str]:
        """Legal settings that are probably not intended."""
        said, rule = [], "trimming" if self.rule == "trimmed-mean" else self.rule
        if self.q > 0 and self.b < self.q and find_rule(self.rule).uses_b:
            said.append(f"b={self.b} < q={self.q}: {rule} cannot remove every poisoned push")
        gone = self.attack == "silent" or (
            self.attack in ("nan", "inf") and self.nonfinite == "reject"
        )
        mean = self.k * (self.poisoned_devices or 0) / self.n  # poisoned workers in an epoch
        left = self.k - self.q - mean
        if gone and left < self.least_pushes:
            leaves = f"on average {left:.3g} of k={self.k}" if mean else f"k-q={left:g}"
            end = "most epochs will not change the model" if mean else "the model will never change"
            said.append(
                f"{self.attack} leaves {leaves} pushes, and {rule} with b={self.b} needs at least "
                f"{self.least_pushes}: {end}"
            )
        if 2 * self.q >= self.k:
            said.append(f"2q={2 * self.q} >= k={self.k}: no rule can withstand that many")
        if self.alpha_never_acts and self.alpha < 1:
            said.append(
                f"alpha={self.alpha} takes effect after epoch {self.alpha_decay_epoch}, "
                f"and the run ends at T={self.epochs}: alpha stays 1"
            )
        return said

    def to_dict(self) -> Dict[str, Any]:
        """Every field by name, and the name of the task."""
        return {"task": self.sizes.task, **dataclasses.asdict(self)}

    def to_json(self) -> str:
        """Canonical JSON: equal configurations have equal text."""
        return json.dumps(self.to_dict(), sort_keys=True, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> RunConfig:
        """Read what ``to_json`` of this or an earlier version wrote."""
        try:
            values = json.loads(text)
            task = values.pop("task")
            if isinstance(task, dict):  # 0.1.0: {"task": {"kind": "cifar", ...}}
                values["sizes"], task = task, task.pop("kind")
            values = {**FROZEN, **values}
            require_name("task", task, WORKLOADS)
            known = FROZEN_SIZES.get(task, {})
            sizes = WORKLOADS[task].sizes(**{**known, **values.pop("sizes")})
            stored = tuple((str(name), str(digest)) for name, digest in values["sources"])
            config = cls(sizes=sizes, **values)
            object.__setattr__(config, "sources", stored)
            return config
        except RecursionError:
            raise ConfigError("not a configuration of a run: nested too deeply") from None
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            plugins = _plugins_of(text)
            if plugins:
                raise ConfigError(
                    f"it needs --plugin with the path of {plugins}: {error}"
                ) from error
            raise ConfigError(f"not a configuration of a run: {error}") from error

    @property
    def identity(self) -> str:
        """Hash of all that determines the numbers of the run.

        Fields at their frozen default are left out, so that a field that a later version adds does
        not change the identity of earlier runs.
        """
        values = changed(dataclasses.asdict(self), FROZEN)
        values["sizes"] = changed(values["sizes"], FROZEN_SIZES.get(self.sizes.task, {}))
        text = json.dumps({"task": self.sizes.task, **values}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def slug(self) -> str:
        """A folder name that shows what a person varied, unique by its identity."""
        words = [self.sizes.slug, f"T{self.epochs}", f"gamma{self.gamma:g}", f"alpha{self.alpha:g}"]
        words += [in_a_name(self.rule)] * (self.rule != "trimmed-mean")
        words += [f"b{self.b}"] * find_rule(self.rule).uses_b
        if self.attacked:
            many = f"q{self.q}" if self.q else f"poisoned{self.poisoned_devices}"
            words += [in_a_name(self.attack), many]
            attack = find_attack(self.attack).entry
            words += [self.attacker_start] * (self.attacker_start != attack.start)
            words += [f"scale{self.attack_scale:g}"] * (self.attack_scale != attack.scale)
        shown = changed(dataclasses.asdict(self), FROZEN)
        words += [text.format(shown[name]) for name, text in SHOWN.items() if name in shown]
        return "-".join([*words, f"seed{self.seed}", self.identity])


def show_sources(sources: Sequence[Tuple[str, str]]) -> str:
    """Plug-ins and the beginnings of their digests, in words."""
    return ", ".join(f"{name} ({digest[:12]})" for name, digest in sources) or "no plug-in"


def _plugins_of(text: str) -> str:
    """The plug-ins that a stored configuration names; empty if there are none."""
    try:
        return ", ".join(sorted({str(name) for name, _ in json.loads(text)["sources"]}))
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _accept_task(init: Callable[..., None]) -> Callable[..., None]:
    """Let ``RunConfig(task=...)`` of version 0.1.0 work."""

    def accept(self, *values: Any, **fields: Any) -> None:
        if "task" in fields:
            warnings.warn("RunConfig(task=) is now sizes=", DeprecationWarning, stacklevel=2)
            fields["sizes"] = fields.pop("task")
        init(self, *values, **fields)

    return accept


RunConfig.__init__ = _accept_task(RunConfig.__init__)  # type: ignore[method-assign]
