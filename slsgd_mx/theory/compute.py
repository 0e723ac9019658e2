"""Compute the cases that are not there yet, on several processes, and keep each as it is done."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from slsgd_mx.theory.cases import Case
from slsgd_mx.theory.tables import Row, read_rows, write_rows

CHUNK = 4  # seeds of one job

Listener = Callable[[int], None]  # epochs done since it was last called


class Job(NamedTuple):
    case: Case
    seeds: Tuple[int, ...]

    @property
    def epochs(self) -> int:
        return len(self.seeds) * self.case.config.epochs


Done = Tuple[Job, Dict[int, List[Row]]]


def missing_jobs(folder: Path, cases: Sequence[Case], seeds: int) -> List[Job]:
    """What has to be computed for seeds 0, 1, ... of every case; the longest first."""
    jobs = []
    for case in cases:
        there = read_rows(folder, case)
        left = [seed for seed in range(seeds * case.times) if seed not in there]
        jobs += [Job(case, tuple(left[i : i + CHUNK])) for i in range(0, len(left), CHUNK)]
    return sorted(jobs, key=lambda job: -job.epochs * job.case.config.k)


def compute(
    folder: Path, jobs: Sequence[Job], processes: int, listener: Optional[Listener] = None
) -> None:
    """Do the jobs; whatever is done when this is interrupted is kept."""
    notify = listener or (lambda epochs: None)
    for job, rows in _results(jobs, processes):
        write_rows(folder, job.case, {**read_rows(folder, job.case), **rows})
        notify(job.epochs)


def _results(jobs: Sequence[Job], processes: int) -> Iterator[Done]:
    if processes <= 1 or len(jobs) <= 1:
        yield from map(do, jobs)
        return
    # spawned, not forked: MXNet's threads do not survive a fork
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(processes, len(jobs)), _prepare) as pool:  # leaving ends it
        yield from pool.imap_unordered(do, jobs)


def do(job: Job) -> Done:
    from slsgd_mx.theory.measure import measure

    return job, {seed: measure(job.case, seed) for seed in job.seeds}


def _prepare() -> None:
    """A process that computes: it leaves Ctrl-C to the first one, and has no engine of threads.

    To arrays this small MXNet's threads are a burden (a third of the time, more on a busy machine),
    and without them the numbers are the same; but it announces that, and nobody wants to read it.
    What goes wrong is raised in the first process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("MXNET_ENGINE_TYPE", "NaiveEngine")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
