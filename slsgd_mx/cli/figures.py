"""fig1 ... fig13, ledger, all: compute the runs a figure lacks, then draw it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import click

from slsgd_mx.cli.engines import PARAMETER_SERVER, server_options
from slsgd_mx.cli.options import (
    ALPHAS,
    DATA_DIR,
    DEVICES,
    FAULTS,
    PRESET,
    RUNS,
    given,
    option,
    with_options,
)
from slsgd_mx.cli.training import NETWORK, TEXT, TRAIN_IMAGES
from slsgd_mx.figures.declarations import FIGURES, Curves, Size, attacked, runs_of

COMMON = [
    DEVICES,
    option("-k", "--selected", "k", type=int, help="k: devices selected in an epoch. Paper: 10."),
    option("--epochs", type=int, help="T. The decay of alpha moves along with it. Paper: 800."),
    option("--alpha-decay-epoch", type=int, help="Last epoch with alpha_t = 1."),
    option("--batch-size", type=int, help="Minibatch."),
    option("--eval-every", type=int, help="Epochs between two evaluations."),
    option(
        "--selection",
        type=click.Choice(["independent", "permutation"]),
        help="S_t: k of n anew each epoch, or blocks of shuffled permutations.",
    ),
    option("--warm-up/--no-warm-up", help="x_0 after 5 passes at gamma 0.01 on one device's data."),
]
SIZES = {
    "cifar": [
        option(
            "--data",
            type=click.Choice(["cifar10", "synthetic"]),
            help="CIFAR-10, or an embedded, drawn stand-in of the same shape.",
        ),
        TRAIN_IMAGES,
        *NETWORK,
    ],
    "lstm": TEXT,
}
BOTH = [TRAIN_IMAGES, *NETWORK[:2], *TEXT[1:2], *TEXT[3:-1]]  # what means one thing in both tasks
STARTED = FAULTS[:1] + FAULTS[2:]  # the ledger has both starts
LOSS = option("--loss", type=float, help="Training loss to reach. Paper: 0.5 (Fig. 5), 0.003.")
RUNNING = [
    option("--repeats", type=click.IntRange(min=1), help="Seeds averaged. Paper: 10."),
    option("--seed", type=int, help="The first seed. Default: 0."),
    DATA_DIR,
    option(
        "--jobs",
        type=click.IntRange(min=1),
        help="Processes at once. Default: one for every core, as far as memory goes: where there "
        "are runs enough, that is the fastest.",
    ),
    option(
        "--threads",
        type=click.IntRange(min=1),
        help="Threads of each process; results repeat to the bit at an equal number. Default: its "
        "share of the cores, one for synthetic data.",
    ),
    RUNS,
    option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of the pictures. Default: figures/PRESET, or figures/PRESET-changed if any "
        "flag changes what they show.",
    ),
    click.option("--dry-run", is_flag=True, help="List runs, epochs left, time, memory, disk."),
    click.option("--draw-only", is_flag=True, help="Compute nothing, draw what is there."),
    click.option("--no-share", is_flag=True, help="Compute every run from its first epoch."),
    click.option(
        "--engine",
        type=click.Choice(["local", "ps"]),
        default="local",
        show_default=True,
        help="A process for every run, or several on MXNet's parameter server: the same bits at "
        "an equal number of threads. local is the faster where there are runs enough.",
    ),
    *PARAMETER_SERVER,
]


def run_figures(
    names: List[str],
    preset: str,
    repeats: Optional[int],
    seed: Optional[int],
    data_dir: Optional[Path],
    jobs: Optional[int],
    threads: Optional[int],
    runs: Path,
    out: Optional[Path],
    dry_run: bool,
    draw_only: bool,
    no_share: bool,
    engine: str,
    loss: Optional[float] = None,
    alphas: Optional[Tuple[float, ...]] = None,
    **changes: Any,
) -> None:
    """Plan; then say what it would take, or compute it and draw."""
    from slsgd_mx.sweeps.plan import make_plan

    servers, changes = server_options(engine, changes)
    asked = given(**changes)
    size = Size(preset, asked, repeats, seed or 0, loss, alphas or ())
    changed = asked or given(repeats=repeats, seed=seed, loss=loss, alphas=alphas)
    out = out or Path("figures") / (f"{preset}-changed" if changed else preset)
    for warning in size.warnings({FIGURES[name].task for name in names}):
        click.echo(f"warning: {warning}", err=True)
    wanted = {name: runs_of(FIGURES[name], size) for name in names}
    plan = make_plan(wanted, runs, share=not no_share)
    if dry_run:
        from slsgd_mx.cli.planning import show_plan

        show_plan(plan, wanted, jobs, threads, servers and servers["workers"])
        return
    failed = {} if draw_only else compute(plan, data_dir, jobs, threads, servers)
    lacking = draw_all(names, size, runs, out)
    if failed or lacking:
        from slsgd_mx.errors import RunError

        text = _by_reason({**lacking, **failed})
        way = "Without --draw-only they are computed" if draw_only else "Run the same command again"
        raise RunError(f"these are not there:\n{text}\n{way}")


def _by_reason(lacking: Dict[str, str]) -> str:
    """What is missing, one paragraph for each reason."""
    reasons: Dict[str, List[str]] = {}
    for name, why in lacking.items():
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
    """Compute what is left with one progress display; return what failed, and why."""
    from slsgd_mx.cli.planning import Overall, share_out
    from slsgd_mx.sweeps.plan import carry_out
    from slsgd_mx.sweeps.pool import Pool

    if all(step.outcome.state in ("done", "diverged") for step in plan.steps):
        click.echo(f"nothing to compute: all {len(plan.steps)} runs are there", err=True)
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
            click.echo(f"said while computing: {log}", err=True)
    return {slug: result.why for slug, result in results.items() if not result.ok}


def draw_all(names: List[str], size: Size, runs: Path, out: Path) -> Dict[str, str]:
    """Draw every figure; return the runs that are missing."""
    from slsgd_mx.errors import RunError
    from slsgd_mx.figures.build import draw_figure

    missing: Dict[str, str] = {}
    for name in names:
        try:
            drawn = draw_figure(name, size, runs, out)
        except RunError as error:
            missing[name] = str(error).replace(f"{name} ", "it ", 1)
            continue
        missing.update(line.split(": ", 1) for line in drawn.missing)
        with contextlib.suppress(OSError):
            click.echo(f"{name}: {drawn.files[0]}  (also .svg, and .csv with the numbers)")
    return missing


def _command(name: str) -> click.Command:
    """The command of one figure; what it draws stands in its help."""
    figure = FIGURES[name]
    curves = isinstance(figure, Curves)
    about = figure.title.replace("$", "")
    reach = [] if curves else [LOSS, ALPHAS]
    number = f"Figure {name[3:]}: " if name.startswith("fig") else ""
    what = "metrics over epochs" if curves else "epochs to reach a training loss, over alpha"

    faults = (STARTED if name == "ledger" else FAULTS) if attacked(figure) else []

    @with_options([PRESET], COMMON, SIZES[figure.task], faults, reach, RUNNING)
    def call(preset: str, **options: Any) -> None:
        run_figures([name], preset, **options)

    call.__doc__ = f"""{number}{about} ({what}{", zoomed" if curves and figure.zoom else ""}).

    Computes the runs that are not there yet, resumes those begun, shares equal ones with the other
    figures, and draws PNG, SVG and CSV. Interrupted, the same command goes on.

    \b
    In minutes, no data:    slsgd-mx {name} --preset smoke
    A part of a day:        slsgd-mx {name} --preset laptop
    What would it take?     slsgd-mx {name} --dry-run
    """
    return click.command(name)(call)


@click.command("all")
@with_options([PRESET], COMMON, BOTH, [ALPHAS], RUNNING)
def all_figures(preset: str, **options: Any) -> None:
    """Every figure, and the ledger of the attack's two starts, in one plan.

    --data-dir is a folder that holds both data sets.

    \b
    In minutes, no data:    slsgd-mx all --preset smoke
    What would it take?     slsgd-mx all --preset laptop --dry-run
    """
    run_figures(list(FIGURES), preset, **options)


COMMANDS = {**{name: _command(name) for name in FIGURES}, "all": all_figures}
