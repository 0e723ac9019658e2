"""Attacks: what a poisoned worker does (Definition 1, the threat model).

To add an attack, write a function and register it in ``ATTACKS`` below (or call
``register_attack`` from your own code before ``train``).  A poisoned worker may

* train on poisoned labels (``labels.py``): ``labels(y, context) -> y`` maps one device's labels,
  an int array of any shape;
* push something other than the model it trained (``pushes.py``): ``model(x, context) -> x`` maps
  one parameter, a float32 array;
* never push at all: ``silent=True``.

The functions are pure; their randomness comes from ``context.rng``.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Callable, Dict, Optional

import numpy as np

from slsgd_mx.attacks.context import AttackContext
from slsgd_mx.attacks.labels import flip_labels, permute_labels, shift_labels
from slsgd_mx.attacks.pushes import add_noise, fill_with, negate_model
from slsgd_mx.validation import require_name, require_new_name


@dataclass(frozen=True)
class Attack:
    """One attack; ``start`` and ``scale`` apply unless the configuration sets others."""

    summary: str
    labels: Optional[Callable[[np.ndarray, AttackContext], np.ndarray]] = None
    model: Optional[Callable[[np.ndarray, AttackContext], np.ndarray]] = None
    silent: bool = False
    start: str = "pulled"  # train from the pulled model, or from a "fresh" random one
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
    "silent": Attack("never push", silent=True),
}


def register_attack(name: str, attack: Attack) -> None:
    """Add an attack under a new name, for use in ``RunConfig(attack=name)``."""
    require_new_name("attack", name, ATTACKS)
    ATTACKS[name] = attack


def register(name: str, attack: Attack) -> None:
    """Deprecated name of `register_attack`."""
    message = "slsgd_mx.attacks.register is deprecated: use slsgd_mx.attacks.register_attack"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    register_attack(name, attack)


def find_attack(name: str) -> Attack:
    """Return the attack of that name, or raise a ConfigError that lists all names."""
    require_name("attack", name, ATTACKS)
    return ATTACKS[name]
