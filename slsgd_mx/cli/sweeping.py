"""What figures and the arena share: which workload, how its runs are computed, what is missing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import click

from slsgd_mx.cli.engines import server_options
from slsgd_mx.cli.options import given, pick
from slsgd_mx.cli.output import json_option
from slsgd_mx.errors import DataError, RunError

WORKLOAD = (
    "task",
    pick("arrays", help=
        "With --task images: your images and labels, an .npz file with x_train, y_train, x_test, "
        "y_test."),
    pick("network", help="With --task images: what is trained."),
    "settings",
)  # fmt: skip


def running(figures: Callable) -> Tuple:
    """The options of commands that compute many runs; ``figures`` is the folder for pictures."""
    before = ("seed", "data_dir", "jobs", "threads", "slot_memory", "runs")
    after = ("dry_run", "draw_only", "no_share", "engine", "workers", "servers")
    return (*before, figures, *after, json_option)


@dataclass(frozen=True)
class Workload:
    """What a command trains: a task (None: the paper's), a preset of it and changes of that."""

    task: Optional[str]
    preset: str
    changes: Dict[str, Any]
    set_names: Sequence[str]  # what --set changes

    def refuse_to_set(self, taken: Sequence[str]) -> None:
        """Refuse a --set of what the figure or the arena sets itself."""
        for name in (*taken, "alpha", "b", "q", "poisoned_devices", "seed"):
            if name in self.set_names:
                raise click.UsageError(f"--set {name}=... is not possible: this command sets it")


def take_workload(usual: str, options: Dict[str, Any]) -> Workload:
    """The workload that options ask for, which are removed; the others are changes of its preset.

    ``usual`` is the paper's task that the command trains without --task.
    """
    from slsgd_mx.cli.stored import parse_changes
    from slsgd_mx.presets import presets_of
    from slsgd_mx.workloads import WORKLOADS

    names = ("task", "preset", "arrays", "network", "settings")
    task, preset, arrays, network, settings = (options.pop(name, None) for name in names)
    if task != "images" and (arrays or network):
        raise click.UsageError("--arrays and --network go with --task images")
    if task in (None, usual) and settings:
        raise click.UsageError("--set goes with --task and another workload than the paper's")
    changed = parse_changes(settings or (), WORKLOADS[task or usual].sizes)
    changes = given(**options, network=network)
    for name in filter(changes.__contains__, changed):
        raise click.UsageError(f"give {name} either as an option or with --set, not both")
    if arrays is not None:
        from slsgd_mx.data.arrays import sizes_in

        found = sizes_in(arrays)
        for name in {*changes, *changed} & set(found):
            raise click.UsageError(f"{name} follows from --arrays {arrays}: do not give it")
        changes.update(found)
    preset = preset or (next(iter(presets_of(task))) if task else "paper")
    return Workload(None if task == usual else task, preset, {**changes, **changed}, list(changed))


def take_variant(usual: str, options: Dict[str, Any]) -> Tuple[Any, Workload]:
    """The variant that the options ask for, and its workload."""
    from slsgd_mx.figures.variants import Variant

    names = ("repeats", "seed", "loss", "alphas", "released", "poisoned_devices", "where")
    asked = {name: options.pop(name, None) for name in names}
    workload = take_workload(usual, options)
    variant = Variant(
        workload.preset,
        workload.changes,
        asked["repeats"],
        asked["seed"] or 0,
        asked["loss"],
        asked["alphas"] or (),
        bool(asked["released"]),
        workload.task,
        asked["poisoned_devices"],
        asked["where"] or (),
    )
    return variant, workload


@dataclass(frozen=True)
class Sweep:
    """How many runs are computed: what the options of ``running`` say."""

    runs: Path
    data_dir: Optional[Path]
    jobs: Optional[int]
    threads: Optional[int]
    dry_run: bool
    draw_only: bool
    no_share: bool
    servers: Optional[Dict[str, Any]]  # None: each run in one process

    def plan(self, wanted: Mapping[str, Sequence[Any]]) -> Any:
        """The plan of the wanted runs, after checks that need no training."""
        from slsgd_mx.parameter_server.node import check_workers
        from slsgd_mx.sweeps.plan import make_plan
        from slsgd_mx.system.precision import check_precision
        from slsgd_mx.tasks.devices import check_batch

        plan = make_plan(wanted, self.runs, share=not self.no_share)
        for step in plan.to_do:
            check_batch(step.config)
            if not self.draw_only:
                check_precision(step.config.precision)
            if self.servers:
                check_workers(self.servers["workers"], step.config.k)
        return plan

    def show(self, plan: Any, wanted: Mapping[str, Sequence[Any]]) -> None:
        """Print what a plan will take."""
        from slsgd_mx.cli.planning import show_plan

        show_plan(plan, wanted, self.jobs, self.threads, self.servers, self.data_dir)

    def compute(self, plan: Any) -> Dict[str, str]:
        """Compute what is left, unless the user wants only pictures; return failures."""
        from slsgd_mx.system.precision import warn_of_no_gain

        if self.draw_only:
            return {}
        self._find_data(plan)
        for precision in {step.config.precision for step in plan.to_do}:
            warn_of_no_gain(precision)
        return compute(plan, self.data_dir, self.jobs, self.threads, self.servers)

    def _find_data(self, plan: Any) -> None:
        """A DataError if no run can find its data, a warning if some cannot."""
        from slsgd_mx.data.reading import find_data
        from slsgd_mx.data.registry import DATASETS

        needed, lacking = {step.config.sizes.data for step in plan.to_do if step.can_go_on}, []
        for name in sorted(needed & set(DATASETS)):
            try:
                find_data(name, self.data_dir)
            except DataError as error:
                lacking.append(error)
        if lacking and len(lacking) == len(needed):
            raise lacking[0]
        for error in lacking:
            click.echo(f"warning: some runs will fail: {error}", err=True)

    def unfinished(
        self,
        missing: Dict[str, str],
        failed: Dict[str, str],
        wanted: Mapping[str, Sequence[Any]],
    ) -> RunError:
        """The error that names what is missing, and the way to get it if there is one."""
        way = ""
        if self.draw_only:
            way = (
                "\nNothing is computed with --draw-only or from an archive: leave out --draw-only, "
                "or give a folder of runs"
            )
        elif any(step.can_go_on for step in self.plan(wanted).steps):
            way = (
                "\nCorrect this, and run the command again" if failed else "\nRun the command again"
            )
        return RunError(f"not finished:\n{by_reason({**missing, **failed})}{way}")


def take_sweep(options: Dict[str, Any]) -> Sweep:
    """How the runs are computed; the options that say so are removed."""
    arrays, data_dir = options.get("arrays"), options.pop("data_dir")
    if arrays and data_dir:
        raise click.UsageError("give either --arrays or --data-dir")
    engine = {name: options.pop(name) for name in ("workers", "servers")}
    servers = server_options(options.pop("engine"), **engine)
    names = ("runs", "jobs", "threads", "dry_run", "draw_only", "no_share")
    taken = {name: options.pop(name) for name in names}
    return Sweep(data_dir=arrays or data_dir, servers=servers, **taken)


def by_reason(missing: Dict[str, str]) -> str:
    """What is missing, one paragraph for each reason."""
    reasons: Dict[str, List[str]] = {}
    for name, why in missing.items():
        reasons.setdefault(why, []).append(name)
    return "\n".join(
        f"  {', '.join(names[:3])}{f' and {len(names) - 3} more' * (len(names) > 3)}: {why}"
        for why, names in reasons.items()
    )


def compute(
    plan,
    data_dir: Optional[Path],
    jobs: Optional[int],
    threads: Optional[int],
    servers: Optional[Dict[str, Any]] = None,
) -> Dict[str, str]:
    """Compute the runs that are not finished, with one progress display; return failures."""
    from slsgd_mx.cli.planning import share_out
    from slsgd_mx.cli.progress import Overall
    from slsgd_mx.runs.status import ENDED
    from slsgd_mx.sweeps.plan import carry_out
    from slsgd_mx.sweeps.pool import Pool

    if all(step.outcome.state in ENDED for step in plan.steps):
        click.echo(f"nothing to compute: all {len(plan.steps)} runs are finished", err=True)
    began = time.monotonic()
    workers = None if servers is None else servers["workers"]
    with Overall(plan) as display, Pool(*share_out(plan, jobs, threads, workers)) as pool:
        results = carry_out(plan, pool, data_dir, display, servers)
    if plan.to_do:
        minutes = (time.monotonic() - began) / 60
        click.echo(f"computed {display.epochs} epochs in {minutes:.1f} minutes", err=True)
    for slug, result in results.items():
        if result.status == "diverged":
            click.echo(f"{slug} diverged: {result.why}", err=True)
    logs = [plan.home / "logs" / f"{step.config.slug}.log" for step in plan.to_do]
    for log in logs:
        if log.exists():
            click.echo(f"messages of a process: {log}", err=True)
    return {slug: result.why for slug, result in results.items() if not result.ok}
