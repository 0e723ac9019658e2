"""The server of Algorithm 1, with the verbs of MXNet's KVStore: init, pull, push, update."""

from __future__ import annotations

import abc
import dataclasses
import functools
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

import numpy as np

from slsgd_mx.core.flat_model import Layout, Shard, all_finite
from slsgd_mx.core.task import Task
from slsgd_mx.errors import ConfigError
from slsgd_mx.rules import RULES
from slsgd_mx.rules.trimmed_mean import check_trim
from slsgd_mx.system.arrays import as_ndarray
from slsgd_mx.system.mxnet import mx
from slsgd_mx.system.stopwatch import Costs, Stopwatch


@dataclass(frozen=True)
class Update:
    """What ``ModelServer.update`` did: slots by what became of their push."""

    accepted: Tuple[int, ...]
    refused: Tuple[int, ...]  # came, but were not finite
    missing: Tuple[int, ...]  # never came, or not with every parameter
    applied: bool  # False: too few pushes were left, x_t = x_{t-1}
    costs: Costs = field(default=Costs(), compare=False, repr=False)

    @property
    def arrived(self) -> Tuple[int, ...]:
        return self.accepted + self.refused


class Settings(NamedTuple):
    """How a server aggregates; wrong settings are told with what is legal."""

    k: int
    b: int = 0
    rule: str = "trimmed-mean"
    nonfinite: str = "reject"

    def check(self) -> Settings:
        check_trim(self.k, self.b)
        if self.rule not in RULES:
            names = ", ".join(RULES)
            raise ConfigError(f"rule={self.rule!r} is unknown: choose one of {names}")
        if self.nonfinite not in ("reject", "keep"):
            raise ConfigError(f"nonfinite={self.nonfinite!r} is unknown: choose reject or keep")
        return self

    def judge(self, finite: Dict[int, bool]) -> Update:
        """Whom to aggregate, given which slots came whole and whether each was finite."""
        accepted = [s for s, fine in sorted(finite.items()) if fine or self.nonfinite == "keep"]
        return Update(
            accepted=tuple(accepted),
            refused=tuple(s for s in sorted(finite) if s not in accepted),
            missing=tuple(s for s in range(self.k) if s not in finite),
            applied=len(accepted) > 2 * self.b,
        )


class Slots:
    """What any server knows of its keys and of who has pushed which: wrong calls are told."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings.check()
        self.layout, self.closed = Layout(), False
        self._initial: List[np.ndarray] = []
        self._arrived: List[Set[str]] = [set() for _ in range(settings.k)]

    def add(self, key: str, value: mx.nd.NDArray, averaged: bool) -> None:
        if key in self.layout.places:
            raise ConfigError(f"key {key!r} is initialised already")
        if self.closed:
            raise ConfigError(f"key {key!r} comes too late: the server is in use already")
        self.layout.add(key, value.shape, averaged)
        self._initial.append(np.array(value.asnumpy(), np.float32).reshape(-1))

    def take_initial(self) -> np.ndarray:
        """The flat model as it was initialised; no key can be added any more."""
        self.closed = True
        empty = [np.empty(0, np.float32)]
        flat, self._initial = np.concatenate(empty + self._initial), []
        return flat

    def check_key(self, key: str) -> None:
        if key not in self.layout.places:
            known = ", ".join(sorted(self.layout.places)) or "none yet"
            raise ConfigError(f"key {key!r} was not initialised; known: {known}")

    def check_push(self, key: str, shape: Tuple[int, ...], slot: int) -> None:
        self.check_key(key)
        k, expected = self.settings.k, self.layout.places[key].shape
        if not isinstance(slot, (int, np.integer)) or not 0 <= slot < k:
            raise ConfigError(f"slot={slot} is out of range: needs 0 <= slot <= {k - 1}")
        if shape != expected:
            raise ConfigError(f"push to {key!r} has shape {shape}, not {expected}")
        if key in self._arrived[slot]:
            raise ConfigError(f"slot {slot} has pushed {key!r} already in this epoch")

    def note(self, key: str, slot: int) -> bool:
        """A push has come; whether that makes its slot complete."""
        self._arrived[slot].add(key)
        return len(self._arrived[slot]) == len(self.layout.places)

    def complete(self) -> List[int]:
        """Slots with a push to every key."""
        everything = len(self.layout.places)
        return [s for s, keys in enumerate(self._arrived) if len(keys) == everything]

    def clear(self) -> None:
        for arrived in self._arrived:
            arrived.clear()


class Server(abc.ABC):
    """What the trainer asks of a server, in this process or beyond it."""

    @abc.abstractmethod
    def init(self, key: str, value: mx.nd.NDArray, averaged: bool = True) -> None:
        """Set the initial value of a parameter; ``averaged=False`` keeps alpha off it."""

    @abc.abstractmethod
    def start(self, epoch: int) -> None:
        """Every parameter is there; the model is that after ``epoch``."""

    @abc.abstractmethod
    def begin(self, t: int) -> Optional[Iterable[int]]:
        """Epoch t begins; the slots of S_t whose workers run in this process, None for all."""

    @abc.abstractmethod
    def pull(self, key: str, out: mx.nd.NDArray) -> None:
        """Copy the global value of a parameter into ``out`` (lines 6-7)."""

    @abc.abstractmethod
    def push(self, key: str, value: mx.nd.NDArray, slot: int) -> None:
        """Hand in a worker's value of a parameter (line 12); once a slot, key and epoch."""

    @abc.abstractmethod
    def update(self, alpha: float) -> Update:
        """Aggregate what was pushed and apply the moving average (lines 14-15)."""

    def evaluate(self, task: Task) -> Dict[str, float]:
        """The metrics of the model in ``task``, by whoever may help."""
        return task.evaluate()

    @abc.abstractmethod
    def values(self) -> Dict[str, np.ndarray]:
        """The global model x_t, a copy."""

    @abc.abstractmethod
    def is_finite(self) -> bool:
        """Whether the global model has neither NaN nor infinity."""


