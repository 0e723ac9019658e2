"""What every server of Algorithm 1 does: init, pull, push and update, as in MXNet's KVStore."""

from __future__ import annotations

import abc
import dataclasses
import functools
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Dict, Iterable, Optional, Sequence, Set, Tuple

import numpy as np

from slsgd_mx.attacks import find_attack
from slsgd_mx.attacks.engine import find_obstacle
from slsgd_mx.config import NONFINITE, RunConfig
from slsgd_mx.core.collusion import Plot, Settings, coefficients
from slsgd_mx.core.flat_model import FlatModel, Shard, all_finite
from slsgd_mx.core.task import Task
from slsgd_mx.errors import ConfigError
from slsgd_mx.randomness import stream
from slsgd_mx.rules.pipeline import add_in_order, find_rule
from slsgd_mx.system.arrays import Array, as_ndarray, as_numpy
from slsgd_mx.system.stopwatch import Costs, Stopwatch
from slsgd_mx.validation import require, require_name

if TYPE_CHECKING:
    from slsgd_mx.system.mxnet import mx

Parameters = Dict[str, "mx.nd.NDArray"]  # NDArrays that share the memory of one flat vector


@dataclass(frozen=True)
class Update:
    """What ``Server.update`` did with each slot's push.

    ``shares`` says how much of each push the rule used, if the rule tells; ``costs``, what it took.
    """

    accepted: Tuple[int, ...]
    refused: Tuple[int, ...]  # arrived, but were not finite
    missing: Tuple[int, ...]  # did not arrive, or not with every parameter
    applied: bool  # False: too few pushes were left, x_t = x_{t-1}
    shares: Optional[Tuple[float, ...]] = field(default=None, compare=False, repr=False)
    costs: Costs = field(default=Costs(), compare=False, repr=False)

    @property
    def arrived(self) -> Tuple[int, ...]:
        return self.accepted + self.refused


def settings_of(config: RunConfig) -> Settings:
    """How the server of a run aggregates."""
    colludes = config.attacked and find_attack(config.attack).entry.colludes
    attack = config.attack if colludes else None
    return Settings(config.k, config.b, config.rule, config.nonfinite, attack, config.seed)


def check_settings(settings: Settings) -> None:
    """Raise a ConfigError that gives the legal values unless all of them are legal."""
    find_rule(settings.rule).check(settings.k, settings.b)
    require_name("nonfinite", settings.nonfinite, NONFINITE)
    if settings.attack is not None:
        attack = find_attack(settings.attack)
        if not attack.entry.colludes:
            raise ConfigError(f"attack {settings.attack!r} does not collude: workers carry it out")
        illegal = find_obstacle(attack, settings.k, 0, settings.b, settings.rule)
        if illegal:
            raise ConfigError(illegal)


def judge(settings: Settings, finite: Dict[int, bool]) -> Update:
    """Which slots to aggregate, given the complete ones and whether each is finite."""
    fine = {slot: finite[slot] or settings.nonfinite == "keep" for slot in sorted(finite)}
    accepted = [slot for slot in fine if fine[slot]]
    return Update(
        accepted=tuple(accepted),
        refused=tuple(slot for slot in fine if not fine[slot]),
        missing=tuple(s for s in range(settings.k) if s not in finite),
        applied=find_rule(settings.rule).obstacle(len(accepted), settings.b) is None,
    )


def aggregate(
    shard: Shard,
    settings: Settings,
    t: int,
    accepted: Sequence[int],
    alpha: float,
    matrix: Optional[np.ndarray],
) -> None:
    """Lines 14 and 15 on one shard, after it is known which slots are accepted."""
    streams = functools.partial(stream, settings.seed, "rule", t)
    shard.update(accepted, settings.rule, settings.b, alpha, matrix, streams)


