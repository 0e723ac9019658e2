"""Compute the runs that are missing from the tables, in several processes.

A table is rewritten whenever some of its runs are done, so an interrupt loses little.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import RunError
from slsgd_mx.sweeps import pool
from slsgd_mx.system import signals
from slsgd_mx.system.processes import Message, Report
from slsgd_mx.theory.cases import Case
from slsgd_mx.theory.tables import Row, read_rows, write_rows

CHUNK = 4  # seeds of one job

Listener = Callable[[int], None]  # called with the number of epochs done since the last call


class CaseSeeds(NamedTuple):
    """Some seeds of a case, which one job measures."""

    case: Case
    seeds: Tuple[int, ...]

    @property
    def epochs(self) -> int:
        return len(self.seeds) * self.case.config.epochs


def missing_jobs(folder: Path, cases: Sequence[Case], seeds: int) -> List[CaseSeeds]:
    """The jobs that complete seeds 0, 1, ... of every case; the longest first."""
    jobs = []
    for case in cases:
        stored = read_rows(folder, case)
        left = [seed for seed in range(seeds * case.times) if seed not in stored]
        jobs += [CaseSeeds(case, tuple(left[i : i + CHUNK])) for i in range(0, len(left), CHUNK)]
    return sorted(jobs, key=lambda job: -job.epochs * job.case.config.k)


def compute(
    folder: Path, jobs: Sequence[CaseSeeds], processes: int, listener: Optional[Listener] = None
) -> None:
    """Do the jobs; an interrupt keeps those that are done."""
    messages = {f"{job.case.name} {job.seeds[0]}": _to_message(job) for job in jobs}
    by_name = dict(zip(messages, jobs))

    def store(name: str, rows: Dict[int, List[Row]]) -> None:
        job = by_name[name]
        write_rows(folder, job.case, {**read_rows(folder, job.case), **rows})
        if listener is not None:
            listener(job.epochs)

    if processes > 1 and len(jobs) > 1:
        _compute_in_children(messages, min(processes, len(jobs)), store)
    else:
        for name, message in messages.items():
            measure_case(message, lambda event, rows, name=name: store(name, rows))


def _compute_in_children(messages: Dict[str, Message], processes: int, store: Callable) -> None:
    def listen(job: pool.Job, message: Message) -> None:
        signals.check()
        if message["event"] == "rows":
            rows = {int(seed): [Row(*r) for r in found] for seed, found in message["rows"].items()}
            store(job.name, rows)

    # For arrays this small MXNet's own threads cost a third of the time, more on a busy machine,
    # and without them the numbers are the same.
    engine = os.environ.get("MXNET_ENGINE_TYPE", "NaiveEngine")
    with pool.Pool(processes, threads=1, MXNET_ENGINE_TYPE=engine) as children:
        results = children.run([pool.Job(*item) for item in messages.items()], listen)
    for name, result in results.items():
        if not result.ok:
            raise RunError(f"{name} failed: {result.why}")


def _to_message(job: CaseSeeds) -> Message:
    case = {**job.case.__dict__, "config": job.case.config.to_json()}
    return {"do": "slsgd_mx.theory.compute:measure_case", "case": case, "seeds": job.seeds}


def measure_case(job: Message, report: Report) -> None:
    """Measure some seeds of a case; the job of a child process."""
    from slsgd_mx.theory.measure import measure

    case = Case(**{**job["case"], "config": RunConfig.from_json(job["case"]["config"])})
    report(event="rows", rows={seed: measure(case, seed) for seed in job["seeds"]})
