"""The commands of figures: compute the runs a figure lacks, then draw it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import click

from slsgd_mx.cli.engines import server_options
from slsgd_mx.cli.options import (
    FAULTS,
    SIZES,
    SYMBOLS,
    UNAMBIGUOUS,
    given,
    parameter,
    pick_formerly_out,
    with_options,
)
from slsgd_mx.cli.output import json_option, print_json, say
from slsgd_mx.figures.declarations import FIGURES, Figure, ReachFigure, attacked, full_title, varied

RUNNING = (
    *("released", "repeats", "seed", "data_dir", "jobs", "threads", "slot_memory", "runs"),
    pick_formerly_out("figures"),
    *("dry_run", "draw_only", "no_share", "engine", "workers", "servers"),
    json_option,
)


def run_figures(
    names: List[str],
    preset: str,
    repeats: Optional[int],
    seed: Optional[int],
    released: bool,
    data_dir: Optional[Path],
    jobs: Optional[int],
    threads: Optional[int],
    runs: Path,
    figures: Optional[Path],
    dry_run: bool,
    draw_only: bool,
    no_share: bool,
    engine: str,
    loss: Optional[float] = None,
    alphas: Optional[Tuple[float, ...]] = None,
    **changes: Any,
) -> None:
    """Plan; then show what the plan will take, or compute it and draw."""
    from slsgd_mx.errors import RunError
    from slsgd_mx.figures.variants import Variant, runs_of
    from slsgd_mx.parameter_server.node import check_workers
    from slsgd_mx.sweeps.plan import make_plan
    from slsgd_mx.system.precision import check_precision
    from slsgd_mx.tasks.devices import check_batch

    servers, changes = server_options(engine, changes)
    asked = given(**changes)
    variant = Variant(preset, asked, repeats, seed or 0, loss, alphas or (), bool(released))
    figures = figures or Path("figures") / variant.folder
    for warning in variant.warnings({FIGURES[name].task for name in names}):
        click.echo(f"warning: {warning}", err=True)
    wanted = {name: runs_of(FIGURES[name], variant) for name in names}
    plan = make_plan(wanted, runs, share=not no_share)
    for step in plan.to_do:
        check_batch(step.config)
        check_precision("float32" if draw_only else step.config.precision)
        if servers:
            check_workers(servers["workers"], step.config.k)
    if dry_run:
        from slsgd_mx.cli.planning import show_plan

        show_plan(plan, wanted, jobs, threads, servers and servers["workers"], data_dir)
        return
    failed = {} if draw_only else compute(plan, data_dir, jobs, threads, servers)
    drawn, missing = draw_all(names, variant, runs, figures)
    print_json({"figures": drawn, "missing": missing, "failed": failed})
    if failed or missing:
        text = by_reason({**missing, **failed})
        way = "--draw-only computes nothing: leave it out" if draw_only else "Run the command again"
        raise RunError(f"not finished:\n{text}\n{way}")


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
    from slsgd_mx.sweeps.plan import carry_out
    from slsgd_mx.sweeps.pool import Pool

    if all(step.outcome.state in ("done", "diverged") for step in plan.steps):
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


def draw_all(
    names: List[str], variant, runs: Path, folder: Path
) -> Tuple[Dict[str, List[Path]], Dict[str, str]]:
    """Draw every figure; return the files of each, and the runs that are missing."""
    from slsgd_mx.errors import RunError
    from slsgd_mx.figures.build import draw_figure

    files: Dict[str, List[Path]] = {}
    missing: Dict[str, str] = {}
    for name in names:
        try:
            drawn = draw_figure(name, variant, runs, folder)
        except RunError as error:
            missing[name] = str(error).replace(f"{name} ", "it ", 1)
            continue
        files[name] = drawn.files
        missing.update(line.split(": ", 1) for line in drawn.missing)
        with contextlib.suppress(OSError):
            say(f"{name}: {drawn.files[0]}  (also .svg, and .csv with the numbers)")
    return files, missing


def options_of(figure: Figure) -> List[str]:
    """The options of a figure's command: all that apply, except what the figure itself varies."""
    names = [*SYMBOLS, *SIZES[figure.task], *(FAULTS if attacked(figure) else ())]
    own = [name for name in names if parameter(name) not in varied(figure)]
    return [*own, *(("loss", "alphas") if isinstance(figure, ReachFigure) else ())]


def _command(name: str) -> click.Command:
    """The command of one figure."""
    figure = FIGURES[name]
    title = full_title(name).replace("$", "")

    @with_options("preset", *options_of(figure), *RUNNING)
    def call(preset: str, **options: Any) -> None:
        run_figures([name], preset, **options)

    call.__doc__ = f"""{title}.

    {figure.about}

    Computes or resumes the runs that are not finished, sharing equal ones with other figures, then
    draws them (PNG and SVG) and writes the numbers (CSV). If you interrupt it, the same command
    continues. With another --epochs, the epoch at which alpha decays moves in proportion.

    \b
    In minutes, no data:    slsgd-mx {name} --preset smoke
    Real data, hours:       slsgd-mx {name} --preset laptop
    What will it take?      slsgd-mx {name} --dry-run
    """
    kind = " (epochs to reach a loss)" if isinstance(figure, ReachFigure) else ""
    return click.command(name, short_help=title.split(": ")[-1] + kind)(call)


@click.command("all")
@with_options("preset", *SYMBOLS, *UNAMBIGUOUS, "alphas", *RUNNING)
def all_figures(preset: str, **options: Any) -> None:
    """All figures, each run computed once.

    --data-dir is a folder that holds both data sets. The options of single figures, such as
    --attack, are those of their own commands.

    \b
    In minutes, no data:    slsgd-mx all --preset smoke
    Real data, a day:       slsgd-mx all --preset laptop
    What will it take?      slsgd-mx all --preset laptop --dry-run
    """
    run_figures(list(FIGURES), preset, **options)


COMMANDS = {**{name: _command(name) for name in FIGURES}, "all": all_figures}
