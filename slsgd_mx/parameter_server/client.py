"""The parameter server as a worker sees it: init, pull, push, update, as in one process.

In an epoch a worker pulls the model once, before its first slot, and pushes one model for every
slot it trains.  ``update`` reports that it has pushed all of them.  Worker 0, the coordinator, then
waits for the other workers, decides from the servers' status which slots to accept, and tells the
servers to aggregate them.  Where attackers collude or a rule compares models, it first asks the
servers for inner products.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from slsgd_mx.core.algorithm import pull
from slsgd_mx.core.collusion import Plot, Settings
from slsgd_mx.core.server import Parameters, Server, Update, check_alpha, share_memory
from slsgd_mx.core.task import Task
from slsgd_mx.errors import ConfigError, RunError
from slsgd_mx.parameter_server import SEE_LOG
from slsgd_mx.parameter_server.buffers import ModelBuffers, ScoreBuffers
from slsgd_mx.parameter_server.commands import (
    Begin,
    Collude,
    Commit,
    Configure,
    End,
    Multiply,
    Weigh,
    sources_of,
    to_json,
)
from slsgd_mx.parameter_server.node import Node, poll, say
from slsgd_mx.parameter_server.protocol import (
    HEADER,
    HELLO,
    MODEL,
    PRODUCTS,
    STATUS,
    Phase,
    State,
    Status,
    WorkerReport,
    check_divisible,
    finite_slots,
    key_on,
    numbers_per_block,
    products_size,
    shard_blocks,
    shard_ranges,
    status_size,
)
from slsgd_mx.parameter_server.secret import VARIABLE
from slsgd_mx.system.arrays import as_ndarray
from slsgd_mx.system.mxnet import mx
from slsgd_mx.system.stopwatch import Costs


class Overtaken(Exception):
    """The other workers have finished the epoch, or the run, without this one."""


class ParameterServerClient(Server):
    """A ``Server`` whose model is held by other processes, each of which has a shard of it.

    ``node`` is this worker.  Workers with another ``fingerprint`` than worker 0's are rejected.
    ``shares(t)`` returns the slots that each worker trains in epoch t, ``score_sizes`` are the
    lengths of all workers' parts of an evaluation, and a slot that has not been pushed
    ``deadline`` seconds after the start of an epoch is left out.
    """

    def __init__(
        self,
        node: Node,
        settings: Settings,
        fingerprint: int,
        shares: Callable[[int], Sequence[Sequence[int]]],
        score_sizes: Sequence[int],
        deadline: Optional[float] = None,
    ) -> None:
        super().__init__(settings)
        servers = node.cluster.servers
        check_divisible(settings, servers)
        self.node, self.fingerprint = node, fingerprint
        self.deadline, self._shares_of = deadline, shares
        self.epoch = 0  # the last committed one
        self._status_keys, self._model_keys, self._product_keys = (
            [key_on(server, servers, kind) for server in range(servers)]
            for kind in (STATUS, MODEL, PRODUCTS)
        )
        self._scores = ScoreBuffers(node, score_sizes)
        self._began: Optional[float] = None  # when the current epoch began, if it has a deadline
        self._has_status = self._started = False  # whether the status keys, and all keys, exist

    @property
    def is_coordinator(self) -> bool:
        return self.node.rank == 0

    def start(self, epoch: int) -> None:
        """Give the servers their shards of the model; followers learn the epoch from them."""
        self.epoch = epoch
        if self.is_coordinator:
            sizes = self.node.cluster.workers, self.node.cluster.servers, self.model.size
            about = self.model.replaced, epoch, self.fingerprint, self.deadline
            places = [(key, p.start, p.stop) for key, p in self.model.places.items()]
            named = places if self.settings.attack is not None else [], sources_of(self.settings)
            more = *named, self._owners(epoch + 1)
            self.node.command(to_json(Configure(self.settings, *sizes, *about, *more)))
        self._init_status(Phase.WAITING)
        if not self.is_coordinator and self._read_status()[0].phase == Phase.ENDED:
            raise Overtaken
        self._buffers.write(self.model.vector, epoch)
        self.node.init(self._model_keys, self._buffers.arrays)
        self._scores.init()
        if numbers_per_block(self.settings):
            self.node.init(self._product_keys, self._product_arrays)
        if self.is_coordinator:
            hello = [mx.nd.zeros(status_size(self.settings.k)) for _ in self._status_keys]
            self.node.push(self._status_keys, hello, epoch, HELLO)
            self.node.push(self._model_keys, self._buffers.arrays, epoch, HELLO)
            if numbers_per_block(self.settings):
                self.node.push(self._product_keys, self._product_arrays, epoch, HELLO)
        limit = self.node.patience if self.is_coordinator else None
        statuses = self._wait_until(lambda seen: all(s.phase != Phase.WAITING for s in seen), limit)
        self._check_started(statuses)
        self.epoch, self._model_epoch, self._started = statuses[0].epoch, -1, True

    def end(self) -> None:
        """Tell the followers, even those that have not started yet, that the run has ended."""
        if self._started:
            self.node.command(to_json(End()))
        elif not self._has_status:
            self._init_status(Phase.ENDED)
        # else a server did not start: the followers will notice that this worker is gone

    def await_end(self) -> None:
        """Wait until the coordinator ends the run."""
        self._wait_until(lambda seen: seen[0].phase == Phase.ENDED)

    def read_epoch(self) -> Optional[int]:
        """The current epoch; None after the run has ended."""
        status = self._read_status()[0]
        self.epoch = status.epoch
        self._forget_pushes()
        return None if status.phase == Phase.ENDED else status.epoch + 1

    # ---- Algorithm 1

    def begin(self, t: int) -> Iterator[int]:
        """The slots that this worker trains, until the deadline passes."""
        self._watch.reset()
        if self.is_coordinator and self.deadline is not None:
            self._began = time.monotonic()
            self.node.command(to_json(Begin(t)))
        for slot in self._shares_of(t)[self.node.rank]:
            if self._is_too_late():
                return
            yield slot

    def update(self, alpha: float, poisoned: Sequence[int] = ()) -> Update:
        check_alpha(alpha)
        self._watch.switch("")
        update = self._commit(alpha, poisoned) if self.is_coordinator else self._await_commit()
        self.epoch += 1
        self._forget_pushes()
        self._began = None
        return update

    def _refresh(self) -> None:
        """Pull the model after ``epoch``, once."""
        if self._model_epoch == self.epoch:
            return
        mx.nd.waitall()  # for asynchronous copies out of the old model
        self.node.pull(self._model_keys, self._buffers.arrays)
        if not self._buffers.read(self.model.vector, self.epoch):
            raise Overtaken
        self._model_epoch = self.epoch

    def _destination(self, slot: int) -> Parameters:
        return self._outgoing[1]

    def _send(self, slot: int) -> None:
        """Push a slot's complete model to the servers."""
        mx.nd.waitall()
        self._buffers.write(self._outgoing[0], self.epoch + 1)
        self.node.push(self._model_keys, self._buffers.arrays, self.epoch + 1, slot)

    # ---- evaluation

    def evaluate(self, task: Task) -> Dict[str, float]:
        """Every worker scores its part; the coordinator itself scores parts that are late."""
        workers = self.node.cluster.workers
        scores = [task.score(0, workers)]
        for rank in range(1, workers):
            score = self._scores.receive(rank, self.epoch, self.deadline)
            scores.append(task.score(rank, workers) if score is None else score)
        return task.metrics(scores)

    def help_evaluate(self, task: Task) -> None:
        """A follower's part in the evaluation of the model after ``epoch``."""
        rank = self.node.rank
        if rank in self._scores:
            pull(task, self)
            self._scores.send(rank, self.epoch, task.score(rank, self.node.cluster.workers))

    # ---- the end of an epoch

    def _commit(self, alpha: float, poisoned: Sequence[int]) -> Update:
        """Wait for the followers or the deadline, then tell the servers to aggregate."""
        followers = self.node.cluster.workers - 1
        statuses = self._wait_until(lambda seen: seen[0].done >= followers, self._time_left())
        if statuses[0].done < followers:
            say(f"epoch {self.epoch + 1}: not all workers were done by the deadline")
        self._statuses = statuses
        update = self._conclude(self.epoch + 1, alpha, poisoned)
        after = self._statuses
        own, others = self._take_costs(), statuses[0]
        costs = Costs(
            own.training + others.training,
            own.transfer + others.transfer,
            max(status.aggregation for status in after),
            own.sent + int(others.sent),
        )
        return dataclasses.replace(update, costs=costs)

    def _finite_slots(self) -> Dict[int, bool]:
        return finite_slots(self._statuses)

    def _products(self, plot: Plot) -> Iterator[np.ndarray]:
        return self._grams_after(Multiply(plot.t, plot.honest, plot.poisoned))

    def _grams(self, slots: Sequence[int]) -> Iterator[np.ndarray]:
        return self._grams_after(Multiply(self.epoch + 1, slots))

    def _grams_after(self, command: Multiply) -> Iterator[np.ndarray]:
        for numbers in self._ask(command):
            n = math.isqrt(numbers.size)
            yield numbers.reshape(n, n)

    def _kept(self, slots: Sequence[int], matrix: Optional[np.ndarray]) -> Iterator[np.ndarray]:
        listed = None if matrix is None else matrix.tolist()
        return self._ask(Weigh(self.epoch + 1, slots, listed))

    def _ask(self, command: Union[Multiply, Weigh]) -> Iterator[np.ndarray]:
        """What the servers compute for a command, block by block."""
        self.node.command(to_json(command))
        self.node.pull(self._product_keys, self._product_arrays)
        held = shard_blocks(self.model.size, self.node.cluster.servers)
        for array, (first, last) in zip(self._product_arrays, held):
            memory = array.asnumpy()
            if memory[0] != command.epoch:
                raise RunError(f"a server did not compute what it was asked for: {SEE_LOG}")
            count = int(memory[1])
            numbers = memory[HEADER:].view(np.float64)[: (last - first) * count]
            yield from numbers.reshape(-1, count)

    def _collude(self, plot: Plot, combination: Optional[np.ndarray]) -> Dict[int, bool]:
        listed = None if combination is None else combination.tolist()
        self.node.command(to_json(Collude(plot.t, plot.honest, plot.poisoned, listed)))
        finite = finite_slots(self._read_status())
        if not set(plot.poisoned) <= set(finite):
            raise RunError(f"a server did not carry out the attack: {SEE_LOG}")
        return {slot: finite[slot] for slot in plot.poisoned}

    def _apply(self, t: int, update: Update, matrix: Optional[np.ndarray], alpha: float) -> None:
        listed = None if matrix is None else matrix.tolist()
        slots, owners = (update.accepted, update.refused), self._owners(t + 1)
        commit = Commit(t, alpha, *slots, update.applied, listed, owners)
        self.node.command(to_json(commit))
        self._statuses = self._read_status()
        if any(status.epoch != t for status in self._statuses):
            raise RunError(f"a server did not commit the epoch: {SEE_LOG}")

    def _await_commit(self) -> Update:
        """Report that all slots are pushed, and wait for the commit."""
        epoch, costs = self.epoch + 1, self._take_costs()
        report = WorkerReport(costs.training, costs.transfer, costs.sent)
        self.node.push(self._status_keys[:1], [as_ndarray(report.to_array(self.settings.k))], epoch)
        status = self._wait_until(
            lambda seen: seen[0].phase == Phase.ENDED or all(s.epoch >= epoch for s in seen)
        )[0]
        if status.phase == Phase.ENDED or status.epoch != epoch:
            raise Overtaken
        accepted, refused, missing = (
            tuple(np.flatnonzero(status.outcomes == state).tolist())
            for state in (State.FINITE, State.NOT_FINITE, State.NONE)
        )
        return Update(accepted, refused, missing, bool(status.applied))

    def _owners(self, t: int) -> List[int]:
        """The worker that trains each slot in epoch t."""
        owners = {slot: rank for rank, slots in enumerate(self._shares_of(t)) for slot in slots}
        return [owners[slot] for slot in range(self.settings.k)]

    def _take_costs(self) -> Costs:
        """What this worker's part of the epoch cost."""
        return Costs(**self._watch.take(), sent=self.node.take_sent())

    def _is_too_late(self) -> bool:
        """Whether the deadline has passed; followers see that the servers have gone on."""
        if self.deadline is not None and not self.is_coordinator:
            status = self._read_status()[0]
            if status.phase == Phase.ENDED or status.epoch != self.epoch:
                raise Overtaken
        return self._time_left() == 0.0

    def _time_left(self) -> Optional[float]:
        if self.deadline is None or self._began is None:
            return None
        return max(0.0, self._began + self.deadline - time.monotonic())

    # ---- the servers' status

    def _init_status(self, phase: Phase) -> None:
        """Create the status keys; waits for all workers."""
        self._has_status = True
        k = self.settings.k
        array = as_ndarray(Status(phase, states=np.zeros(k), outcomes=np.zeros(k)).to_array())
        self.node.init(self._status_keys, [array] * len(self._status_keys))

    def _check_started(self, statuses: List[Status]) -> None:
        if any(status.phase != Phase.RUNNING for status in statuses):
            if self.is_coordinator:
                raise RunError(f"a server did not accept its shard of the model: {SEE_LOG}")
            raise Overtaken
        if statuses[0].fingerprint != self.fingerprint:
            raise ConfigError(
                "this worker would not compute the same as worker 0: configuration, data, threads, "
                f"versions (each worker logs its own) and {VARIABLE} must be equal on all workers"
            )

    def _read_status(self) -> List[Status]:
        arrays = [mx.nd.zeros(status_size(self.settings.k)) for _ in self._status_keys]
        self.node.pull(self._status_keys, arrays)
        return [Status.from_array(array.asnumpy()) for array in arrays]

    def _wait_until(
        self, condition: Callable[[List[Status]], bool], limit: Optional[float] = None
    ) -> List[Status]:
        """Wait until a condition holds, at most ``limit`` seconds; return the last statuses."""
        seen: List[Status] = []

        def holds() -> bool:
            seen[:] = self._read_status()
            return condition(seen)

        poll(holds, limit)
        return seen

    # ---- memory

    @functools.cached_property
    def _buffers(self) -> ModelBuffers:
        return ModelBuffers(shard_ranges(self.model.size, self.node.cluster.servers))

    @functools.cached_property
    def _product_arrays(self) -> List[mx.nd.NDArray]:
        """The servers' inner products in transit."""
        held = shard_blocks(self.model.size, self.node.cluster.servers)
        sizes = [products_size(self.settings, last - first) for first, last in held]
        return [mx.nd.zeros(size) for size in sizes]

    @functools.cached_property
    def _outgoing(self) -> Tuple[np.ndarray, Parameters]:
        """The model to be pushed next: a flat vector, and the parameters in its memory."""
        vector = np.zeros(self.model.size, np.float32)
        return vector, share_memory(self.model, vector)
