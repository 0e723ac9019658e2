"""Several worker processes and the jobs they do; knows nothing of what the jobs are about."""

from __future__ import annotations

import contextlib
import json
import selectors
import signal
import subprocess
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Deque, Dict, List, Optional, Sequence

from slsgd_mx.system.processes import Message, Reader, environment, how_it_ended, tail


@dataclass(frozen=True)
class Job:
    """One job of a worker, by a name of its own."""

    name: str
    message: Message
    needs: Optional[str] = None  # the job that has to end well before
    group: str = "all"  # those that fail together where an error is "fatal", as missing data is


@dataclass(frozen=True)
class Result:
    """How a job ended: "done", "diverged", "failed", or "skipped" for want of another."""

    status: str
    why: str = ""
    content: Message = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status in ("done", "diverged")


Listener = Callable[[Job, Message], None]


class Pool:
    """Worker processes with their share of the threads; leaving it lets them save and stop them.

    Parameters
    ----------
    processes, threads : int
        How many, and the threads of each.
    """

    def __init__(self, processes: int, threads: int) -> None:
        self.processes, self.threads = processes, threads
        self.idle: List[_Worker] = []
        self.busy: List[_Worker] = []
        self.hopeless: Dict[str, str] = {}  # group ("": every one) -> why it cannot be done

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exc: object) -> None:
        workers = self.idle + self.busy
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.process.wait()
            worker.process.stdout.close()

    def run(self, jobs: Sequence[Job], listener: Optional[Listener] = None) -> Dict[str, Result]:
        """Do all jobs, each after the one it needs; return how each ended, by name."""
        results: Dict[str, Result] = {}
        self.hopeless = {}
        waiting: Deque[Job] = deque(jobs)
        notify = listener or (lambda job, message: None)
        while waiting or self.busy:
            self._hand_out(waiting, results, notify)
            for worker in self._heard():
                for message in worker.read():
                    if message["event"] == "end":
                        self._end(worker, _result(message), results, notify)
                    else:
                        notify(worker.job, message)
                if worker.gone and worker in self.busy:
                    self._end(worker, Result("failed", worker.last_words()), results, notify)
        return results

    def _hand_out(self, waiting: Deque[Job], results: Dict[str, Result], notify: Listener) -> None:
        """Give every free place the first job that can begin."""
        running = {worker.job.name for worker in self.busy}
        for job in list(waiting):
            needed = results.get(job.needs) if job.needs else None
            why = self.hopeless.get("", "") or self.hopeless.get(job.group, "")
            if not why and needed is not None and not needed.ok:
                why = f"it begins after {job.needs}, which failed"
            if why:
                waiting.remove(job)
                results[job.name] = Result("skipped", why)
                notify(job, {"event": "end", "status": "skipped"})
            elif job.needs and needed is None and (job.needs in running or _in(waiting, job.needs)):
                continue
            elif len(self.busy) < self.processes:
                waiting.remove(job)
                running.add(job.name)
                self.busy.append(self._free_worker())
                self.busy[-1].begin(job)

    def _free_worker(self) -> _Worker:
        """An idle process that is still there, or a new one."""
        while self.idle:
            worker = self.idle.pop()
            if worker.process.poll() is None:
                return worker
        return _Worker(self.threads)

    def _heard(self) -> List[_Worker]:
        """Wait, but not for long, until a busy worker has said something or is gone."""
        with selectors.DefaultSelector() as selector:
            for worker in self.busy:
                selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            return [key.data for key, _ in selector.select(timeout=0.5)]

    def _end(
        self, worker: _Worker, result: Result, results: Dict[str, Result], notify: Listener
    ) -> None:
        self.busy.remove(worker)
        if worker.gone:
            worker.process.wait()
        else:
            self.idle.append(worker)
        results[worker.job.name] = result
        if result.content.get("fatal"):
            everywhere = result.content["fatal"] == "all"
            self.hopeless["" if everywhere else worker.job.group] = result.why
        notify(worker.job, {"event": "end", "status": result.status})


def _in(waiting: Deque[Job], name: str) -> bool:
    return any(job.name == name for job in waiting)


def _result(message: Message) -> Result:
    if message["status"] == "interrupted":
        return Result("failed", "its process was told to stop; what it had computed is saved")
    return Result(message["status"], message.get("why", ""), message)


class _Worker:
    """One process of ``slsgd_mx.sweeps.job``, in a session of its own, out of reach of Ctrl-C."""

    def __init__(self, threads: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "slsgd_mx.sweeps.job"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(threads),
            start_new_session=True,
        )
        self.job: Job
        self.gone = False
        self._reader = Reader(self.process)

    def begin(self, job: Job) -> None:
        self.job = job
        with contextlib.suppress(BrokenPipeError):  # it died while idle: reading will tell
            self.process.stdin.write((json.dumps(job.message) + "\n").encode())
            self.process.stdin.flush()

    def read(self) -> List[Message]:
        """What it has said since; notes if it is gone."""
        messages = self._reader.read()
        self.gone = self._reader.ended or any(m.get("status") == "interrupted" for m in messages)
        return messages

    def last_words(self) -> str:
        """Why a process that is gone may have died."""
        how = how_it_ended(self.process.wait())
        log = self.job.message.get("log")
        end = tail(Path(log)) if log else ""
        return f"its process {how}" + (f"; {log} ends with:\n{end}" if end else "")

    def stop(self) -> None:
        """Ask it to save and end."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
