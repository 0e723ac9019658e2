"""What a plan will take: its runs, their shared prefixes, the forecast."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import click

from slsgd_mx.cli.output import count, print_json, say, table, wrap
from slsgd_mx.cli.progress import duration
from slsgd_mx.config import RunConfig
from slsgd_mx.runs.records import planned_run
from slsgd_mx.runs.selection import brief, in_common, short_names, varying
from slsgd_mx.sweeps.plan import Plan, Step
from slsgd_mx.sweeps.pool import Pool
from slsgd_mx.system.machine import total_memory
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
    processes = jobs or max(1, int(min(total / (threads or 1), total_memory() / MEMORY_EACH)))
    if workers is not None:
        processes, total = jobs or 1, max(1, total // workers)
    narrow = any(step.config.sizes.data == "synthetic" for step in plan.steps)
    return (
        max(1, min(processes, len(plan.to_do))),
        threads or (1 if narrow or one else max(1, total // processes)),
    )


def show_plan(
    plan: Plan,
    wanted: Mapping[str, Sequence[RunConfig]],
    jobs: Optional[int],
    threads: Optional[int],
    engine: Optional[Mapping[str, Any]] = None,
    data_dir: Optional[Path] = None,
) -> None:
    """Print the runs, their shared prefixes, the epochs left and the forecast.

    ``engine`` has the options of the parameter server, if there is one.
    """
    users: Dict[RunConfig, List[str]] = {}
    for name, runs in wanted.items():
        for run in runs:
            users.setdefault(run, []).append(name)
    _list_steps(plan, users)
    states = [step.outcome.state for step in plan.steps if step.wanted]
    done = sum(state in ("done", "diverged") for state in states)
    prefixes = sum(not step.wanted for step in plan.steps)
    say(f"runs: {len(states)}, of which {done} are finished; shared prefixes: {prefixes}")
    say(
        f"epochs to compute: {plan.epochs} (without sharing between runs and figures: "
        f"{plan.epochs_unshared})"
    )
    print_json(
        {
            "runs": [_document(step, users.get(step.config, [])) for step in plan.steps],
            "epochs": plan.epochs,
            "epochs_unshared": plan.epochs_unshared,
            "forecast": _forecast(plan, jobs, threads, engine or {}, data_dir)
            if plan.to_do
            else None,
        }
    )


def _document(step: Step, figures: Sequence[str]) -> Dict[str, Any]:
    return {
        "folder": step.folder,
        "state": step.outcome.state,
        "why": step.outcome.why,
        "start": step.start,
        "left": step.left,
        "figures": list(figures),
        "prefix": None if step.prefix is None else step.prefix.folder,
        "config": step.config.to_dict(),
    }


def _list_steps(plan: Plan, users: Mapping[RunConfig, Sequence[str]]) -> None:
    """Print a line for each run: its epochs, in what it differs, where it starts, who needs it."""
    runs = [
        planned_run(step.config, step.folder, step.outcome.state, step.start) for step in plan.steps
    ]
    names = short_names((step.folder for step in plan.steps), plan.home)
    common = [f"{name}={brief(value)}" for name, value in in_common(runs).items()]
    if common:
        say(wrap(f"in common: {' '.join(common)}"))
    differ = [name for name in varying(runs) if name != "epochs"]
    rows = [
        [
            names[step.folder],
            step.outcome.state,
            f"{step.start + 1}-{step.config.epochs}" if step.left else f"{step.config.epochs}",
            *(brief(run.symbols[name]) if name in run.symbols else "" for name in differ),
            names[step.prefix.folder] if step.prefix else "",
            ",".join(users[step.config]) if step.wanted else "others",
        ]
        for step, run in zip(plan.steps, runs)
    ]
    say(table(["run", "status", "epochs", *differ, "after", "for"], rows, first=3))


def _forecast(
    plan: Plan,
    jobs: Optional[int],
    threads: Optional[int],
    engine: Mapping[str, Any],
    data_dir: Optional[Path],
) -> Dict[str, Any]:
    """Calibrate, print the forecast, and return it.

    ``engine`` has the numbers of workers and servers, if there is a parameter server.
    """
    from slsgd_mx.sweeps.forecast import calibrate, forecast

    processes, threads = share_out(plan, jobs, threads, engine.get("workers"))
    workers, servers = engine.get("workers", 1), engine.get("servers", 1)
    click.echo("calibrating ...", err=True)
    with Pool(processes * workers, threads) as pool:
        expected = forecast(plan, calibrate(plan, pool, data_dir), processes, workers, servers)
    if not expected.includes_data:
        click.echo("the data are missing: the forecast omits their loading and memory", err=True)
    using = f"{count(processes * workers, 'process', 'es')} of {count(threads, 'thread')}"
    text = (
        f"forecast for {using}: "
        f"{duration(expected.seconds)}, {expected.memory_bytes / 1e9:.1f} GB of memory, "
        f"{expected.disk_bytes / 1e9:.2f} GB of disk"
    )
    say(wrap(text, hanging="  "))
    return {"processes": processes * workers, "threads": threads, **asdict(expected)}
