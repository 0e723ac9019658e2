"""Start all roles on one machine, watch them, and restart them if one is lost.

If any role is lost, all are ended and restarted from the last checkpoint.  The numbers of an epoch
depend only on the model before it, so a restart does not change the results.  A role that dies is
noticed at once; one that is suspended or cut off is noticed within the patience, because its
heartbeats are missing and the others exit.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import socket
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Union

from slsgd_mx import errors
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import DivergedError, LostError, SlsgdError
from slsgd_mx.parameter_server import PATIENCE, RESTARTS, SEE_LOG
from slsgd_mx.parameter_server.losses import Losses, MalformedError
from slsgd_mx.parameter_server.node import Cluster, check_patience, check_workers, say
from slsgd_mx.parameter_server.secret import VARIABLE, new_secret
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.system.files import disk_errors, open_log
from slsgd_mx.system.precision import check_precision
from slsgd_mx.system.processes import Child, Message, Report, how_it_ended, is_stopped, tail
from slsgd_mx.system.slot_memory import sharing, slot_limit
from slsgd_mx.system.threads import thread_count
from slsgd_mx.tasks.devices import check_batch
from slsgd_mx.validation import require_whole

SAVING = 20.0  # seconds that worker 0 has to save, and the others to exit
COMPLAINT = re.compile("ignored: |failed: |Error")  # in the log of a server
FAILED_CHECK = "'dmlc::Error'"  # in the log of a role that one of MXNet's own checks aborted


@dataclass(frozen=True)
class Options:
    """How to run on a parameter server; no option changes the results."""

    workers: int = 2
    servers: int = 1
    patience: float = PATIENCE
    restarts: int = RESTARTS

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
    """Run Algorithm 1 to the end in several processes; bit for bit as ``slsgd_mx.train`` does.

    Raises
    ------
    LostError
        If processes were lost more often than ``options.restarts`` allows.  ``Losses`` counts.
    """
    from slsgd_mx.core.server import settings_of
    from slsgd_mx.parameter_server.protocol import check_divisible
    from slsgd_mx.runs.status import is_finished
    from slsgd_mx.runs.trainer import RunResult

    options = options or Options()
    check_divisible(settings_of(config), options.servers)
    check_workers(options.workers, config.k)
    slot_limit()  # raises if it is illegal
    folder = RunFolder(Path(out), config)
    data_dir, prefix = (p if p is None else Path(p) for p in (data_dir, prefix))
    job = {
        "config": config.to_json(),
        "folder": str(out),
        "data_dir": data_dir and str(data_dir),
        "prefix": prefix and str(prefix),
    }
    progress, losses = _Progress(config, listener), Losses(options.restarts, folder.path)
    while True:
        if is_finished(folder, data_dir):
            losses.report()
            folder.complete()
            start = config.epochs if progress.start is None else progress.start
            return RunResult(folder.path, folder.rows(), resumed_from=start)
        check_batch(config)
        check_precision(config.precision)
        folder.check_free()
        began = time.monotonic()
        with _Roles(folder.path, job, options) as roles:
            try:
                roles.watch(progress)
                continue
            except LostError as error:
                lost, seconds = error, time.monotonic() - began
        if folder.finished():  # the process was lost after its work was done
            continue
        time.sleep(losses.add(lost, progress.epoch, seconds))


class _Progress:
    """Notify the listener of every epoch once, in order, even if a restart repeats some."""

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

    def __init__(self, folder: Path, job: Message, options: Options) -> None:
        self.logs, self.job, self.options = folder / "logs", job, options
        self.children: Dict[str, Child] = {}
        self.coordinator = ""  # the name of worker 0, once it has reported
        self._log_starts: Dict[str, int] = {}  # bytes that earlier attempts wrote to each log
        self._ended: Dict[str, float] = {}  # when a process was first seen to have ended

    def __enter__(self) -> _Roles:
        options = self.options
        self.port = find_port()
        cluster = Cluster(options.workers, options.servers, "127.0.0.1", self.port)
        self._secret = new_secret()
        names = ["scheduler", *(f"server-{number}" for number in range(options.servers))]
        names += [f"worker-{number}" for number in range(options.workers)]
        try:
            with disk_errors(self.logs):
                self.logs.mkdir(parents=True, exist_ok=True)
                for name in names:
                    self._start(name, cluster)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, name: str, cluster: Cluster) -> None:
        role = name.split("-")[0]
        with open_log(self.logs / f"{name}.log") as log:
            self._log_starts[name] = log.seek(0, os.SEEK_END)
            threads = thread_count() if role == "worker" else 1
            memory = sharing(cluster.servers) if role == "server" else {}
            child = Child(threads, log, signal.SIGKILL, **{VARIABLE: self._secret, **memory})
        self.children[name] = child
        own = {"role": role, "cluster": asdict(cluster), "patience": self.options.patience}
        job = {"do": "slsgd_mx.parameter_server.launcher:play_role", **own, **self.job}
        child.send(job, last=True)

    def __exit__(self, *exc: object) -> None:
        """Let worker 0 save, then end all processes."""
        for name, child in self.children.items():
            if name.startswith("worker"):
                with contextlib.suppress(OSError):
                    child.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.coordinator and not is_stopped(self.children[self.coordinator].process.pid):
                self.children[self.coordinator].process.wait(SAVING)
        for child in self.children.values():
            child.process.kill()
            child.process.wait()
            child.close()

    def watch(self, progress: _Progress) -> None:
        """Return when the run has ended; raise its error, or a LostError if a process was lost."""
        with selectors.DefaultSelector() as selector:
            for name, child in self.children.items():
                selector.register(child.pipe, selectors.EVENT_READ, name)
            while True:
                for key, _ in selector.select(timeout=0.2):
                    child = self.children[key.data]
                    for message in child.read():
                        if self._hear(key.data, message, progress):
                            return self._await_exits()
                    if child.ended:
                        selector.unregister(key.fileobj)
                self._check_alive()

    def _hear(self, name: str, message: Message, progress: _Progress) -> bool:
        """Whether the run has ended with this report.

        The error of a worker ends the run.  An unexpected error, a lost role, and anything that
        happens to a scheduler or a server make the process exit, and ``_check_alive`` restarts all.
        """
        if message["event"] != "end":
            self.coordinator = name
            progress.hear(message)
        elif message["status"] == "diverged":
            raise DivergedError(message["why"])
        elif name.startswith("worker") and message.get("kind", "") not in ("", "LostError"):
            raise getattr(errors, message["kind"])(self._with_logs(message["why"]))
        return message.get("finished", False)

    def _with_logs(self, why: str) -> str:
        """The error of a worker; if a server's log explains it, with the end of that log."""
        if not why.endswith(SEE_LOG):
            return why
        names = sorted(path.stem for path in self.logs.glob("server-*.log"))
        ends = [line for name in names for line in self._tail(name, 3).splitlines()]
        complaints = [line for line in ends if COMPLAINT.search(line)]
        return f"{why} ({self.logs})" + (f": {complaints[-1]}" if complaints else "")

    def _tail(self, name: str, lines: int) -> str:
        """The last lines that this attempt wrote to the log of a role."""
        return tail(self.logs / f"{name}.log", lines, self._log_starts.get(name, 0))

    def _check_alive(self) -> None:
        for name, child in self.children.items():
            code = child.process.poll()
            if code is None or not child.ended:  # alive, or its last report has not been read
                continue
            since = self._ended.setdefault(name, time.monotonic())
            if code == 0 and time.monotonic() - since < SAVING:
                continue  # at the end the others exit shortly before worker 0 reports its end
            if code == -signal.SIGABRT and FAILED_CHECK in self._tail(name, 200):
                raise MalformedError(f"{name} received a malformed message and aborted")
            end = "" if code == -signal.SIGKILL else self._tail(name, 1)
            raise LostError(f"{name} {how_it_ended(code)}" + (f" ({end})" if end else ""))

    def _await_exits(self) -> None:
        """The run has ended: wait for all processes to exit."""
        give_up = time.monotonic() + SAVING
        for child in self.children.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, give_up - time.monotonic()))


