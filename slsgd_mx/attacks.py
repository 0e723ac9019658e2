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

from .errors import ConfigError


@dataclass(frozen=True)
class AttackContext:
    """What an attacker knows: the sizes, the number of classes, its scale, its random stream."""

    k: int
    q: int
    classes: int
    scale: float
    rng: np.random.Generator


@dataclass(frozen=True)
class Attack:
    """One way to misbehave; ``start`` and ``scale`` are what is used unless told otherwise."""

    summary: str
    labels: Optional[Callable[[np.ndarray, AttackContext], np.ndarray]] = None
    model: Optional[Callable[[np.ndarray, AttackContext], np.ndarray]] = None
    silent: bool = False
    start: str = "pulled"
    scale: float = 1.0


def flip_labels(y: np.ndarray, context: AttackContext) -> np.ndarray:
    """The paper's label flip: y becomes 9 - y (for ten classes).

    >>> flip_labels(np.array([0, 3, 9]), AttackContext(10, 2, 10, 1.0, np.random.default_rng(0)))
    array([9, 6, 0])
    """
    return context.classes - 1 - y


def permute_labels(y: np.ndarray, context: AttackContext) -> np.ndarray:
    """The paper's attack on language models: the device's labels in random order."""
    return context.rng.permutation(y)


def shift_labels(y: np.ndarray, context: AttackContext) -> np.ndarray:
    """The released code's attack on language models: y becomes max(y - 1000, 0).

    >>> shift_labels(np.array([5, 1005]), AttackContext(10, 2, 9999, 1000.0, None))
    array([0, 5])
    """
    return np.maximum(y - int(context.scale), 0)


def negate_model(x: np.ndarray, context: AttackContext) -> np.ndarray:
    """Proposition 1: push -((k-q)/q) x + c, which drags the plain mean to (q/k) c."""
    factor = np.float32(-(context.k - context.q) / context.q)
    return factor * x + np.float32(context.scale)


def add_noise(x: np.ndarray, context: AttackContext) -> np.ndarray:
    """Push x plus Gaussian noise of standard deviation ``scale``."""
    return x + np.float32(context.scale) * context.rng.standard_normal(x.shape, np.float32)


def fill_with(value: float) -> Callable[[np.ndarray, AttackContext], np.ndarray]:
    """Push one value everywhere, whatever was trained."""
    return lambda x, context: np.full_like(x, value)


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
