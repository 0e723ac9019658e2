"""One of several servers: its shard of the model, and what pushes and commands do to it.

This module does not use MXNet: arrays are NumPy's, and ``roles`` passes on what MXNet receives.
A message that makes no sense is logged and has no other effect.
"""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import Callable, Dict, Iterable, Optional, Sequence, Set, Union

import numpy as np

from slsgd_mx.core.collusion import Plot, collude, products
from slsgd_mx.core.flat_model import Range, Shard, cut
from slsgd_mx.core.server import aggregate
from slsgd_mx.errors import ConfigError, DiskError
from slsgd_mx.parameter_server.commands import (
    Begin,
    Collude,
    Command,
    Commit,
    Configure,
    End,
    Multiply,
    Weigh,
    check_owners,
    read_command,
)
from slsgd_mx.parameter_server.protocol import (
    HEADER,
    HELLO,
    MODEL,
    PRODUCTS,
    SCORES,
    STATUS,
    Header,
    Phase,
    ProtocolError,
    State,
    Status,
    WorkerReport,
    find_key,
    products_size,
    shard_blocks,
    shard_ranges,
    status_size,
)
from slsgd_mx.parameter_server.secret import Secret
from slsgd_mx.rules.pipeline import blocks, find_rule, sampled
from slsgd_mx.system.slot_memory import SlotMemory

LONGEST = 300  # characters of a log line about a message


