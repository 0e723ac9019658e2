"""What an aggregation rule is, and how to register one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Mapping, Optional, Sequence

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.registry import Parameter, Value

Rows = Sequence[np.ndarray]  # one float32 array (d,) per push, all on the same coordinates
Legal = Callable[[int, int, Mapping[str, Value]], Optional[str]]


@dataclass(frozen=True)
class RuleContext:
    """What a rule knows besides the pushes."""

    k: int  # number of pushes it is given
    b: int  # number of bad pushes that the server is prepared for
    parameters: Mapping[str, Value] = field(default_factory=dict)
    previous: Optional[np.ndarray] = None  # x_{t-1}, on the coordinates of the pushes
    rng: Optional[np.random.Generator] = None  # a stream for this epoch


def always_legal(k: int, b: int, parameters: Mapping[str, Value]) -> Optional[str]:
    """For rules that work for any k and b: nothing is illegal."""
    return None


def needs_majority(k: int, b: int, parameters: Mapping[str, Value]) -> Optional[str]:
    """For rules that need 2b < k: the legal b, if this one is not.

    >>> needs_majority(10, 5, {})
    '0 <= b <= 4'
    """
    return None if 2 * b < k else f"0 <= b <= {(k - 1) // 2}"


@dataclass(frozen=True)
class Rule:
    """An aggregation rule: per coordinate, by mixing, or on whole models.

    ``aggregate(rows, context, out)`` writes the aggregate of the rows into ``out``.  It is called
    with a part of the coordinates, unless the rule is ``whole``.

    ``mix(gram, context)`` returns weights (k,), or a matrix (m, k): the aggregate is then the
    weighted sum of the pushes or, if there is also an ``aggregate``, that of the m mixed rows.
    ``gram`` (k, k) holds the inner products of the updates x_i - x_{t-1}; NaN marks a push that is
    not finite, which must get weight 0.  Weights that do not add up to 1 leave the rest to x_{t-1}.

    ``legal(k, b, parameters)`` returns None, or in words what the rule needs.  ``kept(rows,
    context)`` returns for each row on how many coordinates its value was used, ties shared.
    """

    summary: str
    aggregate: Optional[Callable[[Rows, RuleContext, np.ndarray], None]] = None
    mix: Optional[Callable[[np.ndarray, RuleContext], np.ndarray]] = None
    whole: bool = False  # needs whole models, so only one server can run it
    random: bool = False  # draws from context.rng in ``aggregate``
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    legal: Legal = always_legal
    uses_b: bool = True  # False: the configuration stores b=0
    kept: Optional[Callable[[Rows, RuleContext], np.ndarray]] = None  # of ``aggregate``
    uses_previous: bool = False  # depends on x_{t-1}, and not on the pushes alone


@dataclass(frozen=True)
class PreAggregation:
    """A step before a rule that mixes k pushes into ``rows(k, parameters)`` others."""

    summary: str
    mix: Callable[[np.ndarray, RuleContext], np.ndarray]
    rows: Callable[[int, Mapping[str, Value]], int] = lambda k, parameters: k
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    legal: Legal = always_legal
    uses_b: bool = True
    uses_previous: bool = False


KINDS = ("coordinate-wise", "mixing", "whole-model")


def read_only(array: np.ndarray) -> np.ndarray:
    """The array for a user's function, which may not change a server's memory."""
    view = array.view()
    view.flags.writeable = False
    return view


def _reading(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of rows and a context, which can read its arrays but not change them."""

    def call(rows: Rows, context: RuleContext) -> Any:
        if context.previous is not None:
            context = replace(context, previous=read_only(context.previous))
        return function(list(map(read_only, rows)), context)

    return call


def rule_from(name: str, function: Callable[..., Any], kind: str, **attributes: Any) -> Rule:
    """The rule of a user's function: ``f(pushes, context)``, or ``f(gram, context)`` for mixing."""
    if kind not in KINDS:
        raise ConfigError(f"kind={kind!r} is unknown: choose one of {', '.join(KINDS)}")
    attributes.setdefault("summary", ((function.__doc__ or "").strip().splitlines() or [""])[0])
    if kind == "mixing":
        return Rule(mix=function, **attributes)
    if attributes.get("kept") is not None:
        attributes["kept"] = _reading(attributes["kept"])
    reading = _reading(function)

    def aggregate(rows: Rows, context: RuleContext, out: np.ndarray) -> None:
        result = np.asarray(reading(rows, context))
        if result.shape != out.shape:
            raise ConfigError(
                f"rule {name} returned an array of shape {result.shape}, not {out.shape}"
            )
        out[...] = result

    return Rule(aggregate=aggregate, whole=kind == "whole-model", **attributes)
