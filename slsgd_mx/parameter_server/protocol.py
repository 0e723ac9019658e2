"""What workers and servers exchange as arrays: keys, headers, a server's status, reports.

Every array starts with a header.  In a push it names the epoch, the slot and the worker, and proves
that the worker knows the run's secret.  Every server holds two keys.  Its *model* key is the
server's shard; a push to it is one worker's values for that shard.  Its *status* key says how far
the server is; a push to it is a worker's report that it has pushed all of its slots.  A third key
holds what a server computed for the coordinator, block by block: inner products, or how often the
rule uses each push.  Every follower has a key of kind ``SCORES + rank`` for its part of an
evaluation; a push to it is stored.  Nothing is ever unpickled.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from slsgd_mx.attacks import find_attack
from slsgd_mx.core.collusion import Settings
from slsgd_mx.core.flat_model import Range
from slsgd_mx.errors import ConfigError
from slsgd_mx.rules.pipeline import blocks, find_rule
from slsgd_mx.validation import require

MODEL, STATUS, PRODUCTS, SCORES = 0, 1, 2, 2  # kinds of keys; worker 0 has no scores
HEADER = 12  # float32 values ahead of all others: epoch, slot, rank and 9 pieces of a token
MOST = 2**24  # float32 represents every whole number up to this one
HELLO = -1  # slot in a push that only shows a server where MXNet stores the key
SPREAD = 9973  # MXNet stores a key on server (9973 * key) % servers
LARGEST_SHARD = 2**29 - 2 * HEADER  # ps-lite counts the bytes of a message in 31 bits

Phase = IntEnum("Phase", "WAITING RUNNING ENDED", start=0)  # of a server
State = IntEnum("State", "NONE FINITE NOT_FINITE LATE", start=0)  # of a slot


class ProtocolError(ConfigError):
    """A message that makes no sense; the receiver logs and ignores it."""


def key_on(server: int, servers: int, kind: int) -> int:
    """The key of a kind that MXNet stores on a server.

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


