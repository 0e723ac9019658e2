"""Attacks: what a poisoned worker does (Definition 1, the threat model).

An attack is chosen by ``NAME:key=value,...``.  A poisoned worker may

* train on poisoned labels (``labels.py``): ``labels(y, context) -> y`` maps one device's labels,
  an int array of any shape;
* train on poisoned samples (``samples.py``): ``samples(x, y, context) -> x, y`` maps one device's
  inputs and labels, on tasks that allow it;
* push something other than the model it trained (``pushes.py``): ``model(x, context) -> x`` maps
  one parameter, a float32 array;
* never push at all: ``silent=True``;
* collude: what it pushes is computed from the honest pushes of the epoch (``collusion.py``).

To add an attack to this package, write its function and list it in ``ATTACKS``.  To add one from
outside, decorate a function::

    from slsgd_mx import register_attack

    @register_attack("opposite", uses_previous=True)
    def opposite(seen):
        "Push the honest mean, reflected at x_{t-1}."
        return 2 * seen.previous - seen.mu

The functions are pure; their randomness comes from the ``rng`` of their context.
"""

from __future__ import annotations

import warnings
from typing import Any, Callable, Optional

import numpy as np

from slsgd_mx.attacks.attack import Attack
from slsgd_mx.attacks.colluding import (
    alie,
    ipm,
    mimic,
    min_max,
    min_sum,
    needs_positive_z,
    optimal_alie,
    optimal_ipm,
    push_backdoor,
    replace_model,
    sign_flip,
)
from slsgd_mx.attacks.collusion import Collusion, Facts, Products
from slsgd_mx.attacks.context import AttackContext
from slsgd_mx.attacks.labels import flip_labels, permute_labels, shift_labels
from slsgd_mx.attacks.pushes import add_noise, fill_with, negate_model
from slsgd_mx.attacks.samples import add_patch, needs_images, plant_backdoor
from slsgd_mx.attacks.worst_case import worst_case
from slsgd_mx.errors import ConfigError
from slsgd_mx.registry import Choice, Parameter, Registry, number, one_of, whole

__all__ = [
    "ATTACKS",
    "Attack",
    "AttackContext",
    "Collusion",
    "Facts",
    "Products",
    "find_attack",
    "register_attack",
]

# Parameters that are also fields of a configuration, which holds them there.
SCALE = {"scale": number()}  # attack_scale
TRAINED = {  # attacker_start, boost
    "start": Parameter(None, str, "fresh or pulled", ("fresh", "pulled").__contains__),
    "boost": number(above=0),
}
EVALUATIONS = {"evaluations": whole(20, least=2, most=1000)}

ATTACKS: Registry[Attack] = Registry(
    "attack",
    {
        "label-flip": Attack(
            "train on labels classes - 1 - y (the paper's 9 - y)",
            labels=flip_labels,
            start="fresh",
            parameters=TRAINED,
        ),
        "label-permute": Attack(
            "train on permuted labels (the paper's, for text)",
            labels=permute_labels,
            start="fresh",
            parameters=TRAINED,
        ),
        "label-shift": Attack(
            "train on labels max(y - scale, 0) (the released code's, for text)",
            labels=shift_labels,
            start="fresh",
            scale=1000.0,
            parameters={**TRAINED, **SCALE},
        ),
        "negation": Attack(
            "push -((k-q)/q) x + c, c the scale (Proposition 1)",
            model=negate_model,
            parameters=SCALE,
        ),
        "gaussian": Attack(
            "push x + noise of standard deviation scale", model=add_noise, parameters=SCALE
        ),
        "nan": Attack("push NaN", model=fill_with(np.nan)),
        "inf": Attack("push +infinity", model=fill_with(np.inf)),
        "silent": Attack("never push", silent=True),
        "alie": Attack(
            "a little is enough: push mu + z sigma of the honest pushes",
            collude=alie,
            honest=2,
            parameters={"z": number(1.5, words=("auto",))},
            legal=needs_positive_z,
        ),
        "ipm": Attack(
            "inner product manipulation: push x_{t-1} - epsilon u, u the mean honest update",
            collude=ipm,
            parameters={"epsilon": number(0.5, above=0)},
            uses_previous=True,
        ),
        "sign-flip": Attack(
            "push x_{t-1} - u_i, with its own trained u_i",
            collude=sign_flip,
            needs=("own",),
            honest=0,
            uses_previous=True,
        ),
        "mimic": Attack(
            "push a copy of an honest push, the first or the farthest from their mean",
            combine=mimic,
            parameters={"of": one_of("first", "farthest")},
        ),
        "min-max": Attack(
            "push mu - g sigma, no farther from an honest push than these from each other",
            combine=min_max,
            honest=2,
        ),
        "min-sum": Attack(
            "push mu - g sigma, as min-max with sums of squared distances",
            combine=min_sum,
            honest=2,
        ),
        "alie-optimal": Attack(
            "push mu + z sigma with the z that does the most harm to the rule in use",
            collude=optimal_alie,
            whole=True,
            honest=2,
            parameters=EVALUATIONS,
        ),
        "ipm-optimal": Attack(
            "push x_{t-1} - epsilon u with the epsilon that does the most harm to the rule in use",
            collude=optimal_ipm,
            whole=True,
            parameters=EVALUATIONS,
            uses_previous=True,
        ),
        "model-replacement": Attack(
            "train on labels classes - 1 - y, push x_{t-1} + factor (x_i - x_{t-1})",
            labels=flip_labels,
            collude=replace_model,
            needs=("own",),
            honest=0,
            parameters={"factor": number(above=0)},
            uses_previous=True,
        ),
        "backdoor": Attack(
            "train on images of which a share has a bright corner and the label target",
            samples=plant_backdoor,
            trigger=add_patch,
            collude=push_backdoor,
            needs=("own",),
            honest=0,
            parameters={
                "target": whole(0, least=0),
                "share": number(0.5, above=0, most=1),
                "factor": number(above=0),
                **TRAINED,
            },
            uses_previous=True,
            fits=needs_images,
        ),
        "worst-case": Attack(
            "push what moves a coordinate-wise rule farthest from the task's known solution",
            collude=worst_case,
            needs=("target",),
            honest=0,
            by_coordinate=True,
        ),
    },
)


