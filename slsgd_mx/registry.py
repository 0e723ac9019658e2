"""Registries of named entries, and choices among them: ``NAME:key=value,key=value``.

Rules, attacks and partitions are chosen this way, on the command line and in ``RunConfig``.  A
choice has a canonical text (defaults omitted, keys sorted): equal choices give equal
configurations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Generic, Mapping, Optional, Tuple, TypeVar, Union

from slsgd_mx.errors import ConfigError
from slsgd_mx.plugins import Source, remember_registration, source_of
from slsgd_mx.validation import propose, require_name, require_new_name

UNKNOWN = ", or load the plug-in that registers it"  # after a list of legal names

Value = Union[float, int, str, None]
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a rule, an attack or a partition: its default and its legal values.

    ``default`` None means that the value follows from k, b and q; ``legal`` says in words which
    values are legal, ``test`` decides it; ``words`` are legal besides numbers.
    """

    default: Value
    kind: type = float  # float, int or str
    legal: str = "a number"
    test: Callable[[Any], bool] = field(default=lambda value: True, compare=False)
    words: Tuple[str, ...] = ()

    def read(self, key: str, value: Union[str, Value]) -> Value:
        """The value as it is meant, from a text or a number; a ConfigError if it is illegal."""
        if value in self.words:
            return value
        try:
            number = self.kind(value)
            fine = self.kind is str or (math.isfinite(number) and float(value) == number)
        except (TypeError, ValueError, OverflowError):
            fine = False
        if not fine or isinstance(value, bool) or not self.test(number):
            legal = " or ".join([self.legal, *self.words])
            wrong = (
                "is out of range" if self.kind is str or _is_number(value) else "is not a number"
            )
            raise ConfigError(f"{key}={value} {wrong}: needs {legal}")
        return number


def _is_number(value: object) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def number(
    default: Optional[float] = None,
    above: float = -math.inf,
    least: float = -math.inf,
    most: float = math.inf,
    words: Tuple[str, ...] = (),
) -> Parameter:
    """A parameter that is a number, in a range.

    >>> number(10.0, above=0).read("tau", "2.5")
    2.5
    """
    bounds = [f"> {above:g}"] * (above > -math.inf) + [f">= {least:g}"] * (least > -math.inf)
    bounds += [f"<= {most:g}"] * (most < math.inf)
    legal = " ".join(["a number", " and ".join(bounds)]).strip()
    return Parameter(default, float, legal, lambda x: above < x and least <= x <= most, words)


def whole(default: Optional[int] = None, least: int = 1, most: int = 10**9) -> Parameter:
    """A parameter that is a whole number, in a range."""
    legal = f"a whole number from {least} to {most}"
    return Parameter(default, int, legal, lambda x: least <= x <= most)


def one_of(default: str, *others: str) -> Parameter:
    """A parameter that is one of a few words."""
    words = (default, *others)
    return Parameter(default, str, " or ".join(words), words.__contains__)


def check_parameters(owner: str, parameters: object) -> None:
    """Raise a ConfigError unless all parameters are declared, with names that a choice can hold.

    >>> check_parameters("rule 'mine'", {"a": 3})
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.ConfigError: rule 'mine', parameter 'a': 3 is not a declaration, use \
number(3), whole(3) or one_of("word", ...) from slsgd_mx.registry
    """
    if not isinstance(parameters, Mapping):
        raise ConfigError(f"{owner}: parameters={parameters!r} must map names to declarations")
    for key, parameter in parameters.items():
        where = f"{owner}, parameter {key!r}"
        if not isinstance(key, str) or not key or set(key) & set(":,=+ "):
            raise ConfigError(f"{where}: not a name, use letters, digits and _")
        if not isinstance(parameter, Parameter):
            shown = parameter if type(parameter) in (int, float) else "..."
            raise ConfigError(
                f"{where}: {parameter!r} is not a declaration, use number({shown}), "
                f'whole({shown}) or one_of("word", ...) from slsgd_mx.registry'
            )
        if parameter.default is not None:
            try:
                parameter.read("default", parameter.default)
            except ConfigError as error:
                raise ConfigError(f"{where}: {error}") from error


@dataclass(frozen=True)
class Choice(Generic[Entry]):
    """An entry of a registry with a value for each of its parameters."""

    name: str
    entry: Entry
    parameters: Mapping[str, Value]
    source: Optional[Source] = None  # of the plug-in that registered it

    @property
    def text(self) -> str:
        """The canonical form: parameters at their default are omitted, the others sorted."""
        known = self.entry.parameters
        given = {k: v for k, v in self.parameters.items() if v != known[k].default}
        listed = ",".join(f"{key}={show(given[key])}" for key in sorted(given))
        return f"{self.name}:{listed}" if listed else self.name


def replace_parameter(choice: Choice, key: str, value: Value) -> Choice:
    """The choice with another value of a parameter, if it has that parameter."""
    if key not in choice.parameters:
        return choice
    return replace(choice, parameters={**choice.parameters, key: value})


def show(value: Value) -> str:
    """A value in a choice's text; without a plus sign, which separates rules.

    >>> show(1e30), show(2.0), show(0.1)
    ('1e30', '2', '0.1')
    """
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return (short if float(short) == value else repr(value)).replace("e+", "e")


class Registry(Dict[str, Entry]):
    """Entries by name; ``kind`` is what messages call them.

    An entry has an attribute ``parameters``: a mapping from names to ``Parameter``.
    """

    def __init__(self, kind: str, entries: Mapping[str, Entry]) -> None:
        super().__init__(entries)
        self.kind = kind
        self.sources: Dict[str, Source] = {}

    def register(self, name: str, entry: Entry, function: Callable) -> None:
        """Add an entry under a new name; ``function`` tells where it comes from."""
        if not isinstance(name, str) or not name or set(name) & set(":,=+ /"):
            raise ConfigError(f"{self.kind} {name!r} is not a name: use letters, digits and -")
        require_new_name(self.kind, name, self)
        check_parameters(f"{self.kind} {name!r}", entry.parameters)
        source = source_of(function)
        self[name] = entry
        if source is not None:
            self.sources[name] = source
        remember_registration(lambda: self.remove(name))

    def remove(self, name: str) -> None:
        """Forget an entry and where it came from."""
        self.pop(name, None)
        self.sources.pop(name, None)

    def choose(self, text: str) -> Choice[Entry]:
        """The choice that a text names; a ConfigError if it names none.

        ``sources`` of the registry is consulted, so a choice knows its plug-in.
        """
        if not isinstance(text, str):
            raise ConfigError(f"{self.kind}={text!r} is not a text NAME:key=value,...")
        name, _, listed = text.partition(":")
        require_name(self.kind, name, self, UNKNOWN)
        known = self[name].parameters
        values: Dict[str, Value] = {key: parameter.default for key, parameter in known.items()}
        seen = set()
        for item in listed.split(",") if listed else ():
            key, equals, value = item.partition("=")
            if key in known and not equals:
                raise ConfigError(f"{name}:{key} has no value: write {name}:{key}=VALUE")
            if key not in known:
                legal = ", ".join(
                    k if p.default is None else f"{k}={show(p.default)}" for k, p in known.items()
                )
                legal = f"its parameters are {legal}" if legal else "it has no parameters"
                legal = propose(key, known, legal)
                raise ConfigError(f"{self.kind} {name!r} has no parameter {item!r}{legal}")
            if key in seen:
                raise ConfigError(f"{self.kind} {name!r} has two values of {key!r}")
            seen.add(key)
            values[key] = known[key].read(f"{name}:{key}", value)
        return Choice(name, self[name], values, self.sources.get(name))
