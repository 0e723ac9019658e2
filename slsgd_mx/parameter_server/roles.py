"""What each node does, whoever started it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Callable, Dict, Optional

import numpy as np

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import LostError, SlsgdError
from slsgd_mx.parameter_server.node import Cluster, Node, check_patience, say
from slsgd_mx.runs.manifest import describe
from slsgd_mx.system import signals

TOLD = ("threads", "mxnet", "numpy", "slsgd_mx", "data_sha256")  # what has to be equal everywhere


def run_scheduler(cluster: Cluster, patience: float) -> None:
    """Bring the nodes together, and watch that they stay."""
    with Node(cluster, "scheduler", patience) as node:
        node.serve(lambda body: None, lambda key, pushed, stored: None)


def run_server(cluster: Cluster, patience: float) -> None:
    """Hold a part of the model until the workers are done."""
    from slsgd_mx.parameter_server.aggregator import Aggregator
    from slsgd_mx.system.arrays import as_numpy

    aggregator = Aggregator(say)

    def update(key: int, pushed: Any, stored: Any) -> None:
        aggregator.push(int(key), as_numpy(pushed), _writeable(as_numpy(stored)))

    with Node(cluster, "server", patience) as node:
        node.serve(aggregator.command, update)


def _writeable(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = True
    return array


def run_worker(
    config: RunConfig,
    out: Path,
    data_dir: Optional[Path],
    cluster: Cluster,
    patience: float,
    listener: Optional[Callable] = None,
    prefix: Optional[Path] = None,
):
    """Train this worker's share; return the run's result if this is worker 0, else None."""
    from slsgd_mx.core.server import Settings
    from slsgd_mx.parameter_server.client import DistributedServer
    from slsgd_mx.parameter_server.protocol import check_rule, stretches
    from slsgd_mx.parameter_server.shares import share_slots
    from slsgd_mx.tasks.build import build_task

    check_rule(config.rule, cluster.servers)
    check_patience(patience)
    task = build_task(config, data_dir)
    stretches(sum(value.size for value in task.values.values()), cluster.servers)  # or it is told
    with Node(cluster, "worker", patience) as node:
        server = DistributedServer(
            node,
            Settings(config.k, config.b, config.rule, config.nonfinite),
            fingerprint(config, task),
            lambda t: share_slots(t, config, task, cluster.workers)[node.rank],
            task.score_sizes(cluster.workers),
            config.deadline,
        )
        say(f"worker {node.rank} of {cluster.workers}")
        try:
            if server.coordinates:
                return _coordinate(config, task, server, out, listener, prefix)
            return _follow(config, task, server)
        except KeyboardInterrupt:
            if node.lost:
                raise LostError(f"{node.lost}: start all roles again to go on") from None
            raise


def fingerprint(config: RunConfig, task: Any) -> int:
    """48 bits of all that decides on the bits of the model, and a line of it for the log."""
    session = describe(0, task.data_digest)
    told = {"configuration": config.identity, **{name: session[name] for name in TOLD}}
    say(f"computes {json.dumps(told)}")
    return int(hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12], 16)


def _coordinate(config, task, server, out: Path, listener: Optional[Callable], prefix):
    """Hold the run folder, decide on every epoch; at the end let the others go."""
    from slsgd_mx.runs.folder import RunStore
    from slsgd_mx.runs.trainer import RunResult, run

    store = RunStore(Path(out), config)
    engine: Dict[str, Any] = {
        "engine": "ps",
        "workers": server.node.cluster.workers,
        "servers": server.node.cluster.servers,
    }
    try:
        if store.finished():
            result = RunResult(store.folder, store.rows(), resumed_from=config.epochs)
        else:
            with store:
                if prefix is not None:
                    store.adopt(Path(prefix))
                result = run(config, task, server, store, listener, engine=engine)
    except LostError:
        raise
    except SlsgdError:
        server.end()
        raise
    server.end()
    return result


def _follow(config: RunConfig, task: Any, server: Any) -> None:
    """Do one's share of every epoch and evaluation until there are no more."""
    from slsgd_mx.core.algorithm import run_epoch
    from slsgd_mx.parameter_server.client import Overtaken

    for key, value in task.values.items():
        server.init(key, value, averaged=task.averaged[key])
    try:
        server.start(0)
    except Overtaken:
        return
    while True:
        signals.check()
        t = server.await_epoch()
        if t is None:
            return
        if t > config.epochs:  # worker 0 writes it all down
            server.await_end()
            return
        try:
            run_epoch(t, config, task, server, server.begin(t))
            if config.is_evaluated(t):
                server.help_evaluate(task)
        except Overtaken:
            say(f"the others went on from epoch {t}, or ended, without this worker")
