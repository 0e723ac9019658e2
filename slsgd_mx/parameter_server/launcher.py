"""All roles on one machine: started, watched, ended together and started again.

Whatever happens to one of them, all are ended and started anew from the last checkpoint: the
numbers of an epoch depend on the model before it and on nothing else, so nobody can tell from the
results.  A role that dies is seen at once; one that is stopped or cut off within the patience, for
then its heartbeats are missed and others leave.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Union

from slsgd_mx import errors
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import DivergedError, LostError, RunError
from slsgd_mx.parameter_server.node import Cluster, check_patience
from slsgd_mx.runs.folder import RunStore
from slsgd_mx.system.files import disk_errors, warn
from slsgd_mx.system.processes import Message, Reader, environment, how_it_ended, is_stopped, tail
from slsgd_mx.system.threads import thread_count
from slsgd_mx.validation import require_whole

SAVING = 20.0  # seconds the coordinator gets to save, and the others to leave


@dataclass(frozen=True)
class Options:
    """How to run on a parameter server; none of it changes a number."""

    workers: int = 2
    servers: int = 1
    patience: float = 30.0  # seconds
    restarts: int = 3  # in a row, without an epoch more than ever before

    def __post_init__(self) -> None:
        require_whole(self, workers=1, servers=1, restarts=0)
        check_patience(self.patience)


def launch(
    config: RunConfig,
    out: Union[str, Path],
    data_dir: Optional[Union[str, Path]] = None,
    listener: Optional[Callable] = None,
    prefix: Optional[Union[str, Path]] = None,
    options: Optional[Options] = None,
):
    """Run Algorithm 1 to the end in several processes; as ``slsgd_mx.train``, to the bit.

    Raises
    ------
    LostError
        If processes got lost again and again.
    """
    from slsgd_mx.parameter_server.protocol import check_rule
    from slsgd_mx.runs.trainer import RunResult

    options = options or Options()
    check_rule(config.rule, options.servers)
    store = RunStore(Path(out), config)
    job = {
        "config": config.to_json(),
        "folder": str(out),
        "data_dir": None if data_dir is None else str(data_dir),
        "prefix": None if prefix is None else str(prefix),
    }
    progress = _Progress(config, listener)
    failures, furthest = 0, -1
    while True:
        if store.finished():
            resumed = config.epochs if progress.start is None else progress.start
            return RunResult(store.folder, store.rows(), resumed_from=resumed)
        store.check_free()
        with _Roles(store.folder, job, options) as roles:
            try:
                roles.watch(progress)
                continue
            except LostError as error:
                why = str(error)
        if store.finished():  # it was on its way out
            continue
        failures = 1 if progress.epoch > furthest else failures + 1
        furthest = max(furthest, progress.epoch)
        if failures > options.restarts:
            raise LostError(
                f"{why}. That was after {options.restarts} restart(s) without getting further "
                f"than epoch {max(0, furthest)}; the logs are in {store.folder / 'logs'}. What was "
                "saved is kept, and the same command goes on from there"
            )
        warn(f"{why}: all start again from the last checkpoint")


class _Progress:
    """Tells the listener of every epoch once, in order, whatever is computed again."""

    def __init__(self, config: RunConfig, listener: Optional[Callable]) -> None:
        self.config, self.listener = config, listener or (lambda progress: None)
        self.start: Optional[int] = None
        self.epoch = -1

    def hear(self, message: Message) -> None:
        from slsgd_mx.runs.trainer import Progress

        if self.start is None:
            self.start = message["epoch"]
        if message["epoch"] > self.epoch:
            self.epoch = message["epoch"]
            numbers = {name: message[name] for name in ("seconds", "units", "metrics")}
            self.listener(Progress(self.epoch, self.config, **numbers))


class _Roles:
    """The processes of one attempt; none of them outlives the ``with`` block."""

    def __init__(self, folder: Path, job: Dict[str, Any], options: Options) -> None:
        self.logs, self.job, self.options = folder / "logs", job, options
        self.processes: Dict[str, subprocess.Popen] = {}
        self.readers: List[Reader] = []
        self.coordinator: Optional[subprocess.Popen] = None
        self._files = contextlib.ExitStack()
        self._left: Dict[str, float] = {}  # since when a process is no more

    def __enter__(self) -> _Roles:
        options = self.options
        self.port = find_port()
        cluster = Cluster(options.workers, options.servers, "127.0.0.1", self.port)
        names = ["scheduler"]
        names += [f"server-{number}" for number in range(options.servers)]
        names += [f"worker-{number}" for number in range(options.workers)]
        try:
            with disk_errors(self.logs):
                self.logs.mkdir(parents=True, exist_ok=True)
                for name in names:
                    self._start(name, name.split("-")[0], cluster)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        """Let worker 0 save, then end everybody."""
        for name, process in self.processes.items():
            if name.startswith("worker"):
                with contextlib.suppress(OSError):
                    process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.coordinator is not None and not is_stopped(self.coordinator.pid):
                self.coordinator.wait(SAVING)
        for process in self.processes.values():
            process.kill()
            process.wait()
        with contextlib.suppress(OSError):  # a pipe whose other end is gone
            self._files.close()

    def watch(self, progress: _Progress) -> None:
        """Return when the run has ended; raise its error, or a LostError if a process got lost."""
        with selectors.DefaultSelector() as selector:
            for reader in self.readers:
                selector.register(reader.process.stdout, selectors.EVENT_READ, reader)
            while True:
                for key, _ in selector.select(timeout=0.2):
                    reader = key.data
                    for message in reader.read():
                        if self._hear(reader, message, progress):
                            self._let_go()
                            return
                    if reader.ended:
                        selector.unregister(key.fileobj)
                self._check_alive()

    def _hear(self, reader: Reader, message: Message, progress: _Progress) -> bool:
        """Whether the run is over with this message."""
        if message["event"] != "end":
            self.coordinator = reader.process
            progress.hear(message)
            return False
        if message["status"] == "failed":
            raise getattr(errors, message["kind"], RunError)(message["why"])
        if message["status"] == "diverged":
            raise DivergedError(message["why"])
        return message["status"] == "done"

    def _check_alive(self) -> None:
        for name, process in self.processes.items():
            code = process.poll()
            if code is None:
                continue
            since = self._left.setdefault(name, time.monotonic())
            if code == 0 and time.monotonic() - since < SAVING:
                continue  # at the end others leave a little before worker 0 says that it is done
            end = "" if code == -signal.SIGKILL else tail(self.logs / f"{name}.log", 1)
            raise LostError(f"{name} {how_it_ended(code)}" + (f" ({end})" if end else ""))

    def _let_go(self) -> None:
        """The run is done: everybody leaves by himself."""
        give_up = time.monotonic() + SAVING
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, give_up - time.monotonic()))

    def _start(self, name: str, role: str, cluster: Cluster) -> None:
        log = open(self.logs / f"{name}.log", "ab")  # noqa: SIM115  (closed with the others)
        self._files.enter_context(log)
        worker = role == "worker"
        threads = thread_count() if worker else 1
        patience = {"SLSGD_MX_PATIENCE": str(self.options.patience)}
        loopback = {"DMLC_NODE_HOST": cluster.host}
        process = subprocess.Popen(
            [sys.executable, "-m", "slsgd_mx.parameter_server.role", role, str(os.getpid())],
            stdin=subprocess.PIPE if worker else subprocess.DEVNULL,
            stdout=subprocess.PIPE if worker else log,
            stderr=log,
            env=environment(threads, **cluster.variables(role), **patience, **loopback),
            start_new_session=True,  # out of reach of Ctrl-C
        )
        self.processes[name] = process
        if worker:
            self.readers.append(Reader(process))
            for pipe in (process.stdin, process.stdout):
                self._files.enter_context(pipe)
            with contextlib.suppress(BrokenPipeError):  # it is gone: that will be noticed
                process.stdin.write((json.dumps(self.job) + "\n").encode())
                process.stdin.flush()


def find_port() -> int:
    """A port that nobody listens on; if somebody takes it before we do, another is tried."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
