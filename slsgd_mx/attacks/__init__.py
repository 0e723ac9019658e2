"""Attacks: what a poisoned worker does (the paper's Definition 1, the threat model).

To add an attack, write a function and register it in ``ATTACKS`` at the end of this file (or
call ``register`` from your own code before ``train``).  A poisoned worker may

* train on poisoned labels: ``labels(y, context) -> y``, for one device's labels (numpy, int);
* push something else than what it trained: ``model(x, context) -> x``, for one parameter
  (numpy, float32);
* not answer at all: ``silent=True``.

The functions are pure; randomness comes from ``context.rng``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, Optional

import numpy as np

from slsgd_mx.attacks.context import AttackContext
from slsgd_mx.attacks.labels import flip_labels, permute_labels, shift_labels
from slsgd_mx.attacks.pushes import add_noise, fill_with, negate_model
from slsgd_mx.errors import ConfigError


@dataclass(frozen=True)
class Attack:
    """One way to misbehave; ``start`` and ``scale`` are what is used unless told otherwise."""

    summary: str
    labels: Optional[Callable[[np.ndarray, AttackContext], np.ndarray]] = None
    model: Optional[Callable[[np.ndarray, AttackContext], np.ndarray]] = None
    silent: bool = False
    start: str = "pulled"
    scale: float = 1.0


ATTACKS: Dict[str, Attack] = {
    "label-flip": Attack("train on labels 9 - y (the paper's)", labels=flip_labels, start="fresh"),
    "label-permute": Attack(
        "train on permuted labels (the paper's, for text)", labels=permute_labels, start="fresh"
    ),
    "label-shift": Attack(
        "train on labels max(y - scale, 0) (the released code's, for text)",
        labels=shift_labels,
        start="fresh",
        scale=1000.0,
    ),
    "negation": Attack("push -((k-q)/q) x + c, c the scale (Proposition 1)", model=negate_model),
    "gaussian": Attack("push x + noise of standard deviation scale", model=add_noise),
    "nan": Attack("push NaN", model=fill_with(np.nan)),
    "inf": Attack("push +infinity", model=fill_with(np.inf)),
    "silent": Attack("never answer", silent=True),
}


def register(name: str, attack: Attack) -> None:
    """Add an attack of your own under a new name."""
    if name in ATTACKS:
        raise ConfigError(f"attack {name!r} exists already; choose another name")
    ATTACKS[name] = attack


def find_attack(name: str) -> Attack:
    """The attack of that name, or a ConfigError that lists the names there are."""
    if name not in ATTACKS:
        raise ConfigError(f"attack={name!r} is unknown: choose one of {', '.join(ATTACKS)}")
    return ATTACKS[name]
