"""The server of Algorithm 1, with the verbs of MXNet's KVStore: init, pull, push, update."""

from __future__ import annotations

import abc
import dataclasses
import functools
import warnings
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

import numpy as np

from slsgd_mx.config import NONFINITE
from slsgd_mx.core.flat_model import FlatModel, Shard, all_finite
from slsgd_mx.core.task import Task
from slsgd_mx.errors import ConfigError
from slsgd_mx.rules import RULES
from slsgd_mx.rules.trimmed_mean import check_trim
from slsgd_mx.system.arrays import as_ndarray
from slsgd_mx.system.mxnet import mx
from slsgd_mx.system.stopwatch import Costs, Stopwatch
from slsgd_mx.validation import require, require_name

Parameters = Dict[str, mx.nd.NDArray]  # NDArrays that share the memory of one flat vector


@dataclass(frozen=True)
class Update:
    """What ``Server.update`` did with each slot's push."""

    accepted: Tuple[int, ...]
    refused: Tuple[int, ...]  # arrived, but were not finite
    missing: Tuple[int, ...]  # did not arrive, or not with every parameter
    applied: bool  # False: too few pushes were left, x_t = x_{t-1}
    costs: Costs = field(default=Costs(), compare=False, repr=False)

    @property
    def arrived(self) -> Tuple[int, ...]:
        return self.accepted + self.refused


class Settings(NamedTuple):
    """How a server aggregates: the paper's k and b, the rule, the policy on non-finite pushes."""

    k: int
    b: int = 0
    rule: str = "trimmed-mean"
    nonfinite: str = "reject"

    def check(self) -> Settings:
        """Raise a ConfigError that gives the legal values unless all of them are legal."""
        check_trim(self.k, self.b)
        require_name("rule", self.rule, list(RULES))
        require_name("nonfinite", self.nonfinite, NONFINITE)
        return self

    def judge(self, finite: Dict[int, bool]) -> Update:
        """Which slots to aggregate, given the complete ones and whether each is finite."""
        accepted = [s for s, fine in sorted(finite.items()) if fine or self.nonfinite == "keep"]
        return Update(
            accepted=tuple(accepted),
            refused=tuple(s for s in sorted(finite) if s not in accepted),
            missing=tuple(s for s in range(self.k) if s not in finite),
            applied=len(accepted) > 2 * self.b,
        )


class Server(abc.ABC):
    """The server as Algorithm 1 calls it, whether the model is in this process or elsewhere.

    It checks calls and records which parameters each slot has pushed in the current epoch.
    Subclasses say where pushes go and how they are aggregated.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings.check()
        self.model = FlatModel()
        self._pushed: List[Set[str]] = [set() for _ in range(settings.k)]  # keys, by slot
        self._watch = Stopwatch()

    def init(
        self,
        key: str,
        value: mx.nd.NDArray,
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
        self.model.add(key, value.asnumpy(), moving_average)

    @abc.abstractmethod
    def start(self, epoch: int) -> None:
        """Begin with the initialised parameters as the model after ``epoch``."""

    @abc.abstractmethod
    def begin(self, t: int) -> Optional[Iterable[int]]:
        """Begin epoch t; return the slots of S_t to be trained in this process (None: all)."""

    def pull(self, key: str, out: mx.nd.NDArray) -> None:
        """Copy the global value of a parameter into ``out`` (lines 6-7)."""
        self.model.check_key(key)
        self._watch.switch("transfer")
        self._refresh()
        self._values[key].copyto(out)
        self._watch.switch("training")

    def push(self, key: str, value: mx.nd.NDArray, slot: int) -> None:
        """Hand in a worker's value of a parameter (line 12), once per slot, key and epoch."""
        self._check_push(key, value.shape, slot)
        self._watch.switch("transfer")
        value.copyto(self._destination(slot)[key])
        self._pushed[slot].add(key)
        if self._is_complete(slot):
            self._send(slot)
        self._watch.switch("training")

    @abc.abstractmethod
    def update(self, alpha: float) -> Update:
        """Aggregate the pushes and apply the moving average (lines 14-15)."""

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
        k, expected = self.settings.k, self.model.places[key].shape
        if not isinstance(slot, (int, np.integer)) or not 0 <= slot < k:
            raise ConfigError(f"slot={slot} is out of range: needs 0 <= slot <= {k - 1}")
        if shape != expected:
            raise ConfigError(f"push to {key!r} has shape {shape}, not {expected}")
        if key in self._pushed[slot]:
            raise ConfigError(f"slot {slot} has pushed {key!r} already in this epoch")

    def _is_complete(self, slot: int) -> bool:
        return len(self._pushed[slot]) == len(self.model.places)

    def _forget_pushes(self) -> None:
        for keys in self._pushed:
            keys.clear()

    @functools.cached_property
    def _values(self) -> Parameters:
        return share_memory(self.model, self.model.vector)