def shard_blocks(size: int, servers: int) -> List[Range]:
    """Divide the blocks of the flat model evenly: for each server its first and last + 1.

    >>> shard_blocks(10, 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    count = len(blocks(size))
    require(1 <= servers <= count, "servers", servers, f"1 <= servers <= {count}")
    bounds = [count * server // servers for server in range(servers + 1)]
    return list(zip(bounds, bounds[1:]))


def shard_ranges(size: int, servers: int) -> List[Range]:
    """Divide the flat model into whole blocks, one shard per server.

    >>> shard_ranges(10, 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    known = blocks(size)
    ranges = [(known[first][0], known[last - 1][1]) for first, last in shard_blocks(size, servers)]
    least = -(-len(known) // max(1, LARGEST_SHARD // (known[0][1] - known[0][0])))
    if servers < least:
        raise ConfigError(
            f"servers={servers} is out of range: a model of {size:,} values needs "
            f"servers >= {least}, because a message holds at most {LARGEST_SHARD:,}"
        )
    return ranges


def check_divisible(settings: Settings, servers: int) -> None:
    """Raise a ConfigError if rule or attack need whole models and there are several servers."""
    whole = {"rule": settings.rule} if find_rule(settings.rule).whole else {}
    if settings.attack is not None and find_attack(settings.attack).entry.whole:
        whole["attack"] = settings.attack
    for kind, text in whole.items() if servers > 1 else ():
        raise ConfigError(
            f"{kind} {text!r} compares whole models, and each of servers={servers} holds only a "
            "shard: needs servers = 1"
        )


def numbers_per_block(settings: Settings) -> int:
    """The most numbers that a server has to tell about each block; 0 if there are none.

    Attackers see at most k pushes, their mean and their deviation; a rule tells how often it uses
    each of at most k pushes.
    """
    rule = find_rule(settings.rule)
    combines = settings.attack is not None and find_attack(settings.attack).entry.combine
    if rule.mixes or combines:
        return (settings.k + 2) ** 2
    return 1 + settings.k if rule.tells_kept else 0


def products_size(settings: Settings, count: int) -> int:
    """Number of float32 values in what a server tells about ``count`` blocks, and a header."""
    each = numbers_per_block(settings)
    size = HEADER + 2 * count * each
    why = f"k={settings.k} is out of range: a server has to tell {each:,} numbers about each block"
    if each > MOST:
        raise ConfigError(f"{why} of the model, needs at most {MOST:,}: choose a smaller k")
    if size > LARGEST_SHARD:
        raise ConfigError(
            f"{why}, and it holds {count:,} blocks: these make {size:,} values, and a message "
            f"holds at most {LARGEST_SHARD:,}: choose a smaller k, or more servers"
        )
    return size


class Header(NamedTuple):
    """What a push is: of which epoch, for which slot, from which worker."""

    epoch: int
    slot: int
    rank: int


def read_header(pushed: np.ndarray) -> Header:
    """Epoch, slot and rank of a push; a ProtocolError if they are not whole numbers."""
    numbers = [float(value) for value in pushed[: len(Header._fields)]]
    if not all(number.is_integer() for number in numbers):
        raise ProtocolError("epoch {}, slot {}, rank {} are not whole numbers".format(*numbers))
    return Header(*map(int, numbers))


class WorkerReport(NamedTuple):
    """What a worker's part of an epoch cost; sent when it has pushed all its slots."""

    training: float = 0.0
    transfer: float = 0.0
    sent: float = 0.0

    def to_array(self, k: int) -> np.ndarray:
        array = np.zeros(status_size(k), np.float32)
        array[HEADER:].view(np.float64)[: len(self)] = self
        return array

    @classmethod
    def from_array(cls, array: np.ndarray) -> WorkerReport:
        return cls(*np.array(array[HEADER:]).view(np.float64)[: len(cls._fields)].tolist())


@dataclass
class Status:
    """How far a server is.

    ``states`` are those of the slots in the current epoch, ``outcomes`` those in the last committed
    one: FINITE if aggregated, NOT_FINITE if refused, NONE if missing.
    """

    phase: int = Phase.WAITING
    epoch: int = 0  # the last committed one
    fingerprint: int = 0  # of the coordinator's configuration, data and versions
    applied: int = 0  # whether the last commit changed the model
    aggregation: float = 0.0  # seconds that the last epoch's commands took
    done: int = 0  # workers that have pushed all their slots
    training: float = 0.0  # seconds and bytes of those workers
    transfer: float = 0.0
    sent: float = 0.0
    states: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (k,)
    outcomes: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (k,)

    def to_array(self) -> np.ndarray:
        """
        >>> status = Status(epoch=3, states=np.ones(2), outcomes=np.zeros(2))
        >>> Status.from_array(status.to_array()).epoch, status.to_array().size == status_size(2)
        (3, True)
        """
        numbers = np.array([getattr(self, name) for name in NUMBERS], np.float64)
        content = np.concatenate([numbers, self.states, self.outcomes]).view(np.float32)
        return np.concatenate([np.zeros(HEADER, np.float32), content])

    @classmethod
    def from_array(cls, array: np.ndarray) -> Status:
        numbers = np.array(array[HEADER:]).view(np.float64)
        values: Dict[str, Any] = dict(zip(NUMBERS, numbers.tolist()))
        for name in ("phase", "epoch", "fingerprint", "applied", "done"):
            values[name] = int(values[name])
        states, outcomes = numbers[len(NUMBERS) :].astype(int).reshape(2, -1)
        return cls(**values, states=states, outcomes=outcomes)


def finite_slots(statuses: Sequence[Status]) -> Dict[int, bool]:
    """The slots whose push has arrived at all servers, and whether all of its values are finite."""
    states = np.array([status.states for status in statuses])  # (servers, k)
    arrived = np.isin(states, (State.FINITE, State.NOT_FINITE)).all(axis=0)
    return {int(s): bool((states[:, s] == State.FINITE).all()) for s in np.flatnonzero(arrived)}


NUMBERS = [entry.name for entry in fields(Status)][:-2]  # all but the arrays


def status_size(k: int) -> int:
    """Number of float32 values in a status."""
    return HEADER + 2 * (len(NUMBERS) + 2 * k)
