"""Jobs distributed over several child processes; independent of what the jobs compute."""

from __future__ import annotations

import selectors
import signal
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Deque, Dict, List, Optional, Sequence

from slsgd_mx.system.files import warn
from slsgd_mx.system.processes import Child, Message, how_it_ended, tail
from slsgd_mx.system.slot_memory import sharing

RETRIES = 2  # of a job whose process is killed, for example because memory ran out


@dataclass(frozen=True)
class Job:
    """One job, under a unique name, and the message that a child process is sent."""

    name: str
    message: Message
    needs: Optional[str] = None  # the job that must succeed first
    group: str = "all"  # jobs that use the same data: if it is missing, all of them fail
    precision: str = "float32"  # a process has one


@dataclass(frozen=True)
class Result:
    """How a job ended: "done", "diverged", "failed", or "skipped" because another job failed."""

    status: str
    why: str = ""
    content: Message = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status in ("done", "diverged")


Listener = Callable[[Job, Message], None]


class Pool:
    """Child processes that take one job after another; on leaving, they save and are stopped.

    Each of them has ``threads`` threads, and these environment ``variables``.
    """

    def __init__(self, processes: int, threads: int, **variables: str) -> None:
        self.processes, self.threads, self.variables = processes, threads, variables
        self.idle: List[_Child] = []
        self.busy: List[_Child] = []
        self.blocked: Dict[str, str] = {}  # group ("": all groups) -> why its jobs would fail

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exc: object) -> None:
        children = self.idle + self.busy
        for child in children:
            child.process.send_signal(signal.SIGTERM)
            child.process.send_signal(signal.SIGCONT)  # a suspended one would never end
            child.close()
        for child in children:
            child.process.wait()

    def run(self, jobs: Sequence[Job], listener: Optional[Listener] = None) -> Dict[str, Result]:
        """Do all jobs, each after the one it needs; return their results by name."""
        results: Dict[str, Result] = {}
        self.blocked, retries = {}, Counter()
        waiting: Deque[Job] = deque(jobs)
        notify = listener or (lambda job, message: None)
        while waiting or self.busy:
            self._hand_out(waiting, results, notify)
            for child in self._readable():
                for message in child.read():
                    if child not in self.busy:  # told to stop when its job had just ended
                        break
                    if message["event"] == "end":
                        self._end(child, _result(message), results, notify)
                    else:
                        notify(child.job, message)
                if not child.ended or child not in self.busy:
                    continue
                name, killed = child.job.name, child.process.wait() < 0
                if killed and retries[name] < RETRIES:  # it resumes from its last checkpoint
                    retries[name] += 1
                    warn(f"{name}: {child.why_it_died()}; it is started again")
                    waiting.appendleft(self._release(child).job)
                else:
                    self._end(child, Result("failed", child.why_it_died()), results, notify)
        return results

    def _hand_out(self, waiting: Deque[Job], results: Dict[str, Result], notify: Listener) -> None:
        """Start jobs, in order, as long as a process is free; skip those that would fail."""
        unfinished = {job.name for job in waiting} | {child.job.name for child in self.busy}
        for job in list(waiting):
            needed = results.get(job.needs or "")
            why = self.blocked.get("", "") or self.blocked.get(job.group, "")
            if not why and needed is not None and not needed.ok:
                why = f"it starts after {job.needs}, which failed"
            if why:
                waiting.remove(job)
                results[job.name] = Result("skipped", why)
                notify(job, {"event": "end", "status": "skipped"})
            elif needed is None and job.needs in unfinished:
                continue
            elif len(self.busy) < self.processes:
                waiting.remove(job)
                self.busy.append(self._free_child(job.precision))
                self.busy[-1].begin(job)

    def _free_child(self, precision: str) -> _Child:
        """An idle process that is still alive and has that precision, or a new one."""
        while self.idle:
            child = self.idle.pop()
            free = child.process.poll() is None and not child.has_reported()  # else it was stopped
            if free and child.job.precision == precision:
                return child
            child.close()  # its input ends, so it exits
            child.process.wait()
        return _Child(self.threads, **sharing(self.processes), **self.variables)

    def _readable(self) -> List[_Child]:
        """Wait up to half a second for busy processes that have reported something or ended."""
        with selectors.DefaultSelector() as selector:
            for child in self.busy:
                selector.register(child.pipe, selectors.EVENT_READ, child)
            return [key.data for key, _ in selector.select(timeout=0.5)]

    def _release(self, child: _Child) -> _Child:
        """Take a process off its job."""
        self.busy.remove(child)
        if child.ended:
            child.process.wait()
            child.close()
        else:
            self.idle.append(child)
        return child

    def _end(
        self, child: _Child, result: Result, results: Dict[str, Result], notify: Listener
    ) -> None:
        self._release(child)
        results[child.job.name] = result
        if result.content.get("kind") == "DiskError":
            self.blocked[""] = result.why
        elif result.content.get("kind") == "DataError":
            self.blocked[child.job.group] = result.why
        notify(child.job, {"event": "end", "status": result.status})


def _result(message: Message) -> Result:
    if message["status"] == "interrupted":
        return Result("failed", "its process was told to stop; what it had computed is saved")
    return Result(message["status"], message.get("why", ""), message)


class _Child(Child):
    """A child process and the job it does or did last."""

    job: Job

    def begin(self, job: Job) -> None:
        self.job = job
        self.send(job.message)

    def why_it_died(self) -> str:
        how = how_it_ended(self.process.wait())
        log = self.job.message.get("log")
        end = tail(Path(log)) if log else ""
        return f"its process {how}" + (f"; {log} ends with:\n{end}" if end else "")