def share_memory(model: FlatModel, vector: np.ndarray) -> Parameters:
    """The parameters in a flat vector as NDArrays that share its memory."""
    return {key: as_ndarray(value) for key, value in model.split(vector).items()}


def check_alpha(alpha: float) -> None:
    require(0 < alpha <= 1, "alpha", alpha, "0 < alpha <= 1")


class ModelServer(Server):
    """Keeps the global model, takes one push per slot and aggregates them.

    A slot is a worker's position in S_t.  Because pushes are kept by slot, the result does not
    depend on the order in which they arrive, not even in the last bit.

    Parameters
    ----------
    k : int
        Slots: workers selected in an epoch.
    b : int
        Values trimmed at each end, ``0 <= b <= ceil(k/2) - 1``.
    rule : str
        A name in ``slsgd_mx.rules.RULES``.
    nonfinite : {"reject", "keep"}
        Whether a push with a NaN or an infinity is discarded as a whole, or aggregated.

    Examples
    --------
    >>> from slsgd_mx import ModelServer
    >>> from slsgd_mx.system.mxnet import mx
    >>> server = ModelServer(k=4, b=1)
    >>> server.init("w", mx.nd.zeros(2))
    >>> for slot, value in enumerate([1, 2, 3, float("nan")]):
    ...     server.push("w", mx.nd.array([value, 0]), slot)
    >>> server.update(alpha=0.5)
    Update(accepted=(0, 1, 2), refused=(3,), missing=(), applied=True)
    >>> out = mx.nd.empty(2)
    >>> server.pull("w", out=out)
    >>> out.asnumpy()
    array([1., 0.], dtype=float32)
    """

    def __init__(
        self, k: int, b: int = 0, rule: str = "trimmed-mean", nonfinite: str = "reject"
    ) -> None:
        super().__init__(Settings(k, b, rule, nonfinite))

    def start(self, epoch: int) -> None:
        """Nothing to do: in one process it does not matter which epoch the model is of."""

    def begin(self, t: int) -> None:
        """Begin epoch t; all workers of S_t run in this process."""
        self._watch.reset()

    def update(self, alpha: float) -> Update:
        check_alpha(alpha)
        self._watch.switch("aggregation")
        mx.nd.waitall()  # MXNet's engine copies pushes asynchronously
        complete = [slot for slot in range(self.settings.k) if self._is_complete(slot)]
        update = self.settings.judge({slot: self._shard.is_finite(slot) for slot in complete})
        if update.applied:
            self._shard.update(update.accepted, self.settings.rule, self.settings.b, alpha)
        self._forget_pushes()
        self._watch.switch("")
        return dataclasses.replace(update, costs=Costs(**self._watch.take()))

    def _destination(self, slot: int) -> Parameters:
        return self._slots[slot]

    @functools.cached_property
    def _shard(self) -> Shard:
        """One shard: the whole model."""
        return Shard(self.model.vector, self.settings.k, self.model.replaced)

    @functools.cached_property
    def _slots(self) -> List[Parameters]:
        return [share_memory(self.model, row) for row in self._shard.slots]
