"""Checks of values that a user gives; each message names the value and the legal values."""

from __future__ import annotations

import difflib
import operator
from typing import Iterable

from slsgd_mx.errors import ConfigError

LARGEST = 3.4e38  # bound on what a float32 can hold
MOST = 10**9  # of anything that is counted
MOST_CLASSES = 100_000  # a network has a score for each class


def require(condition: bool, name: str, value: object, legal: str) -> None:
    """Raise a ConfigError that gives the value and the legal range unless the condition holds.

    >>> require(False, "b", 5, "0 <= b <= 4")
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.ConfigError: b=5 is out of range: needs 0 <= b <= 4
    """
    if not condition:
        raise ConfigError(f"{name}={value} is out of range: needs {legal}")


def require_name(name: str, value: object, legal: Iterable[str], more: str = "") -> None:
    """Raise a ConfigError that lists the legal names, such as a registry's, if `value` is none.

    The message proposes the legal name that is most similar, if there is one; `more` ends it.

    >>> require_name("rule", "best", {"mean": ..., "median": ...})
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.ConfigError: rule='best' is unknown: choose one of mean, median
    >>> require_name("rule", "meen", {"mean": ..., "median": ...})
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.ConfigError: rule='meen' is unknown, did you mean 'mean'? \
Choose one of mean, median
    """
    legal = list(legal)
    if value not in legal:
        choose = propose(value, legal, f"choose one of {', '.join(legal)}{more}")
        raise ConfigError(f"{name}={value!r} is unknown{choose}")


def propose(value: object, legal: Iterable[str], remedy: str) -> str:
    """The end of a message: the most similar legal name, if there is one, and what to do.

    >>> propose("wieght", ["weight"], "its parameters are weight=1")
    ", did you mean 'weight'? Its parameters are weight=1"
    >>> propose("b", ["weight"], "its parameters are weight=1")
    ': its parameters are weight=1'
    """
    similar = difflib.get_close_matches(str(value), list(legal), n=1, cutoff=0.7)
    if not similar:
        return f": {remedy}"
    return f", did you mean {similar[0]!r}? {remedy[0].upper()}{remedy[1:]}"


def require_new_name(name: str, value: str, taken: Iterable[str]) -> None:
    """Raise a ConfigError if a registry already has an entry of that name."""
    if value in taken:
        raise ConfigError(f"{name} {value!r} exists already: choose another name")


def require_whole(config: object, most: float = MOST, **lowest: int) -> None:
    """Raise a ConfigError unless each named attribute is an int from its lower bound to `most`."""
    for name, least in lowest.items():
        value = getattr(config, name)
        legal = f"{least} <= {name} <= {most}" if most < MOST else f"{name} >= {least}"
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{name}={value!r} must be a whole number, {legal}")
        require(value >= least, name, value, legal)
        require(value <= most, name, value, f"{least} <= {name} <= {most}")


def plain(value: object) -> object:
    """A NumPy scalar as the Python value with the same decimal digits; other values unchanged.

    A float32 0.1 becomes 0.1 and not 0.10000000149011612, so that a configuration does not depend
    on the type its numbers came in.  Arrays and lists become tuples.

    >>> import numpy as np
    >>> plain(np.int64(2)), plain(np.float32(0.1)), plain(np.array([5, 15])), plain("mean")
    (2, 0.1, (5, 15), 'mean')
    """
    if type(value) in (tuple, list):
        return tuple(plain(item) for item in value)
    if not (hasattr(value, "dtype") and hasattr(value, "tolist")):
        return value
    if getattr(value, "ndim", 0):
        return tuple(plain(item) for item in value)
    return float(str(value)) if value.dtype.kind == "f" else value.tolist()


def check_between(name: str, value: object, least: int, most: int) -> int:
    """Return `value` as an int if it is a whole number with ``least <= value <= most``."""
    whole = hasattr(value, "__index__") and not isinstance(value, bool)
    require(whole and least <= value <= most, name, value, f"{least} <= {name} <= {most}")
    return operator.index(value)
