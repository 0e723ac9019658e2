"""One server of several: its shard of the model, its slots, and what messages make of them.

No MXNet in here: arrays are NumPy's, and whoever runs a server hands over what arrives.  Nothing
that makes no sense can do more than be ignored, with a line in the log.
"""

from __future__ import annotations

import time
from typing import Callable, Dict, Optional, Union

import numpy as np

from slsgd_mx.core.flat_model import Range, Shard, cut
from slsgd_mx.parameter_server.protocol import (
    ENDED,
    FINITE,
    HEADER,
    HELLO,
    LATE,
    MODEL,
    NONE,
    NOT_FINITE,
    RUNNING,
    SCORES,
    STATUS,
    WAITING,
    Begin,
    Command,
    Commit,
    Configure,
    End,
    ProtocolError,
    Report,
    Status,
    find_key,
    read_command,
    read_header,
    status_size,
    stretches,
)

Log = Callable[[str], None]
LONGEST = 300  # characters of a line about somebody else's message


class Aggregator:
    """Takes pushes into slots, aggregates when an epoch is committed, and says how far it is.

    Parameters
    ----------
    log : told of everything that is ignored
    clock : seconds, for deadlines and for what aggregation takes
    """

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self.log, self.clock = log, clock
        self.setup: Optional[Configure] = None
        self.status = Status()
        self.shard: Optional[Shard] = None
        self.server: Optional[int] = None  # which one this is
        self._model: Optional[np.ndarray] = None  # header and values, the memory workers pull from
        self._board: Optional[np.ndarray] = None  # the status, likewise
        self._reports: Dict[int, Report] = {}
        self._began: Optional[float] = None

    def command(self, body: Union[str, bytes]) -> None:
        """Carry out a command, or ignore it."""
        try:
            command = read_command(body)
            self._carry_out(command)
        except ProtocolError as error:
            self.log(f"command ignored: {str(error)[:LONGEST]}")
        self._publish()

    def push(self, key: int, pushed: np.ndarray, stored: np.ndarray) -> None:
        """Take what was pushed to a key, or ignore it.

        ``pushed`` is only borrowed; ``stored`` is the memory that workers pull from.
        """
        try:
            if self.setup is None:
                raise ProtocolError("nothing is configured yet")
            if pushed.shape != stored.shape or pushed.dtype != np.float32:
                raise ProtocolError(f"{pushed.dtype} {pushed.shape}, not float32 {stored.shape}")
            server, kind = find_key(key, self.setup.servers)
            if kind == MODEL:
                self._take_model(server, pushed, stored)
            elif kind == STATUS:
                self._take_report(pushed, stored)
            elif kind - SCORES in range(1, self.setup.workers):
                stored[...] = pushed
            else:
                raise ProtocolError("an unknown key")
        except ProtocolError as error:
            self.log(f"push to key {key} ignored: {error}")
        self._publish()

    # ---- pushes

    def _take_model(self, server: int, pushed: np.ndarray, stored: np.ndarray) -> None:
        start, stop = stretches(self.setup.size, self.setup.servers)[server]
        if stored.size != HEADER + stop - start:
            raise ProtocolError(f"{stored.size} values, not {HEADER + stop - start}")
        epoch, slot = read_header(pushed)
        if slot == HELLO:
            self._adopt(server, (start, stop), stored)
            return
        if self.shard is None or server != self.server:
            raise ProtocolError("there is no such model here")
        if self.status.phase != RUNNING or epoch != self.status.epoch + 1:
            raise ProtocolError(f"slot {slot} of epoch {epoch}, after epoch {self.status.epoch}")
        if not 0 <= slot < self.setup.settings.k:
            raise ProtocolError(f"slot={slot}, not 0 <= slot < {self.setup.settings.k}")
        if self.status.states[slot] != NONE:
            raise ProtocolError(f"slot {slot} of epoch {epoch} has been pushed already")
        if self._is_late():
            self.status.states[slot] = LATE
            raise ProtocolError(f"slot {slot} of epoch {epoch} comes after the deadline")
        self.shard.slots[slot] = pushed[HEADER:]
        self.status.states[slot] = FINITE if self.shard.is_finite(slot) else NOT_FINITE

    def _adopt(self, server: int, stretch: Range, stored: np.ndarray) -> None:
        """The memory of the model shows itself."""
        if self.shard is not None:
            raise ProtocolError("the model is there already")
        k, plain = self.setup.settings.k, cut(self.setup.plain, stretch)
        try:
            self.shard = Shard(stored[HEADER:], k, plain)
        except MemoryError:
            raise ProtocolError(
                f"no memory for k={k} slots of {stretch[1] - stretch[0]} values"
            ) from None
        self._model, self.server = stored, server
        self._start_if_ready()

    def _take_report(self, pushed: np.ndarray, stored: np.ndarray) -> None:
        if stored.size != status_size(self.setup.settings.k):
            raise ProtocolError(f"{stored.size} values, not {status_size(self.setup.settings.k)}")
        if self._board is None:
            self._board = stored
            self._start_if_ready()
        report = Report.from_array(pushed)
        if report.rank == HELLO:
            return
        others = range(1, self.setup.workers)  # worker 0 decides, and reports to nobody
        if report.rank not in others or report.epoch != self.status.epoch + 1:
            raise ProtocolError(f"a report of worker {report.rank} on epoch {report.epoch}")
        if self.status.phase != RUNNING or not all(0 <= cost <= 2**48 for cost in report[2:]):
            raise ProtocolError(f"a report of costs {report[2:]}")
        self._reports[int(report.rank)] = report
        self._count_reports()

    def _start_if_ready(self) -> None:
        if self.shard is not None and self._board is not None and self.status.phase == WAITING:
            self.status.phase = RUNNING

    def _count_reports(self) -> None:
        self.status.done = len(self._reports)
        for name in ("training", "transfer", "sent"):
            total = sum(getattr(report, name) for report in self._reports.values())
            setattr(self.status, name, total)

    def _is_late(self) -> bool:
        deadline = self.setup.deadline
        return None not in (deadline, self._began) and self.clock() - self._began > deadline

    # ---- commands

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, Configure):
            self._configure(command)
        elif self.setup is None:
            raise ProtocolError("nothing is configured yet")
        elif isinstance(command, End):
            self.status.phase = ENDED
        elif command.epoch != self.status.epoch + 1:
            raise ProtocolError(f"epoch {command.epoch} after epoch {self.status.epoch}")
        elif isinstance(command, Begin):
            if self._began is not None:
                raise ProtocolError(f"epoch {command.epoch} has begun already")
            self._began = self.clock()
        else:
            self._commit(command)

    def _configure(self, setup: Configure) -> None:
        if self.setup is not None:
            raise ProtocolError("configure: that was done already")
        k = setup.settings.k
        self.status.epoch, self.status.fingerprint = setup.epoch, setup.fingerprint
        self.status.states, self.status.outcomes = np.zeros(k), np.zeros(k)
        self.setup = setup

    def _commit(self, commit: Commit) -> None:
        """Lines 14 and 15, on this server's part of the model."""
        settings, status = self.setup.settings, self.status
        if self.shard is None or status.phase != RUNNING:
            raise ProtocolError("there is no model under way")
        if any(slot >= settings.k for slot in [*commit.accepted, *commit.refused]):
            raise ProtocolError(f"slots out of range: 0 <= slot < {settings.k}")
        came = (FINITE, NOT_FINITE)
        legal = came if settings.nonfinite == "keep" else (FINITE,)
        if any(status.states[slot] not in came for slot in commit.refused):
            raise ProtocolError(f"{commit.refused} are to be refused, and not all have come")
        if any(status.states[slot] not in legal for slot in commit.accepted):
            raise ProtocolError(
                f"{commit.accepted} are to be aggregated, and not all have come, finite"
            )
        if commit.applied and len(commit.accepted) <= 2 * settings.b:
            raise ProtocolError(f"{len(commit.accepted)} slots are too few for b={settings.b}")
        began = self.clock()
        if commit.applied:
            self.shard.update(sorted(commit.accepted), settings.rule, settings.b, commit.alpha)
        self._model[:HEADER] = commit.epoch, 0
        status.epoch, status.applied = commit.epoch, int(commit.applied)
        status.aggregation = self.clock() - began
        status.outcomes = np.zeros(settings.k)
        status.outcomes[list(commit.accepted)] = FINITE
        status.outcomes[list(commit.refused)] = NOT_FINITE
        status.states = np.zeros(settings.k)
        self._reports.clear()
        self._count_reports()
        self._began = None

    def _publish(self) -> None:
        """Let workers see how far this server is."""
        if self._board is not None:
            self._board[:] = self.status.to_array()