class Server(abc.ABC):
    """The server as Algorithm 1 calls it, whether the model is in this process or elsewhere.

    It checks calls and records which parameters each slot has pushed in the current epoch.
    Subclasses say where pushes go and how they are aggregated.
    """

    def __init__(self, settings: Settings) -> None:
        check_settings(settings)
        self.settings = settings
        self.model = FlatModel()
        self._pushed: Dict[int, Set[str]] = defaultdict(set)  # keys, by slot
        self._watch = Stopwatch()

    def init(
        self,
        key: str,
        value: Array,
        moving_average: bool = True,
        averaged: Optional[bool] = None,
    ) -> None:
        """Set the initial value of a parameter, before the first push or pull.

        With ``moving_average=False`` the aggregate x'_t replaces x_{t-1}, whatever alpha is (as
        for the running statistics of batch normalisation).  ``averaged`` is its deprecated name.
        """
        if averaged is not None:
            message = "Server.init(averaged=...) is deprecated: use moving_average=..."
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            moving_average = averaged
        self.model.add(key, as_numpy(value), moving_average)

    @abc.abstractmethod
    def start(self, epoch: int) -> None:
        """Begin with the initialised parameters as the model after ``epoch``."""

    @abc.abstractmethod
    def begin(self, t: int) -> Optional[Iterable[int]]:
        """Begin epoch t; return the slots of S_t to be trained in this process (None: all)."""

    def pull(self, key: str, out: Array) -> None:
        """Copy the global value of a parameter into an NDArray or NumPy array (lines 6-7)."""
        self.model.check_key(key)
        self._watch.switch("transfer")
        self._refresh()
        value = self._values[key]
        if isinstance(out, np.ndarray):
            if out.shape != value.shape:
                raise ConfigError(f"pull of {key!r} needs shape {value.shape}, not {out.shape}")
            np.copyto(out, value.asnumpy(), casting="same_kind")
        else:
            value.copyto(out)
        self._watch.switch("training")

    def push(self, key: str, value: Array, slot: int) -> None:
        """Hand in a worker's value of a parameter (line 12), once per slot, key and epoch."""
        from slsgd_mx.system.mxnet import mx

        if not isinstance(value, mx.nd.NDArray):
            value = mx.nd.array(as_numpy(value), dtype=np.float32)
        self._check_push(key, value.shape, slot)
        self._watch.switch("transfer")
        value.copyto(self._destination(slot)[key])
        self._pushed[slot].add(key)
        if self._is_complete(slot):
            self._send(slot)
        self._watch.switch("training")

    @abc.abstractmethod
    def update(self, alpha: float, poisoned: Sequence[int] = ()) -> Update:
        """Aggregate the pushes and apply the moving average (lines 14-15).

        The workers in the slots ``poisoned`` collude first, if the settings name an attack.
        """

    def _conclude(self, t: int, alpha: float, poisoned: Sequence[int]) -> Update:
        """Let the attackers collude, decide which pushes to accept, aggregate them."""
        settings, finite = self.settings, self._finite_slots()
        plot = self._plot(t, finite, poisoned)
        if plot is not None:
            combination = None
            if find_attack(settings.attack).entry.combine is not None:
                gram = add_in_order(self._products(plot))
                combination = coefficients(gram, settings, plot)
            finite.update(self._collude(plot, combination))
        update, matrix = judge(settings, finite), None
        rule = find_rule(settings.rule)
        if update.applied and rule.mixes:
            gram = add_in_order(self._grams(update.accepted))
            matrix = rule.mixing(gram, settings.b, settings.seed, t)
        shares = self._shares(update.accepted, matrix) if update.applied else None
        self._apply(t, update, matrix, alpha)
        return dataclasses.replace(update, shares=shares)

    def _shares(
        self, accepted: Sequence[int], matrix: Optional[np.ndarray]
    ) -> Optional[Tuple[float, ...]]:
        """How much of each slot's push the rule uses; None if the rule does not tell."""
        rule, k = find_rule(self.settings.rule), self.settings.k
        if not rule.tells_kept:
            return None
        kept, count = None, 1
        if rule.rule.entry.aggregate is not None:
            total = add_in_order(self._kept(accepted, matrix))
            count, kept = int(total[0]), total[1:]
        shares = np.zeros(k)
        shares[list(accepted)] = rule.shares(kept, count, matrix)
        return tuple(shares.tolist())

    def _plot(self, t: int, finite: Dict[int, bool], poisoned: Sequence[int]) -> Optional[Plot]:
        """Who colludes; None if nobody does, or if too few honest pushes have arrived."""
        if self.settings.attack is None:
            return None
        attack = find_attack(self.settings.attack).entry
        colluding = set(poisoned)
        able = tuple(s for s in poisoned if s in finite or "own" not in attack.needs)
        honest = tuple(s for s in sorted(finite) if finite[s] and s not in colluding)
        return Plot(t, able, honest) if able and len(honest) >= attack.honest else None

    @abc.abstractmethod
    def _finite_slots(self) -> Dict[int, bool]:
        """The slots that are complete, and whether each is finite."""

    @abc.abstractmethod
    def _products(self, plot: Plot) -> Iterable[np.ndarray]:
        """Inner products of what the attackers see, for every block of the flat model."""

    @abc.abstractmethod
    def _collude(self, plot: Plot, combination: Optional[np.ndarray]) -> Dict[int, bool]:
        """Let the attackers write their slots; return whether each is finite."""

    @abc.abstractmethod
    def _grams(self, slots: Sequence[int]) -> Iterable[np.ndarray]:
        """Inner products of the updates in these slots, for every block of the flat model."""

    @abc.abstractmethod
    def _kept(self, slots: Sequence[int], matrix: Optional[np.ndarray]) -> Iterable[np.ndarray]:
        """How often the rule uses each push, for every block of the flat model."""

    @abc.abstractmethod
    def _apply(self, t: int, update: Update, matrix: Optional[np.ndarray], alpha: float) -> None:
        """Aggregate the accepted slots, if there are enough, and end the epoch."""

    def evaluate(self, task: Task) -> Dict[str, float]:
        """The metrics of the model in ``task``."""
        return task.evaluate()

    def values(self) -> Dict[str, np.ndarray]:
        """A copy of the global model x_t."""
        self._refresh()
        return {key: value.copy() for key, value in self.model.split(self.model.vector).items()}

    def is_finite(self) -> bool:
        """Whether the global model contains neither NaN nor infinity."""
        self._refresh()
        return all_finite(self.model.vector)

    def _refresh(self) -> None:  # noqa: B027  (a hook)
        """Make ``model.vector`` the global model."""

    @abc.abstractmethod
    def _destination(self, slot: int) -> Parameters:
        """Where the parameters that a slot pushes are copied to."""

    def _send(self, slot: int) -> None:  # noqa: B027  (a hook)
        """Called when a slot has pushed every parameter."""

    def _check_push(self, key: str, shape: Tuple[int, ...], slot: int) -> None:
        self.model.check_key(key)
        rows, expected = self.settings.k + self.settings.extra, self.model.places[key].shape
        if not isinstance(slot, (int, np.integer)) or not 0 <= slot < rows:
            raise ConfigError(f"slot={slot} is out of range: needs 0 <= slot <= {rows - 1}")
        if shape != expected:
            raise ConfigError(f"push to {key!r} has shape {shape}, not {expected}")
        if key in self._pushed[slot]:
            raise ConfigError(f"slot {slot} has pushed {key!r} already in this epoch")

    def _is_complete(self, slot: int) -> bool:
        return len(self._pushed[slot]) == len(self.model.places)

    def _forget_pushes(self) -> None:
        self._pushed.clear()

    @functools.cached_property
    def _values(self) -> Parameters:
        return share_memory(self.model, self.model.vector)


def share_memory(model: FlatModel, vector: np.ndarray) -> Parameters:
    """The parameters in a flat vector as NDArrays that share its memory."""
    return {key: as_ndarray(value) for key, value in model.split(vector).items()}


def check_alpha(alpha: float) -> None:
    require(0 < alpha <= 1, "alpha", alpha, "0 < alpha <= 1")
