"""Checks of values that a user gives; each message names the value and the legal range."""

from __future__ import annotations

import operator
from typing import Sequence

from slsgd_mx.errors import ConfigError

LARGEST = 3.4e38  # what a float32 holds


def require(condition: bool, name: str, value: object, legal: str) -> None:
    """Raise a ConfigError with the value and the legal range unless the condition holds."""
    if not condition:
        raise ConfigError(f"{name}={value} is out of range: needs {legal}")


def require_name(name: str, value: str, legal: Sequence[str]) -> None:
    if value not in legal:
        raise ConfigError(f"{name}={value!r} is unknown: choose one of {', '.join(legal)}")


def require_whole(config: object, **lowest: int) -> None:
    for name, least in lowest.items():
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{name}={value!r} must be a whole number, {name} >= {least}")
        require(value >= least, name, value, f"{name} >= {least}")


def check_between(name: str, value: object, least: int, most: int) -> int:
    """Return `value` as an int if ``least <= value <= most``.

    Raises
    ------
    ConfigError
        If it is no whole number or out of range; the message gives the range.
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if isinstance(value, bool) or not least <= count <= most:
        raise ConfigError(f"{name}={value} is out of range: it needs {least} <= {name} <= {most}")
    return count


def check_seed(seed: object) -> int:
    """Return `seed` as an int if it is a whole number >= 0."""
    return check_between("seed", seed, 0, 2**63)
