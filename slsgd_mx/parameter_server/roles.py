"""What the scheduler, a server and a worker do, however they are started."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Any, Iterator, List, Optional, Sequence

from slsgd_mx.config import RunConfig
from slsgd_mx.core.algorithm import init_server, local_iterations, run_epoch, select_devices
from slsgd_mx.core.server import settings_of
from slsgd_mx.core.task import Task
from slsgd_mx.errors import LostError, SlsgdError
from slsgd_mx.parameter_server.client import Overtaken, ParameterServerClient
from slsgd_mx.parameter_server.node import Cluster, Node, check_workers, say
from slsgd_mx.parameter_server.protocol import check_divisible, shard_ranges
from slsgd_mx.parameter_server.secret import Secret
from slsgd_mx.parameter_server.shard_server import ShardServer
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.manifest import describe
from slsgd_mx.runs.trainer import Listener, RunResult, run
from slsgd_mx.system import signals
from slsgd_mx.system.arrays import as_numpy
from slsgd_mx.system.slot_memory import slot_limit
from slsgd_mx.tasks.build import build_task

EQUAL = ("threads", "mxnet", "numpy", "slsgd_mx", "data_sha256")  # on all workers


def run_scheduler(cluster: Cluster, patience: float) -> None:
    """Connect the nodes, and watch for lost ones."""
    with Node(cluster, "scheduler", patience) as node:
        node.serve(lambda body: None, lambda key, pushed, stored: None)


def run_server(cluster: Cluster, patience: float, slot_folder: Optional[Path] = None) -> None:
    """Hold a shard of the model until the workers are done; ``slot_folder``: see ShardServer."""
    slot_limit()  # raises if it is illegal
    server = ShardServer(Secret.from_environment(os.environ), say, slot_folder=slot_folder)

    def update(key: int, pushed: Any, stored: Any) -> None:
        memory = as_numpy(stored)
        memory.flags.writeable = True
        server.push(int(key), as_numpy(pushed), memory)

    with Node(cluster, "server", patience) as node:
        node.serve(server.command, update)


def run_worker(
    config: RunConfig,
    out: Path,
    data_dir: Optional[Path],
    cluster: Cluster,
    patience: float,
    listener: Optional[Listener] = None,
    prefix: Optional[Path] = None,
) -> Optional[RunResult]:
    """Train this worker's share of every epoch; return the result on worker 0, else None."""
    check_divisible(settings_of(config), cluster.servers)
    check_workers(cluster.workers, config.k)
    folder = RunFolder(out, config)
    secret = Secret.from_environment(os.environ)
    node = Node(cluster, "worker", patience, secret)
    task = build_task(config, data_dir)
    shard_ranges(sum(v.size for v in task.values.values()), cluster.servers)  # raises if illegal
    with _losses_of(node), node:
        server = ParameterServerClient(
            node,
            settings_of(config),
            secret.mix(fingerprint(config, task)),
            lambda t: share_slots(t, config, task, cluster.workers),
            task.score_sizes(cluster.workers),
            config.deadline,
        )
        say(f"worker {node.rank} of {cluster.workers}")
        if server.is_coordinator:
            return _coordinate(config, task, server, folder, listener, prefix)
        return _follow(config, task, server)


@contextlib.contextmanager
def _losses_of(node: Node) -> Iterator[None]:
    """Turn the interrupt of a node that lost another one into a LostError."""
    try:
        yield
    except (KeyboardInterrupt, LostError):
        if not node.lost:
            raise
        signals.ignore(signal.SIGTERM)  # the node's own must not end this process with another code
        raise LostError(f"{node.lost}: start all roles again to resume") from None


def fingerprint(config: RunConfig, task: Task) -> int:
    """48 bits of a hash of everything that determines the numbers, which is also logged."""
    session = describe(0, task.data_digest)
    text = json.dumps({"configuration": config.identity, **{name: session[name] for name in EQUAL}})
    say(f"computes {text}")
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)


def _coordinate(
    config: RunConfig,
    task: Task,
    server: ParameterServerClient,
    folder: RunFolder,
    listener: Optional[Listener],
    prefix: Optional[Path],
) -> RunResult:
    """Train as worker 0, which owns the run folder, commits epochs and ends the run for all."""
    cluster = server.node.cluster
    engine = {"engine": "ps", "workers": cluster.workers, "servers": cluster.servers}
    try:
        if folder.finished():
            folder.check_data(task.data_digest)
            folder.complete()
            result = RunResult(folder.path, folder.rows(), resumed_from=config.epochs)
        else:
            with folder:
                if prefix is not None:
                    folder.adopt(prefix)
                result = run(config, task, server, folder, listener, engine=engine)
    except LostError:
        raise
    except SlsgdError:
        server.end()
        raise
    server.end()
    return result


def _follow(config: RunConfig, task: Task, server: ParameterServerClient) -> None:
    """Train as another worker: a share of every epoch and evaluation until the run ends."""
    init_server(task, server)
    try:
        server.start(0)
    except Overtaken:
        return
    while True:
        signals.check()
        t = server.read_epoch()
        if t is None:
            return
        if t > config.epochs:  # worker 0 is still writing results
            server.await_end()
            return
        try:
            run_epoch(t, config, task, server, server.begin(t))
            if config.is_evaluated(t):
                server.help_evaluate(task)
        except Overtaken:
            say(f"the others finished epoch {t}, or the run, without this worker")


def share_slots(t: int, config: RunConfig, task: Task, workers: int) -> List[List[int]]:
    """The slots of every worker in epoch t, with about the same number of steps for each."""
    devices = select_devices(config, t)
    return balance([local_iterations(t, int(d), config, task) for d in devices], workers)


def balance(steps: Sequence[int], workers: int) -> List[List[int]]:
    """Assign slots, longest first, to the worker with the fewest steps (ties: the lower rank).

    >>> balance([5, 1, 1, 3], workers=2)
    [[0], [1, 2, 3]]
    """
    shares: List[List[int]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for slot in sorted(range(len(steps)), key=lambda slot: -steps[slot]):
        least = loads.index(min(loads))
        shares[least].append(slot)
        loads[least] += steps[slot]
    return [sorted(share) for share in shares]
