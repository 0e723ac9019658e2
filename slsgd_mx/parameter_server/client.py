"""The parameter server seen by a worker: init, pull, push, update, as in one process.

In an epoch a worker pulls the model once, when it is first asked for it, and pushes one model for
every slot it trains.  ``update`` says that it has pushed all; worker 0, the coordinator, then waits
for the others, decides by what the servers say of the slots, and has them aggregate.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Sequence

import numpy as np

from slsgd_mx.core.algorithm import pull
from slsgd_mx.core.flat_model import all_finite
from slsgd_mx.core.server import Server, Settings, Slots, Update, check_alpha, look_into
from slsgd_mx.core.task import Task
from slsgd_mx.errors import ConfigError, RunError
from slsgd_mx.parameter_server.node import Node, say
from slsgd_mx.parameter_server.protocol import (
    ENDED,
    FINITE,
    HELLO,
    MODEL,
    NOT_FINITE,
    RUNNING,
    STATUS,
    WAITING,
    Begin,
    Commit,
    Configure,
    End,
    Report,
    Status,
    check_rule,
    stretches,
    to_json,
)
from slsgd_mx.parameter_server.wire import Boxes, Pieces, Wire, ask_until
from slsgd_mx.system.arrays import as_ndarray
from slsgd_mx.system.mxnet import mx
from slsgd_mx.system.stopwatch import Costs, Stopwatch


class Overtaken(Exception):
    """The others have gone on to another epoch, or have ended, without this worker."""


class DistributedServer(Server):
    """A ``Server`` on other machines, as each of its workers sees it.

    Parameters
    ----------
    node : Node
        This worker.
    settings : Settings
    fingerprint : int
        Of what is computed; workers that compute something else are refused.
    share : callable
        Slots this worker trains in epoch t.
    score_sizes : list of int
        Numbers in every worker's part of an evaluation.
    deadline : float, optional
        Seconds after which a device that has not answered is left out of an epoch.
    """

    def __init__(
        self,
        node: Node,
        settings: Settings,
        fingerprint: int,
        share: Callable[[int], Iterable[int]],
        score_sizes: Sequence[int],
        deadline: Optional[float] = None,
    ) -> None:
        check_rule(settings.rule, node.cluster.servers)
        self.node, self.settings, self.fingerprint = node, settings, fingerprint
        self.deadline, self._share = deadline, share
        self.epoch = 0  # committed last
        self._slots = Slots(settings)
        self._watch = Stopwatch()
        self._wire = Wire(node, settings.k)
        self._status_keys, self._model_keys = self._wire.keys(STATUS), self._wire.keys(MODEL)
        self._boxes = Boxes(self._wire, score_sizes)
        self._began: Optional[float] = None  # the epoch under way, for its deadline
        self._shown = self._started = False  # a first status; all there is

    @property
    def coordinates(self) -> bool:
        return self.node.rank == 0

    def init(self, key: str, value: mx.nd.NDArray, averaged: bool = True) -> None:
        self._slots.add(key, value, averaged)

    def start(self, epoch: int) -> None:
        """Give the servers their parts of the model; a follower takes the epoch from them."""
        self._flat, self.epoch = self._slots.take_initial(), epoch
        if self.coordinates:
            self.node.command(to_json(self._setup()))
        self._show_status(Status())
        if not self.coordinates and self._look()[0].phase == ENDED:
            raise Overtaken
        self._pieces.fill(self._flat, epoch, HELLO)
        self._wire.init(self._model_keys, self._pieces.arrays)
        self._boxes.init()
        if self.coordinates:
            hello = as_ndarray(Report(HELLO, 0).to_array(self.settings.k))
            self._wire.push(self._status_keys, [hello] * len(self._status_keys))
            self._wire.push(self._model_keys, self._pieces.arrays)
        limit = self.node.patience if self.coordinates else None
        statuses = self._wait_until(lambda seen: all(s.phase != WAITING for s in seen), limit)
        self._check_started(statuses)
        self.epoch, self._model_of, self._started = statuses[0].epoch, -1, True

    def end(self) -> None:
        """Tell the others, who may be waiting to begin, that there is nothing more to do."""
        if self._started:
            self.node.command(to_json(End()))
        elif not self._shown:
            self._show_status(Status(phase=ENDED))
        # else a server did not start: the others notice when this worker is gone

    def await_end(self) -> None:
        """Wait until the coordinator has nothing more to do."""
        self._wait_until(lambda seen: seen[0].phase == ENDED)

    def await_epoch(self) -> Optional[int]:
        """The epoch that is under way; None once there are no more."""
        status = self._look()[0]
        self.epoch = status.epoch
        self._slots.clear()
        return None if status.phase == ENDED else status.epoch + 1

    # ---- Algorithm 1

    def begin(self, t: int) -> Iterator[int]:
        """The slots this worker trains, as long as the deadline has not passed."""
        self._watch.reset()
        if self.coordinates and self.deadline is not None:
            self._began = time.monotonic()
            self.node.command(to_json(Begin(t)))
        for slot in self._share(t):
            if self._is_too_late():
                return
            yield slot

    def pull(self, key: str, out: mx.nd.NDArray) -> None:
        self._slots.check_key(key)
        self._watch.switch("transfer")
        self._ensure_model()
        self._parts[key].copyto(out)
        self._watch.switch("training")

    def push(self, key: str, value: mx.nd.NDArray, slot: int) -> None:
        """Hand in a parameter; with the last one of a slot its model goes out."""
        self._watch.switch("transfer")
        self._slots.check_push(key, value.shape, slot)
        value.copyto(self._outgoing_parts[key])
        if self._slots.note(key, slot):
            mx.nd.waitall()
            self._pieces.fill(self._outgoing, self.epoch + 1, slot)
            self._wire.push(self._model_keys, self._pieces.arrays)
        self._watch.switch("training")

    def update(self, alpha: float) -> Update:
        check_alpha(alpha)
        self._watch.switch("")
        update = self._commit(alpha) if self.coordinates else self._follow()
        self.epoch += 1
        self._slots.clear()
        self._began = None
        return update

    def values(self) -> Dict[str, np.ndarray]:
        self._ensure_model()
        layout = self._slots.layout
        return {key: layout.view(self._flat, key).copy() for key in layout.places}

    def is_finite(self) -> bool:
        self._ensure_model()
        return all_finite(self._flat)

    # ---- an evaluation

    def evaluate(self, task: Task) -> Dict[str, float]:
        """Every worker scores its part; who is too late is not waited for."""
        workers = self.node.cluster.workers
        scores = [task.score(0, workers)]
        for rank in range(1, workers):
            score = None
            if rank in self._boxes:
                score = self._boxes.fetch(rank, self.epoch, self.deadline)
            scores.append(task.score(rank, workers) if score is None else score)
        return task.metrics(scores)

    def help_evaluate(self, task: Task) -> None:
        """A follower's part in the evaluation of the model after ``epoch``."""
        rank = self.node.rank
        if rank in self._boxes:
            pull(task, self)
            score = task.score(rank, self.node.cluster.workers)
            self._boxes.hand_in(rank, self.epoch, score)

    # ---- an epoch's end

    def _commit(self, alpha: float) -> Update:
        """Wait for everybody, then have what came aggregated."""
        others = self.node.cluster.workers - 1
        statuses = self._wait_until(lambda seen: seen[0].done >= others, self._time_left())
        if statuses[0].done < others:
            say(f"epoch {self.epoch + 1}: not everybody has answered by the deadline")
        states = np.array([status.states for status in statuses])  # (servers, k)
        came = np.isin(states, (FINITE, NOT_FINITE)).all(axis=0)
        finite = {int(s): bool((states[:, s] == FINITE).all()) for s in np.flatnonzero(came)}
        update = self.settings.judge(finite)
        commit = Commit(self.epoch + 1, alpha, update.accepted, update.refused, update.applied)
        self.node.command(to_json(commit))
        after = self._look()
        if any(status.epoch != self.epoch + 1 for status in after):
            raise RunError("a server did not commit the epoch: its log says why")
        seconds, sent = self._watch.take(), self._wire.take_sent()
        return dataclasses.replace(
            update,
            costs=Costs(
                seconds.get("training", 0.0) + statuses[0].training,
                seconds.get("transfer", 0.0) + statuses[0].transfer,
                max(status.aggregation for status in after),
                sent + int(statuses[0].sent),
            ),
        )

    def _follow(self) -> Update:
        """Say that everything is pushed, and wait for the commit."""
        seconds, sent = self._watch.take(), self._wire.take_sent()
        costs = (seconds.get("training", 0.0), seconds.get("transfer", 0.0), float(sent))
        report = Report(self.node.rank, self.epoch + 1, *costs)
        self._wire.push(self._status_keys[:1], [as_ndarray(report.to_array(self.settings.k))])
        epoch = self.epoch + 1
        statuses = self._wait_until(
            lambda seen: seen[0].phase == ENDED or all(s.epoch >= epoch for s in seen)
        )
        if statuses[0].phase == ENDED or statuses[0].epoch != epoch:
            raise Overtaken
        outcomes = {int(s): o == FINITE for s, o in enumerate(statuses[0].outcomes) if o}
        accepted = tuple(slot for slot, fine in outcomes.items() if fine)
        refused = tuple(slot for slot, fine in outcomes.items() if not fine)
        missing = tuple(slot for slot in range(self.settings.k) if slot not in outcomes)
        return Update(accepted, refused, missing, bool(statuses[0].applied))

    def _is_too_late(self) -> bool:
        """Whether the deadline has passed; a follower hears from the servers that it has."""
        if self.deadline is not None and not self.coordinates:
            status = self._look()[0]
            if status.phase == ENDED or status.epoch != self.epoch:
                raise Overtaken
        return self._time_left() == 0.0

    def _time_left(self) -> Optional[float]:
        if self.deadline is None or self._began is None:
            return None
        return max(0.0, self._began + self.deadline - time.monotonic())

    # ---- messages

    def _setup(self) -> Configure:
        layout, cluster = self._slots.layout, self.node.cluster
        return Configure(
            self.settings,
            cluster.workers,
            cluster.servers,
            layout.size,
            layout.plain,
            self.epoch,
            self.fingerprint,
            self.deadline,
        )

    def _show_status(self, status: Status) -> None:
        """The first status there is."""
        self._shown = True
        status.states, status.outcomes = np.zeros(self.settings.k), np.zeros(self.settings.k)
        array = as_ndarray(status.to_array())
        self._wire.init(self._status_keys, [array] * len(self._status_keys))

    def _check_started(self, statuses: List[Status]) -> None:
        if any(status.phase != RUNNING for status in statuses):
            if self.coordinates:
                raise RunError("a server did not take its part of the model: its log says why")
            raise Overtaken
        if statuses[0].fingerprint != self.fingerprint:
            raise ConfigError(
                "this worker is not about to compute what worker 0 does: configuration, data, "
                "threads and versions of all workers have to be equal (the logs name them)"
            )

    def _ensure_model(self) -> None:
        """Pull the model after ``epoch``, once."""
        if self._model_of == self.epoch:
            return
        mx.nd.waitall()  # the last copy out of the flat model
        self._wire.pull(self._model_keys, self._pieces.arrays)
        if not self._pieces.take_out(self._flat, self.epoch):
            raise Overtaken
        self._model_of = self.epoch

    def _look(self) -> List[Status]:
        """How far every server is."""
        return self._wire.look(self._status_keys)

    def _wait_until(
        self, condition: Callable[[List[Status]], bool], limit: Optional[float] = None
    ) -> List[Status]:
        """Look until a condition holds, or for so long; return what was seen last."""
        seen: List[Status] = []

        def holds() -> bool:
            seen[:] = self._look()
            return condition(seen)

        ask_until(holds, limit)
        return seen

    # ---- memory

    @functools.cached_property
    def _pieces(self) -> Pieces:
        return Pieces(stretches(self._slots.layout.size, self.node.cluster.servers))

    @functools.cached_property
    def _outgoing(self) -> np.ndarray:
        return np.zeros(self._slots.layout.size, np.float32)

    @functools.cached_property
    def _outgoing_parts(self) -> Dict[str, mx.nd.NDArray]:
        return look_into(self._outgoing, self._slots.layout)

    @functools.cached_property
    def _parts(self) -> Dict[str, mx.nd.NDArray]:
        return look_into(self._flat, self._slots.layout)
