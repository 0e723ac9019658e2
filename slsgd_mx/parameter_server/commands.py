"""Commands of the coordinator to the servers, as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from typing import List, Optional, Sequence, Tuple, Union

import numpy as np

from slsgd_mx.attacks import find_attack
from slsgd_mx.core.collusion import Settings
from slsgd_mx.core.flat_model import Range
from slsgd_mx.core.server import check_alpha, check_settings
from slsgd_mx.errors import ConfigError
from slsgd_mx.parameter_server.protocol import (
    MOST,
    ProtocolError,
    check_divisible,
    shard_ranges,
)
from slsgd_mx.rules.pipeline import find_rule
from slsgd_mx.validation import require


@dataclass(frozen=True)
class Configure:
    """How to aggregate, and the size of the model; sent once, before any push."""

    settings: Settings
    workers: int
    servers: int
    size: int  # values of the whole model
    replaced: Sequence[Range]  # ranges in which the aggregate replaces the old value
    epoch: int  # of the initial model
    fingerprint: int
    deadline: Optional[float] = None  # seconds
    places: Sequence[Tuple[str, int, int]] = field(default_factory=list)  # of the parameters
    sources: Sequence[Tuple[str, str]] = field(default_factory=list)  # plug-ins in use
    owners: Sequence[int] = field(default_factory=list)  # the workers of the next epoch's slots

    def check(self) -> Configure:
        """The command with its values as they are read from JSON converted to their types."""
        settings = Settings(**self.settings)  # type: ignore[arg-type]
        _whole("k", settings.k, 1)
        _whole("seed", settings.seed, 0, math.inf)
        check_settings(settings)
        _whole("workers", self.workers, 1)
        _whole("servers", self.servers, 1)
        check_divisible(settings, self.servers)
        _whole("epoch", self.epoch)
        _whole("size", self.size, 1, 2**48)
        _whole("fingerprint", self.fingerprint, 0, 2**48)
        replaced = [
            (_whole("start", start, 0, 2**48), _whole("stop", stop, 0, 2**48))
            for start, stop in _list("replaced", self.replaced)
        ]
        if any(not start <= stop <= self.size for start, stop in replaced):
            raise ProtocolError(f"replaced={replaced} is not within a model of {self.size} values")
        shard_ranges(self.size, self.servers)
        for name, start, stop in _list("places", self.places):
            bounds = _whole("start", start, 0, self.size), _whole("stop", stop, 0, self.size)
            if not isinstance(name, str) or bounds[0] > bounds[1]:
                raise ProtocolError(f"place {repr(name)[:40]} {bounds} makes no sense")
        if sources_of(settings) != [tuple(source) for source in _list("sources", self.sources)]:
            raise ProtocolError(
                f"the coordinator uses the plug-ins {self.sources}, this server "
                f"{sources_of(settings)}: load the same files with --plugin"
            )
        if self.deadline is not None:
            legal = _number("deadline", self.deadline) > 0
            require(legal, "deadline", self.deadline, "deadline > 0")
        check_owners(self.owners, settings.k, self.workers)
        return replace(self, settings=settings, replaced=replaced)


@dataclass(frozen=True)
class Begin:
    """Start the clock of an epoch's deadline."""

    epoch: int

    def check(self) -> Begin:
        _whole("epoch", self.epoch)
        return self


@dataclass(frozen=True)
class Commit:
    """Aggregate the accepted slots, if there are enough, and end the epoch."""

    epoch: int
    alpha: float
    accepted: Sequence[int]
    refused: Sequence[int]
    applied: bool
    matrix: Optional[Sequence[Sequence[float]]] = None  # that mixes the accepted pushes
    owners: Sequence[int] = field(default_factory=list)  # the workers of the next epoch's slots

    def check(self) -> Commit:
        _whole("epoch", self.epoch, 1)
        check_alpha(_number("alpha", self.alpha))
        if not isinstance(self.applied, bool):
            raise ProtocolError(f"applied={self.applied!r} is neither true nor false")
        _slots(accepted=self.accepted, refused=self.refused)
        check_owners(self.owners)
        return replace(self, matrix=_matrix("matrix", self.matrix, len(self.accepted)))


@dataclass(frozen=True)
class Multiply:
    """Compute inner products: of the pushes in ``slots``, or of what colluders see of them."""

    epoch: int
    slots: Sequence[int]
    poisoned: Sequence[int] = field(default_factory=list)

    def check(self) -> Multiply:
        _whole("epoch", self.epoch, 1)
        _slots(slots=self.slots, poisoned=self.poisoned)
        return self


