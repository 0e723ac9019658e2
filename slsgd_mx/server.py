"""The server of Algorithm 1, with the verbs of MXNet's KVStore: init, pull, push, update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Set, Tuple

import numpy as np

from ._mxnet import mx
from .aggregation import RULES, check_trim
from .arrays import as_ndarray
from .errors import ConfigError


@dataclass(frozen=True)
class Update:
    """What ``ModelServer.update`` did: slots by what became of their push."""

    accepted: Tuple[int, ...]
    refused: Tuple[int, ...]  # came, but were not finite
    missing: Tuple[int, ...]  # never came, or not with every parameter
    applied: bool  # False: too few pushes were left, x_t = x_{t-1}


def moving_average(x: np.ndarray, aggregate: np.ndarray, alpha: float) -> None:
    """Line 15, in place: ``x_t = (1 - alpha) x_{t-1} + alpha x'_t``."""
    if alpha == 1.0:  # exactly x'_t, even where x_{t-1} is not finite
        x[...] = aggregate
        return
    np.multiply(x, np.float32(1.0 - alpha), out=x)
    np.multiply(aggregate, np.float32(alpha), out=aggregate)
    np.add(x, aggregate, out=x)


class _Parameter:
    """One key: its global value and k slots, NumPy memory that NDArrays look into."""

    def __init__(self, value: mx.nd.NDArray, k: int, averaged: bool) -> None:
        self.shape, self.averaged = value.shape, averaged
        self.value = np.array(value.asnumpy(), np.float32, order="C")
        self.slots = np.zeros((k, self.value.size), np.float32)  # (k, d)
        self.value_nd = as_ndarray(self.value)
        self.slots_nd = [as_ndarray(row.reshape(self.shape)) for row in self.slots]


class ModelServer:
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
        A name in ``slsgd_mx.aggregation.RULES``.
    nonfinite : {"reject", "keep"}
        Whether a push with a NaN or an infinity is refused whole or aggregated like any other.

    Examples
    --------
    >>> from slsgd_mx import ModelServer
    >>> from slsgd_mx._mxnet import mx
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
        check_trim(k, b)
        if rule not in RULES:
            raise ConfigError(f"rule={rule!r} is unknown: choose one of {', '.join(RULES)}")
        if nonfinite not in ("reject", "keep"):
            raise ConfigError(f"nonfinite={nonfinite!r} is unknown: choose reject or keep")
        self.k, self.b, self.rule, self.nonfinite = k, b, rule, nonfinite
        self._parameters: Dict[str, _Parameter] = {}
        self._arrived: List[Set[str]] = [set() for _ in range(k)]

    def init(self, key: str, value: mx.nd.NDArray, averaged: bool = True) -> None:
        """Set the initial value of a parameter; ``averaged=False`` keeps alpha off it."""
        if key in self._parameters:
            raise ConfigError(f"key {key!r} is initialised already")
        self._parameters[key] = _Parameter(value, self.k, averaged)

    def pull(self, key: str, out: mx.nd.NDArray) -> None:
        """Copy the global value of a parameter into ``out`` (lines 6-7)."""
        self._find(key).value_nd.copyto(out)

    def push(self, key: str, value: mx.nd.NDArray, slot: int) -> None:
        """Hand in a worker's value of a parameter (line 12); once a slot, key and epoch."""
        parameter = self._find(key)
        if not isinstance(slot, (int, np.integer)) or not 0 <= slot < self.k:
            raise ConfigError(f"slot={slot} is out of range: needs 0 <= slot <= {self.k - 1}")
        if value.shape != parameter.shape:
            raise ConfigError(f"push to {key!r} has shape {value.shape}, not {parameter.shape}")
        if key in self._arrived[slot]:
            raise ConfigError(f"slot {slot} has pushed {key!r} already in this epoch")
        value.copyto(parameter.slots_nd[slot])
        self._arrived[slot].add(key)

    def update(self, alpha: float) -> Update:
        """Aggregate what was pushed and apply the moving average (lines 14-15)."""
        if not 0 < alpha <= 1:
            raise ConfigError(f"alpha={alpha} is out of range: needs 0 < alpha <= 1")
        mx.nd.waitall()  # pushes are copied by MXNet's engine, behind our back
        complete = [s for s in range(self.k) if len(self._arrived[s]) == len(self._parameters)]
        accepted = [s for s in complete if self.nonfinite == "keep" or self._is_finite(s)]
        applied = len(accepted) > 2 * self.b
        if applied:
            for parameter in self._parameters.values():
                self._update_parameter(parameter, accepted, alpha)
        for arrived in self._arrived:
            arrived.clear()
        return Update(
            accepted=tuple(accepted),
            refused=tuple(s for s in complete if s not in accepted),
            missing=tuple(s for s in range(self.k) if s not in complete),
            applied=applied,
        )

    def values(self) -> Dict[str, np.ndarray]:
        """The global model x_t, a copy."""
        return {key: parameter.value.copy() for key, parameter in self._parameters.items()}

    def is_finite(self) -> bool:
        """Whether the global model has neither NaN nor infinity."""
        return all(_all_finite(p.value) for p in self._parameters.values())

    def _find(self, key: str) -> _Parameter:
        if key not in self._parameters:
            known = ", ".join(sorted(self._parameters)) or "none yet"
            raise ConfigError(f"key {key!r} was not initialised; known: {known}")
        return self._parameters[key]

    def _is_finite(self, slot: int) -> bool:
        return all(_all_finite(p.slots[slot]) for p in self._parameters.values())

    def _update_parameter(self, parameter: _Parameter, accepted: List[int], alpha: float) -> None:
        rows = [parameter.slots[slot] for slot in accepted]
        aggregate = np.empty(parameter.value.size, np.float32)
        RULES[self.rule].aggregate(rows, self.b, aggregate)
        weight = alpha if parameter.averaged else 1.0
        moving_average(parameter.value.reshape(-1), aggregate, weight)


def _all_finite(array: np.ndarray) -> bool:
    """No NaN, no infinity: minimum and maximum let neither pass, and need no third array."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))