def find_port() -> int:
    """A port on which nothing listens; if it is taken in the meantime, a restart tries another."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def stay_on_this_machine(host: str) -> None:
    """Let ps-lite listen on one address only, whatever the user's environment says.

    Some of its variables make a role listen on all addresses, or lose messages on purpose.
    """
    for name in [name for name in os.environ if name.startswith(("DMLC_", "PS_"))]:
        del os.environ[name]
    os.environ["DMLC_NODE_HOST"] = host


def play_role(job: Message, report: Report) -> Message:
    """Be a scheduler, a server or a worker until the run ends; the job of a child process."""
    from slsgd_mx.parameter_server import roles

    cluster, patience = Cluster(**job["cluster"]), job["patience"]
    stay_on_this_machine(cluster.host)

    def listen(progress: Any) -> None:
        event = "epoch" if progress.seconds else "start"
        numbers = {name: getattr(progress, name) for name in ("seconds", "units", "metrics")}
        report(event=event, epoch=progress.epoch, **numbers)

    try:
        if job["role"] == "worker":
            config, out = RunConfig.from_json(job["config"]), Path(job["folder"])
            data_dir, prefix = (job[name] and Path(job[name]) for name in ("data_dir", "prefix"))
            result = roles.run_worker(config, out, data_dir, cluster, patience, listen, prefix)
            return {"finished": result is not None}  # worker 0's end is that of the run
        if job["role"] == "server":
            roles.run_server(cluster, patience, Path(job["folder"]))
        else:
            roles.run_scheduler(cluster, patience)
        return {}
    except SlsgdError as error:
        say(str(error))  # the launcher quotes the last line of the log
        raise
    except KeyboardInterrupt:
        say("told to stop")
        raise
