"""What goes over the wire: keys, headers, the status of a server, commands.

Every server holds two keys.  Its *model* key is a stretch of the flat model behind a header; what
is pushed to it is one worker's stretch, and the header says which slot of which epoch it is for.
Its *status* key says how far the server is; what is pushed to it is a worker's report that it has
pushed all it has to.  Every worker has a key besides, kinds ``SCORES + rank``, for its part of an
evaluation: what is pushed to it is kept as it is.  Commands are JSON.  Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from slsgd_mx.core.flat_model import Range
from slsgd_mx.core.server import Settings, check_alpha
from slsgd_mx.errors import ConfigError
from slsgd_mx.rules import RULES

MODEL, STATUS, SCORES = 0, 1, 2  # kinds of keys
HEADER = 2  # float32 values ahead of the model's: epoch and slot
HELLO = -1  # slot or rank of a push that only shows a server its own memory
SPREAD = 9973  # MXNet keeps key on server (9973 * key) % servers
LARGEST_SHARD = 2**29 - 2 * HEADER  # ps-lite counts the bytes of a message in 31 bits

MOST = 2**24  # the largest whole number up to which float32 has them all
WAITING, RUNNING, ENDED = 0, 1, 2  # phases of a server
NONE, FINITE, NOT_FINITE, LATE = 0, 1, 2, 3  # states of a slot


class ProtocolError(ConfigError):
    """A message that makes no sense; whoever gets it says so and goes on."""


# ---- keys ----------------------------------------------------------------------------------


def key_on(server: int, servers: int, kind: int) -> int:
    """The key of a kind that MXNet keeps on a server.

    >>> [[key_on(s, 3, kind) * SPREAD % 3 for s in range(3)] for kind in (MODEL, STATUS)]
    [[0, 1, 2], [0, 1, 2]]
    """
    place = next(x for x in range(servers) if x * SPREAD % servers == server)
    return kind * servers + place


def find_key(key: int, servers: int) -> Tuple[int, int]:
    """Server and kind of a key.

    >>> [find_key(key_on(s, 5, STATUS), 5) for s in range(5)]
    [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]
    """
    return key * SPREAD % servers, key // servers


def stretches(size: int, servers: int) -> List[Range]:
    """The flat model in even parts, one a server.

    >>> stretches(10, 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    if not 1 <= servers <= min(size, SPREAD - 1):
        most = min(size, SPREAD - 1)
        raise ConfigError(f"servers={servers} is out of range: needs 1 <= servers <= {most}")
    bounds = [size * server // servers for server in range(servers + 1)]
    parts = list(zip(bounds, bounds[1:]))
    longest = max(stop - start for start, stop in parts)
    if longest > LARGEST_SHARD:
        least = -(-size // LARGEST_SHARD)
        raise ConfigError(
            f"servers={servers} is out of range: a model of {size:,} values needs "
            f"servers >= {least}, because a message holds {LARGEST_SHARD:,} at most"
        )
    return parts


def check_rule(rule: str, servers: int) -> None:
    """Raise a ConfigError if a rule cannot work on parts of a model."""
    if servers > 1 and rule in RULES and not RULES[rule].coordinate_wise:
        raise ConfigError(
            f"rule {rule!r} compares whole models, and each of servers={servers} holds a part of "
            "them: needs servers = 1"
        )


def read_header(pushed: np.ndarray) -> Tuple[int, int]:
    """Epoch and slot of a push; a ProtocolError if they are no whole numbers."""
    epoch, slot = (float(value) for value in pushed[:HEADER])
    if not (epoch.is_integer() and slot.is_integer()):
        raise ProtocolError(f"a push for epoch {epoch} and slot {slot}")
    return int(epoch), int(slot)


# ---- arrays: numbers are float64, in arrays that MXNet takes for float32 -------------------


class Report(NamedTuple):
    """A worker has pushed all it had to push in an epoch, and what that took it."""

    rank: float
    epoch: float
    training: float = 0.0
    transfer: float = 0.0
    sent: float = 0.0

    def to_array(self, k: int) -> np.ndarray:
        array = np.zeros(status_size(k) // 2)
        array[: len(self)] = self
        return array.view(np.float32)

    @classmethod
    def from_array(cls, array: np.ndarray) -> Report:
        return cls(*np.array(array).view(np.float64)[: len(cls._fields)].tolist())


def _zeros() -> np.ndarray:
    return np.zeros(0)


@dataclass
class Status:
    """How far a server is.

    ``states`` are those of the slots in the epoch under way, ``outcomes`` those in the epoch that
    was committed last: FINITE if aggregated, NOT_FINITE if refused, NONE if missing.
    """

    phase: int = WAITING
    epoch: int = 0  # committed last
    fingerprint: int = 0  # of what the coordinator computes
    applied: int = 0  # whether the last commit changed the model
    aggregation: float = 0.0  # seconds the last commit took
    done: int = 0  # workers that have pushed all they had to
    training: float = 0.0  # seconds and bytes of those
    transfer: float = 0.0
    sent: float = 0.0
    states: np.ndarray = field(default_factory=_zeros)  # (k,)
    outcomes: np.ndarray = field(default_factory=_zeros)  # (k,)

    def to_array(self) -> np.ndarray:
        """
        >>> status = Status(epoch=3, states=np.ones(2), outcomes=np.zeros(2))
        >>> Status.from_array(status.to_array()).epoch, status.to_array().size == status_size(2)
        (3, True)
        """
        numbers = [getattr(self, name) for name in NUMBERS]
        return np.concatenate([np.array(numbers, np.float64), self.states, self.outcomes]).view(
            np.float32
        )

    @classmethod
    def from_array(cls, array: np.ndarray) -> Status:
        numbers = np.array(array).view(np.float64)
        values: Dict[str, Any] = dict(zip(NUMBERS, numbers.tolist()))
        for name in ("phase", "epoch", "fingerprint", "applied", "done"):
            values[name] = int(values[name])
        k = (len(numbers) - len(NUMBERS)) // 2
        states, outcomes = numbers[len(NUMBERS) :][:k], numbers[len(NUMBERS) + k :]
        return cls(**values, states=states.astype(int), outcomes=outcomes.astype(int))


NUMBERS = [entry.name for entry in fields(Status)][:-2]  # all but those of the slots


def status_size(k: int) -> int:
    """float32 values of a status."""
    return 2 * (len(NUMBERS) + 2 * k)


# ---- commands ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Configure:
    """How to aggregate, and what there is to hold; once, before anything is pushed."""

    settings: Settings
    workers: int
    servers: int
    size: int  # values of the whole model
    plain: Sequence[Range]  # stretches of it that alpha is kept off
    epoch: int  # the model is that after this one
    fingerprint: int
    deadline: Optional[float] = None  # seconds


@dataclass(frozen=True)
class Begin:
    """An epoch's deadline counts from now."""

    epoch: int


@dataclass(frozen=True)
class Commit:
    """Aggregate these slots, unless too few were left; the epoch is over."""

    epoch: int
    alpha: float
    accepted: Sequence[int]
    refused: Sequence[int]
    applied: bool


@dataclass(frozen=True)
class End:
    """There is nothing more to compute."""


Command = Union[Configure, Begin, Commit, End]
COMMANDS = {"configure": Configure, "begin": Begin, "commit": Commit, "end": End}


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
    """The command in a message from the network; a ProtocolError if it is none.

    >>> read_command(b'{"do": "begin", "epoch": -1}')
    Traceback (most recent call last):
        ...
    slsgd_mx...ProtocolError: begin: epoch=-1 is no whole number from 0 to 16777216
    """
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"no JSON ({error})") from None
    if not isinstance(values, dict) or not isinstance(values.get("do"), str):
        raise ProtocolError("no command")
    name = values.pop("do")
    if name not in COMMANDS:
        raise ProtocolError(f"unknown command {name[:40]!r}")
    try:
        command = COMMANDS[name](**values)
        return _CHECKS[name](command)
    except ProtocolError as error:
        raise ProtocolError(f"{name}: {error}") from None
    except (ConfigError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ProtocolError(f"{name}: {error}") from None


def _whole(name: str, value: object, least: int = 0, most: int = MOST) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        shown = str(value) if isinstance(value, float) else repr(value)[:40]
        raise ProtocolError(f"{name}={shown} is no whole number from {least} to {most}")
    return value


def _list(name: str, value: object) -> list:
    if not isinstance(value, list):
        raise ProtocolError(f"{name}={repr(value)[:40]} is no list")
    return value


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ProtocolError(f"{name}={value!r} is no number")
    return float(value)


def _check_configure(command: Configure) -> Configure:
    settings = Settings(**command.settings)  # type: ignore[arg-type]
    _whole("k", settings.k, 1)
    settings.check()
    _whole("workers", command.workers, 1)
    _whole("servers", command.servers, 1)
    check_rule(settings.rule, command.servers)
    _whole("epoch", command.epoch)
    _whole("size", command.size, 1, 2**48)
    _whole("fingerprint", command.fingerprint, 0, 2**48)
    plain = [
        (_whole("start", start, 0, 2**48), _whole("stop", stop, 0, 2**48))
        for start, stop in _list("plain", command.plain)
    ]
    if any(not start <= stop <= command.size for start, stop in plain):
        raise ProtocolError(f"plain={plain} is not within a model of {command.size} values")
    stretches(command.size, command.servers)
    deadline = command.deadline
    if deadline is not None and _number("deadline", deadline) <= 0:
        raise ProtocolError(f"deadline={deadline} is not more than 0 seconds")
    values = {**vars(command), "settings": settings, "plain": plain}
    return Configure(**values)


def _check_begin(command: Begin) -> Begin:
    _whole("epoch", command.epoch)
    return command


def _check_commit(command: Commit) -> Commit:
    _whole("epoch", command.epoch, 1)
    check_alpha(_number("alpha", command.alpha))
    if not isinstance(command.applied, bool):
        raise ProtocolError(f"applied={command.applied!r} is neither true nor false")
    named = dict(accepted=command.accepted, refused=command.refused)
    lists = [[_whole("slot", slot) for slot in _list(name, slots)] for name, slots in named.items()]
    if len(set(sum(lists, []))) < len(sum(lists, [])):
        raise ProtocolError(f"slots are named twice in {lists}")
    return command


_CHECKS = {
    "configure": _check_configure,
    "begin": _check_begin,
    "commit": _check_commit,
    "end": lambda command: command,
}
