"""The commands of figures: compute the runs a figure lacks, then draw it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Dict, List, Tuple

import click

from slsgd_mx.cli.options import (
    FAULTS,
    SIZES,
    SYMBOLS,
    UNAMBIGUOUS,
    parameter,
    pick_formerly_out,
    with_options,
)
from slsgd_mx.cli.output import print_json, say, warn_if_unread
from slsgd_mx.cli.sweeping import WORKLOAD, running, take_sweep, take_variant
from slsgd_mx.figures.declarations import (
    FIGURES,
    Figure,
    ReachFigure,
    attacked,
    compared,
    full_title,
    varied,
)

CURVES = click.option(
    "--where",
    multiple=True,
    metavar="CONDITION",
    help="Only curves whose symbols fulfil it, such as b=2, q<=2 or alpha!=1 (quote < and >). Give "
    "it again for further conditions.",
)
RUNNING = ("released", "repeats", *running(pick_formerly_out("figures")))


def run_figures(names: List[str], options: Dict[str, Any]) -> None:
    """Plan; then show what the plan will take, or compute it and draw."""
    from slsgd_mx.figures.adapted import figure_of
    from slsgd_mx.figures.variants import runs_of

    sweep = take_sweep(options)
    folder = options.pop("figures")
    variant, workload = take_variant(FIGURES[names[0]].task, options)
    figures = {name: figure_of(name, variant) for name in names}
    for figure in figures.values():
        workload.refuse_to_set(sorted(varied(figure)))
    for warning in variant.warnings({figure.task for figure in figures.values()}):
        click.echo(f"warning: {warning}", err=True)
    wanted = {name: runs_of(figure, variant) for name, figure in figures.items()}
    warn_if_unread(sweep.data_dir, (run for runs in wanted.values() for run in runs))
    plan = sweep.plan(wanted)
    if sweep.dry_run:
        sweep.show(plan, wanted)
        return
    failed = sweep.compute(plan)
    folder = folder or Path("figures") / variant.folder
    drawn, missing = draw_all(names, variant, sweep.runs, folder)
    print_json({"figures": drawn, "missing": missing, "failed": failed})
    if failed or missing:
        raise sweep.unfinished(missing, failed, wanted)


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
    faults = ("poisoned_devices", *FAULTS) if attacked(figure) else ()
    names = [*SYMBOLS, *SIZES[figure.task], *faults]
    own = [name for name in names if parameter(name) not in varied(figure)]
    return [*own, *(("loss", "alphas") if isinstance(figure, ReachFigure) else ())]


def _command(name: str) -> click.Command:
    """The command of one figure."""
    figure = FIGURES[name]
    title = full_title(name).replace("$", "")
    reach = isinstance(figure, ReachFigure)
    so_far = "" if reach else ", and --draw-only draws curves as far as they got"

    @with_options("task_preset", *WORKLOAD, *options_of(figure), CURVES, *RUNNING)
    def call(**options: Any) -> None:
        run_figures([name], options)

    call.__doc__ = f"""{title}.

    {figure.about} Its curves differ in {compared(figure)}.

    Computes or resumes the runs that are not finished, sharing equal ones with other figures, then
    draws them (PNG and SVG) and writes the numbers (CSV). If you interrupt it, the same command
    continues{so_far}. With another --epochs, the epoch at which alpha decays moves in proportion.

    \b
    In minutes, no data:    slsgd-mx {name} --preset smoke
    Real data, hours:       slsgd-mx {name} --preset laptop
    What will it take?      slsgd-mx {name} --dry-run
    Your own workload:      slsgd-mx {name} --plugin mine.py --task mine

    With --task, the same curves (alpha, b, q) are trained on that workload; its preset has the
    other values, and gamma unless the figure compares several.
    """
    kind = " (epochs to reach a loss)" if reach else ""
    return click.command(name, short_help=title.split(": ")[-1] + kind)(call)


@click.command("all")
@with_options("preset", *SYMBOLS, *UNAMBIGUOUS, "alphas", *RUNNING)
def all_figures(**options: Any) -> None:
    """All figures, each run computed once.

    --data-dir is a folder that holds both data sets. The options of single figures, such as
    --attack, are those of their own commands.

    \b
    In minutes, no data:    slsgd-mx all --preset smoke
    Real data, a day:       slsgd-mx all --preset laptop
    What will it take?      slsgd-mx all --preset laptop --dry-run
    """
    run_figures(list(FIGURES), options)


COMMANDS = {**{name: _command(name) for name in FIGURES}, "all": all_figures}