KINDS = ("colluding", "block-sum", "whole-model", "labels", "samples", "model")


def register_attack(
    name: str, attack: Optional[Attack] = None, kind: str = "colluding", **attributes: Any
) -> Callable:
    """Add an attack under a new name: a decorator of its function, or a call with an ``Attack``.

    Parameters
    ----------
    name : str
        What ``--attack`` takes; it must be new.
    attack : Attack, optional
        Instead of a function to decorate.
    kind : str
        What the function is: "colluding", ``f(seen)`` on a part of the coordinates, which returns
        the poisoned pushes from the honest ones; "whole-model", the same on all coordinates (one
        server only); "block-sum", ``f(products, facts)``, which returns coefficients found from
        inner products; "labels", ``f(y, context)``; "samples", ``f(x, y, context)``; "model",
        ``f(x, context)`` on each parameter that a poisoned worker pushes.
    **attributes
        Of ``slsgd_mx.attacks.Attack``: ``parameters``, ``needs``, ``honest``, ``by_coordinate``,
        ``uses_previous``, ``start``, ``scale``, ``legal``, ``fits``, ``trigger``, ``summary``.

    Raises
    ------
    ConfigError
        If the name is taken or is not a name, or the kind is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from slsgd_mx import poison, register_attack
    >>> @register_attack("example-reflect", uses_previous=True)
    ... def reflect(seen):
    ...     "Push the honest mean, reflected at x_{t-1}."
    ...     return 2 * seen.previous - seen.mu
    >>> poison(np.array([[1.0], [3.0]]), attack="example-reflect", q=1, previous=np.zeros(1))
    array([[-2.]], dtype=float32)
    >>> ATTACKS.remove("example-reflect")  # so that the example leaves nothing behind
    """

    def register(function: Callable) -> Callable:
        ATTACKS.register(name, _attack_from(function, kind, **attributes), function)
        return function

    if attack is not None:
        ATTACKS.register(name, attack, attack.function)
    return register


def _attack_from(function: Callable, kind: str, **attributes: Any) -> Attack:
    if kind not in KINDS:
        raise ConfigError(f"kind={kind!r} is unknown: choose one of {', '.join(KINDS)}")
    attributes.setdefault("summary", ((function.__doc__ or "").strip().splitlines() or [""])[0])
    names = {"colluding": "collude", "whole-model": "collude", "block-sum": "combine"}
    attributes[names.get(kind, kind)] = function
    return Attack(whole=kind == "whole-model", **attributes)


def register(name: str, attack: Attack) -> None:
    """Deprecated name of `register_attack`."""
    message = "slsgd_mx.attacks.register is deprecated: use slsgd_mx.attacks.register_attack"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    register_attack(name, attack)


def find_attack(text: str) -> Choice[Attack]:
    """The attack that a text names, with its parameters; a ConfigError if there is none."""
    return ATTACKS.choose(text)