class ShardServer:
    """Stores pushes in slots, aggregates them when an epoch is committed, publishes its status.

    Messages whose sender does not know the ``secret`` are ignored.  ``log`` is called with a line
    about every message that is ignored.  Pushes beyond the limit of memory for them are kept in a
    file in ``slot_folder``, if it is given.
    """

    def __init__(
        self,
        secret: Secret,
        log: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        slot_folder: Optional[Path] = None,
    ) -> None:
        self.secret, self.log, self.clock, self.slot_folder = secret, log, clock, slot_folder
        self.setup: Optional[Configure] = None
        self.status = Status()
        self.shard: Optional[Shard] = None
        self.server: Optional[int] = None  # the number of this server
        self._model: Optional[np.ndarray] = None  # header and shard: memory that workers pull from
        self._board: Optional[np.ndarray] = None  # the status: memory that workers pull from
        self._products: Optional[np.ndarray] = None  # inner products: memory that worker 0 pulls
        self._extra: Set[int] = set()  # rows for colluders that arrived in the current epoch
        self._reports: Dict[int, WorkerReport] = {}  # of the current epoch, by rank
        self._owners: Sequence[int] = ()  # the worker of every slot in the current epoch
        self._began: Optional[float] = None  # when the current epoch began, if it has a deadline
        self._busy = 0.0  # seconds of inner products and attacks in the current epoch

    def command(self, body: Union[str, bytes]) -> None:
        """Carry out a command, or ignore it."""
        try:
            self._carry_out(read_command(self.secret.open(body)))
        except ProtocolError as error:
            self.log(f"command ignored: {str(error)[:LONGEST]}")
        except Exception as error:  # of a rule or an attack, which may be a user's
            self.log(f"command failed: {type(error).__name__}: {str(error)[:LONGEST]}")
            if not isinstance(error, ConfigError):
                self.log(traceback.format_exc())
        self._publish()

    def push(self, key: int, pushed: np.ndarray, stored: np.ndarray) -> None:
        """Process a push to a key, or ignore it.

        ``pushed`` is valid only during the call; ``stored`` is the memory that workers pull from.
        """
        try:
            header = self.secret.check(key, pushed)
            if self.setup is None:
                raise ProtocolError("the server is not configured yet")
            if pushed.shape != stored.shape or pushed.dtype != np.float32:
                raise ProtocolError(f"{pushed.dtype} {pushed.shape}, not float32 {stored.shape}")
            if header.rank not in range(self.setup.workers):
                raise ProtocolError(f"there is no worker {header.rank}")
            server, kind = find_key(key, self.setup.servers)
            if kind == MODEL:
                self._take_model(server, header, pushed, stored)
            elif kind == STATUS:
                self._take_report(header, pushed, stored)
            elif kind == PRODUCTS:
                self._take_products(server, header, stored)
            elif kind - SCORES in range(1, self.setup.workers):
                self._take_score(kind - SCORES, header, pushed, stored)
            else:
                raise ProtocolError("unknown key")
        except ProtocolError as error:
            self.log(f"push to key {key} ignored: {error}")
        self._publish()

    # ---- pushes

    def _take_model(
        self, server: int, header: Header, pushed: np.ndarray, stored: np.ndarray
    ) -> None:
        start, stop = shard_ranges(self.setup.size, self.setup.servers)[server]
        if stored.size != HEADER + stop - start:
            raise ProtocolError(f"{stored.size} values, not {HEADER + stop - start}")
        epoch, slot, rank = header
        if slot == HELLO:
            _check_coordinator(rank)
            return self._adopt(server, (start, stop), stored)
        if self.shard is None or server != self.server:
            raise ProtocolError("this server does not hold that shard")
        if self.status.phase != Phase.RUNNING:
            raise ProtocolError("no run is in progress")
        if epoch != self.status.epoch + 1:
            raise ProtocolError(f"slot {slot} of epoch {epoch} in epoch {self.status.epoch + 1}")
        k = self.setup.settings.k
        rows = k + self.setup.settings.extra
        if not 0 <= slot < rows:
            raise ProtocolError(f"slot={slot}: needs 0 <= slot < {rows}")
        if self._owners and slot < 2 * k and self._owners[slot % k] != rank:
            raise ProtocolError(f"slot {slot} of epoch {epoch} is not trained by worker {rank}")
        if slot in self._extra or (slot < k and self.status.states[slot] != State.NONE):
            raise ProtocolError(f"slot {slot} of epoch {epoch} has been pushed already")
        if slot >= k:
            self.shard.row(slot)[...] = pushed[HEADER:]
            self.shard.release()
            self._extra.add(slot)
            return
        limit = self.setup.deadline
        if None not in (limit, self._began) and self.clock() - self._began > limit:
            self.status.states[slot] = State.LATE
            raise ProtocolError(f"slot {slot} of epoch {epoch} arrived after the deadline")
        self.shard.row(slot)[...] = pushed[HEADER:]
        self.status.states[slot] = State.FINITE if self.shard.is_finite(slot) else State.NOT_FINITE

    def _adopt(self, server: int, part: Range, stored: np.ndarray) -> None:
        """Use the memory in which MXNet stores the model key as this server's shard."""
        if self.shard is not None:
            raise ProtocolError("the model is initialised already")
        settings, memory = self.setup.settings, stored[HEADER:]
        first, last = shard_blocks(self.setup.size, self.setup.servers)[server]
        held = cut(blocks(self.setup.size)[first:last], part)
        slots = SlotMemory(self.slot_folder)
        replaced = cut(self.setup.replaced, part)
        try:
            place = (replaced, held, first, part[0])
            self.shard = Shard(memory, settings.k, *place, slots, settings.extra)
        except DiskError as error:
            raise ProtocolError(str(error)) from None
        except MemoryError:
            rows = settings.k + settings.extra
            why = f"not enough memory for {rows} slots of {memory.size} values"
            raise ProtocolError(why) from None
        self._model, self.server = stored, server
        self._start_if_ready()

    def _take_products(self, server: int, header: Header, stored: np.ndarray) -> None:
        """Remember where worker 0 pulls inner products from; what is pushed does not matter."""
        _check_coordinator(header.rank)
        first, last = shard_blocks(self.setup.size, self.setup.servers)[server]
        if stored.size != products_size(self.setup.settings, last - first):
            raise ProtocolError(f"{stored.size} values are not inner products")
        if self._products is None:
            self._products = stored

    def _take_score(
        self, rank: int, header: Header, pushed: np.ndarray, stored: np.ndarray
    ) -> None:
        """Store a follower's part of an evaluation, without the token."""
        if header.rank != rank:
            raise ProtocolError(f"score of worker {rank} from worker {header.rank}")
        stored[HEADER:] = pushed[HEADER:]
        stored[:HEADER] = 0
        stored[0] = header.epoch

    def _take_report(self, header: Header, pushed: np.ndarray, stored: np.ndarray) -> None:
        if stored.size != status_size(self.setup.settings.k):
            raise ProtocolError(f"{stored.size} values, not {status_size(self.setup.settings.k)}")
        if header.slot == HELLO:
            _check_coordinator(header.rank)
            if self._board is None:
                self._board = stored
                self._start_if_ready()
            return
        if header.rank == 0 or header.epoch != self.status.epoch + 1:  # worker 0 does not report
            raise ProtocolError(f"report of worker {header.rank} on epoch {header.epoch}")
        report = WorkerReport.from_array(pushed)
        if self.status.phase != Phase.RUNNING or not all(0 <= cost <= 2**48 for cost in report):
            raise ProtocolError(f"report of impossible costs {tuple(report)}")
        self._reports[header.rank] = report
        self._count_reports()

    def _start_if_ready(self) -> None:
        ready = self.shard is not None and self._board is not None
        if ready and self.status.phase == Phase.WAITING:
            self.status.phase = Phase.RUNNING

    def _count_reports(self) -> None:
        self.status.done = len(self._reports)
        for name in ("training", "transfer", "sent"):
            total = sum(getattr(report, name) for report in self._reports.values())
            setattr(self.status, name, total)

    # ---- commands

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, Configure):
            self._configure(command)
        elif self.setup is None:
            raise ProtocolError("the server is not configured yet")
        elif isinstance(command, End):
            self.status.phase = Phase.ENDED
        elif command.epoch != self.status.epoch + 1:
            raise ProtocolError(f"epoch {command.epoch} does not follow {self.status.epoch}")
        elif isinstance(command, Begin):
            if self._began is not None:
                raise ProtocolError(f"epoch {command.epoch} has begun already")
            self._began = self.clock()
        elif self.status.phase != Phase.RUNNING:
            raise ProtocolError("no run is in progress")
        elif isinstance(command, Multiply):
            self._multiply(command)
        elif isinstance(command, Weigh):
            self._weigh(command)
        elif isinstance(command, Collude):
            self._collude(command)
        else:
            self._commit(command)

    def _configure(self, setup: Configure) -> None:
        if self.setup is not None:
            raise ProtocolError("configure: the server is configured already")
        k = setup.settings.k
        self.status.epoch, self.status.fingerprint = setup.epoch, setup.fingerprint
        self.status.states, self.status.outcomes = np.zeros(k), np.zeros(k)
        self.setup, self._owners = setup, setup.owners

    def _multiply(self, multiply: Multiply) -> None:
        """Write the inner products on each block where worker 0 pulls them from."""
        began = self._clear("multiply")
        self._check_slots(multiply.slots)
        if multiply.poisoned:
            grams = products(self.shard, self.setup.settings, self._plot(multiply, multiply.slots))
        else:
            grams = self.shard.grams(multiply.slots)
        self._show(multiply.epoch, grams)
        self._busy += self.clock() - began

    def _weigh(self, weigh: Weigh) -> None:
        """Write how often the rule uses each push where worker 0 pulls it from."""
        began, settings = self._clear("weigh"), self.setup.settings
        self._check_slots(weigh.slots)
        stride = sampled(self.setup.size, settings.k)
        kept = self.shard.kept(weigh.slots, settings.rule, settings.b, weigh.matrix, stride)
        self._show(weigh.epoch, kept)
        self._busy += self.clock() - began

    def _clear(self, command: str) -> float:
        """Remove earlier numbers, so that nobody takes them for new ones; return the time."""
        if self._products is None:
            raise ProtocolError(f"{command}: there is no key for the numbers")
        self._products[:HEADER] = 0.0
        return self.clock()

    def _show(self, epoch: int, parts: Iterable[np.ndarray]) -> None:
        """Write the numbers of each block; the header says of which epoch, and how many each."""
        numbers, start = self._products[HEADER:].view(np.float64), 0
        for part in parts:
            numbers[start : start + part.size] = part.reshape(-1)
            start += part.size
        self._products[:2] = epoch, part.size

    def _collude(self, command: Collude) -> None:
        """Write what the attackers push into their slots."""
        settings, plot, began = (
            self.setup.settings,
            self._plot(command, command.honest),
            self.clock(),
        )
        part = shard_ranges(self.setup.size, self.setup.servers)[self.server]
        places = {
            name: found[0]
            for name, start, stop in self.setup.places
            for found in [cut([(start, stop)], part)]
            if found
        }
        collude(self.shard, settings, plot, places, command.combination)
        for slot in plot.poisoned:
            finite = self.shard.is_finite(slot)
            self.status.states[slot] = State.FINITE if finite else State.NOT_FINITE
        self._busy += self.clock() - began

    def _plot(self, command: Union[Multiply, Collude], honest: Sequence[int]) -> Plot:
        """Who colludes; a ProtocolError if it makes no sense."""
        settings = self.setup.settings
        if settings.attack is None:
            raise ProtocolError("nobody colludes in this run")
        self._check_slots(honest)
        if any(slot >= settings.k for slot in command.poisoned):
            raise ProtocolError(f"slots are out of range: needs 0 <= slot < {settings.k}")
        return Plot(command.epoch, tuple(command.poisoned), tuple(honest))

    def _check_slots(self, slots: Sequence[int]) -> None:
        """Raise a ProtocolError unless all slots hold a push that may be aggregated."""
        settings, states = self.setup.settings, self.status.states
        if any(slot >= settings.k for slot in slots):
            raise ProtocolError(f"slots are out of range: needs 0 <= slot < {settings.k}")
        arrived = (State.FINITE, State.NOT_FINITE)
        legal = arrived if settings.nonfinite == "keep" else (State.FINITE,)
        if any(states[slot] not in legal for slot in slots):
            raise ProtocolError(f"cannot aggregate {slots}: not all have arrived and are finite")

    def _commit(self, commit: Commit) -> None:
        """Lines 14 and 15, on this server's shard."""
        settings, status = self.setup.settings, self.status
        self._check_commit(commit)
        began = self.clock()
        if commit.applied:
            accepted, matrix = sorted(commit.accepted), commit.matrix
            aggregate(self.shard, settings, commit.epoch, accepted, commit.alpha, matrix)
        self._model[0] = commit.epoch
        status.epoch, status.applied = commit.epoch, int(commit.applied)
        status.aggregation = self._busy + self.clock() - began
        self._busy = 0.0
        self._extra.clear()
        status.outcomes = np.zeros(settings.k)
        status.outcomes[list(commit.accepted)] = State.FINITE
        status.outcomes[list(commit.refused)] = State.NOT_FINITE
        status.states = np.zeros(settings.k)
        self._reports.clear()
        self._count_reports()
        self._began, self._owners = None, commit.owners

    def _check_commit(self, commit: Commit) -> None:
        settings, states = self.setup.settings, self.status.states
        check_owners(commit.owners, settings.k, self.setup.workers)
        if any(slot >= settings.k for slot in [*commit.accepted, *commit.refused]):
            raise ProtocolError(f"slots are out of range: needs 0 <= slot < {settings.k}")
        if any(states[slot] not in (State.FINITE, State.NOT_FINITE) for slot in commit.refused):
            raise ProtocolError(f"cannot refuse {commit.refused}: not all have arrived")
        self._check_slots(commit.accepted)
        if not commit.applied:
            return
        rule = find_rule(settings.rule)
        reason = rule.obstacle(len(commit.accepted), settings.b)
        if reason is None and rule.mixes != (commit.matrix is not None):
            reason = f"rule {settings.rule} does not fit the matrix"
        if reason is not None:
            raise ProtocolError(reason)

    def _publish(self) -> None:
        """Write the status where workers pull it from."""
        if self._board is not None:
            self._board[:] = self.status.to_array()


def _check_coordinator(rank: int) -> None:
    if rank != 0:
        raise ProtocolError(f"worker {rank} is not the coordinator")
