"""Checks of numbers that a user gives, with the legal range in the message."""

from __future__ import annotations

import operator

from slsgd_mx.errors import ConfigError


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