def look_into(flat: np.ndarray, layout: Layout) -> Dict[str, mx.nd.NDArray]:
    """The parameters of a flat model as NDArrays, the same memory."""
    return {key: as_ndarray(layout.view(flat, key)) for key in layout.places}


def check_alpha(alpha: float) -> None:
    if not 0 < alpha <= 1:
        raise ConfigError(f"alpha={alpha} is out of range: needs 0 < alpha <= 1")


class ModelServer(Server):
    """Keeps the global model, takes one push a slot and aggregates them.

    A slot is a worker's position in S_t.  Slots make the result independent, to the bit, of
    the order in which pushes arrive.

    Parameters
    ----------
    k : int
        Slots: workers selected in an epoch.
    b : int
        Values trimmed at each end, ``0 <= b <= ceil(k/2) - 1``.
    rule : str
        A name in ``slsgd_mx.rules.RULES``.
    nonfinite : {"reject", "keep"}
        Whether a push with a NaN or an infinity is refused whole or aggregated like any other.

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
        self,
        k: int,
        b: int = 0,
        rule: str = "trimmed-mean",
        nonfinite: str = "reject",
    ) -> None:
        self.settings = Settings(k, b, rule, nonfinite)
        self._slots = Slots(self.settings)
        self._watch = Stopwatch()

    def init(self, key: str, value: mx.nd.NDArray, averaged: bool = True) -> None:
        """Set the initial value of a parameter; ``averaged=False`` keeps alpha off it.

        All of them come before the first push or pull.
        """
        self._slots.add(key, value, averaged)

    def start(self, epoch: int) -> None:
        """Every parameter is there; which epoch the model is of makes no difference here."""
        self._slots.closed = True

    def begin(self, t: int) -> None:
        """Epoch t begins, and all workers of S_t run here."""
        self._watch.reset()

    def pull(self, key: str, out: mx.nd.NDArray) -> None:
        """Copy the global value of a parameter into ``out`` (lines 6-7)."""
        self._watch.switch("transfer")
        self._slots.check_key(key)
        self._values[key].copyto(out)
        self._watch.switch("training")

    def push(self, key: str, value: mx.nd.NDArray, slot: int) -> None:
        """Hand in a worker's value of a parameter (line 12); once a slot, key and epoch."""
        self._watch.switch("transfer")
        self._slots.check_push(key, value.shape, slot)
        value.copyto(self._pushed[slot][key])
        self._slots.note(key, slot)
        self._watch.switch("training")

    def update(self, alpha: float) -> Update:
        """Aggregate what was pushed and apply the moving average (lines 14-15)."""
        check_alpha(alpha)
        self._watch.switch("aggregation")
        mx.nd.waitall()  # pushes are copied by MXNet's engine, behind our back
        finite = {slot: self._shard.is_finite(slot) for slot in self._slots.complete()}
        update = self.settings.judge(finite)
        if update.applied:
            self._shard.update(update.accepted, self.settings.rule, self.settings.b, alpha)
        self._slots.clear()
        self._watch.switch("")
        return dataclasses.replace(update, costs=Costs(**self._watch.take()))

    def values(self) -> Dict[str, np.ndarray]:
        """The global model x_t, a copy."""
        layout, flat = self._slots.layout, self._shard.value
        return {key: layout.view(flat, key).copy() for key in layout.places}

    def is_finite(self) -> bool:
        """Whether the global model has neither NaN nor infinity."""
        return all_finite(self._shard.value)

    @functools.cached_property
    def _shard(self) -> Shard:
        """The whole model; once it is there, no key can be added."""
        return Shard(self._slots.take_initial(), self.settings.k, self._slots.layout.plain)

    @functools.cached_property
    def _values(self) -> Dict[str, mx.nd.NDArray]:
        """NDArrays that look into the model's memory."""
        return look_into(self._shard.value, self._slots.layout)

    @functools.cached_property
    def _pushed(self) -> List[Dict[str, mx.nd.NDArray]]:
        """NDArrays that look into the memory of the slots."""
        return [look_into(row, self._slots.layout) for row in self._shard.slots]