@dataclass(frozen=True)
class Weigh:
    """Count on sampled coordinates how often the rule uses each push."""

    epoch: int
    slots: Sequence[int]
    matrix: Optional[Sequence[Sequence[float]]] = None

    def check(self) -> Weigh:
        _whole("epoch", self.epoch, 1)
        _slots(slots=self.slots)
        return replace(self, matrix=_matrix("matrix", self.matrix, len(self.slots)))


@dataclass(frozen=True)
class Collude:
    """Let the attackers write their slots, given the honest ones that they see."""

    epoch: int
    honest: Sequence[int]
    poisoned: Sequence[int]
    combination: Optional[Sequence[Sequence[float]]] = None  # of what the attackers see

    def check(self) -> Collude:
        _whole("epoch", self.epoch, 1)
        _slots(honest=self.honest, poisoned=self.poisoned)
        return replace(self, combination=_matrix("combination", self.combination))


@dataclass(frozen=True)
class End:
    """End the run: no epoch follows."""

    def check(self) -> End:
        return self


Command = Union[Configure, Begin, Multiply, Weigh, Collude, Commit, End]
COMMANDS = {
    kind.__name__.lower(): kind
    for kind in (Configure, Begin, Multiply, Weigh, Collude, Commit, End)
}


def sources_of(settings: Settings) -> List[Tuple[str, str]]:
    """The plug-ins that rule and attack come from, with their digests."""
    found = list(find_rule(settings.rule).sources)
    if settings.attack is not None:
        found += [find_attack(settings.attack).source]
    return sorted({tuple(source) for source in found if source is not None})


def to_json(command: Command) -> str:
    """
    >>> to_json(Begin(3))
    '{"do": "begin", "epoch": 3}'
    """
    values = asdict(command)
    if isinstance(command, Configure):
        values["settings"] = command.settings._asdict()
    return json.dumps({"do": type(command).__name__.lower(), **values})


def read_command(body: Union[str, bytes]) -> Command:
    """The command in a message from the network; a ProtocolError if it is not a legal one.

    >>> read_command(b'{"do": "begin", "epoch": -1}')
    Traceback (most recent call last):
        ...
    slsgd_mx...ProtocolError: begin: epoch=-1 is not a whole number from 0 to 16777216
    """
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON ({error})") from None
    if not isinstance(values, dict) or not isinstance(values.get("do"), str):
        raise ProtocolError("not a command")
    name = values.pop("do")
    if name not in COMMANDS:
        raise ProtocolError(f"unknown command {name[:40]!r}")
    try:
        return COMMANDS[name](**values).check()
    except (ConfigError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ProtocolError(f"{name}: {error}") from None


def _whole(name: str, value: object, least: int = 0, most: float = MOST) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        shown = str(value) if isinstance(value, float) else repr(value)[:40]
        raise ProtocolError(f"{name}={shown} is not a whole number from {least} to {most}")
    return value


def _slots(**lists: object) -> None:
    listed = [_list(name, value) for name, value in lists.items()]
    slots = [_whole("slot", slot) for slot in sum(listed, [])]
    if len(set(slots)) < len(slots):
        raise ProtocolError(f"slots occur twice in {listed}")


def check_owners(value: object, k: Optional[int] = None, workers: int = MOST) -> None:
    """Raise a ProtocolError unless there is one worker for each of k slots, or no such list."""
    owners = [_whole("owner", rank, 0, workers - 1) for rank in _list("owners", value)]
    if owners and k not in (None, len(owners)):
        raise ProtocolError(f"owners of {len(owners)} slots, not {k}")


def _matrix(name: str, value: object, columns: Optional[int] = None) -> Optional[np.ndarray]:
    """A matrix of finite numbers, (m, columns); None if there is none."""
    if value is None:
        return None
    matrix = np.array([[_number(name, cell) for cell in _list(name, row)] for row in value])
    if matrix.ndim != 2 or not matrix.size or columns not in (None, matrix.shape[1]):
        raise ProtocolError(f"{name} of shape {matrix.shape} is not a matrix of {columns} columns")
    return matrix


def _list(name: str, value: object) -> list:
    if not isinstance(value, list):
        raise ProtocolError(f"{name}={repr(value)[:40]} is not a list")
    return value


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ProtocolError(f"{name}={value!r} is not a number")
    return float(value)
