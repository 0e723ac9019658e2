"""Print what a plan will take, and display the progress of all its runs."""

from __future__ import annotations

import contextlib
import os
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import click
from tqdm import tqdm

from slsgd_mx.config import RunConfig
from slsgd_mx.sweeps.plan import Plan, Step
from slsgd_mx.sweeps.pool import Job, Pool
from slsgd_mx.system import signals
from slsgd_mx.system.processes import Message
from slsgd_mx.system.threads import cores_to_share, thread_count

MEMORY_EACH = 1.5e9  # bytes reserved for each process; the paper's networks take 1.0 to 1.1 GB


def share_out(
    plan: Plan, jobs: Optional[int], threads: Optional[int], workers: Optional[int] = None
) -> Tuple[int, int]:
    """Return the number of processes, and of threads in each.

    Threads affect the last bits of results, so they do not depend on how many runs are left.
    Narrow networks, those of ``smoke``, get one thread: more are no faster.  With
    ``OMP_NUM_THREADS=1`` every process has one thread, and there are as many as cores.  On a
    parameter server with several workers, one run is computed at a time, and its workers share the
    threads.
    """
    total, one = cores_to_share(), thread_count() == 1
    processes = jobs or max(1, int(min(total / (threads or 1), _memory() / MEMORY_EACH)))
    if workers is not None:
        processes, total = jobs or 1, max(1, total // workers)
    narrow = any(step.config.sizes.data == "synthetic" for step in plan.steps)
    return (
        max(1, min(processes, len(plan.to_do))),
        threads or (1 if narrow or one else max(1, total // processes)),
    )


def _memory() -> float:
    """This machine's memory in bytes; unlimited if the system does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError):
        return float("inf")


def show_plan(
    plan: Plan,
    wanted: Mapping[str, Sequence[RunConfig]],
    jobs: Optional[int],
    threads: Optional[int],
    workers: Optional[int] = None,
) -> None:
    """Print the runs, their shared prefixes, the epochs left and the forecast."""
    users: Dict[RunConfig, List[str]] = {}
    for name, runs in wanted.items():
        for run in runs:
            users.setdefault(run, []).append(name)
    for step in plan.steps:
        click.echo(f"{_state(step):32} {step.config.slug}  {_used(step, users)}")
    states = [step.outcome.state for step in plan.steps if step.wanted]
    done = sum(state in ("done", "diverged") for state in states)
    prefixes = sum(not step.wanted for step in plan.steps)
    click.echo(f"runs: {len(states)}, of which {done} are finished; shared prefixes: {prefixes}")
    click.echo(
        f"epochs to compute: {plan.epochs} (without sharing between runs and figures: "
        f"{plan.epochs_unshared})"
    )
    if plan.to_do:
        _show_forecast(plan, *share_out(plan, jobs, threads, workers), workers or 1)


def _state(step: Step) -> str:
    config, state = step.config, step.outcome.state
    if not step.left:
        return state
    return f"{state}: epochs {step.start + 1} to {config.epochs}"


def _used(step: Step, users: Mapping[RunConfig, Sequence[str]]) -> str:
    if not step.wanted:
        return "(prefix of others)"
    after = "" if step.prefix is None else f", after {step.prefix.config.slug}"
    return f"({', '.join(users[step.config])}{after})"


def _show_forecast(plan: Plan, processes: int, threads: int, workers: int) -> None:
    from slsgd_mx.sweeps.forecast import calibrate, forecast

    click.echo("calibrating ...", err=True)
    with Pool(processes * workers, threads) as pool:
        expected = forecast(plan, calibrate(plan, pool), processes, workers)
    click.echo(
        f"forecast for {processes * workers} process(es) of {threads} thread(s): "
        f"{duration(expected.seconds)}, {expected.memory_bytes / 1e9:.1f} GB of memory, "
        f"{expected.disk_bytes / 1e9:.2f} GB of disk"
    )


def duration(seconds: float) -> str:
    """
    >>> duration(42), duration(600), duration(20_000)
    ('42 seconds', '10 minutes', '5.6 hours')
    """
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


class Overall:
    """One bar over the epochs of all runs, with the number of runs ended, running and failed."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.epochs = plan, 0
        self.ended = self.failed = 0
        self.running: Dict[str, int] = {}
        self.bar: Optional[tqdm] = None

    def __enter__(self) -> Overall:
        if self.plan.to_do:
            with contextlib.suppress(OSError, ValueError):
                self.bar = tqdm(total=self.plan.epochs, unit="epoch", dynamic_ncols=True)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.bar is not None:
            with contextlib.suppress(OSError, ValueError):
                self.bar.close()

    def __call__(self, job: Job, message: Message) -> None:
        signals.check()
        if message["event"] == "end":
            self.running.pop(job.name, None)
            self.ended += 1
            self.failed += message["status"] in ("failed", "skipped")
        else:
            self.epochs += message["event"] == "epoch"
            self.running[job.name] = message["epoch"]
        if self.bar is not None:
            with contextlib.suppress(OSError, ValueError):  # no terminal: keep computing
                self._show(message["event"] == "epoch")

    def _show(self, moved: bool) -> None:
        words = f"{self.ended}/{len(self.plan.to_do)} runs, {len(self.running)} running"
        words += f", {self.failed} failed" if self.failed else ""
        self.bar.set_postfix_str(words, refresh=False)
        self.bar.update(int(moved))
