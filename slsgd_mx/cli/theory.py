"""Measure the paper's theorems on problems whose constants are known."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any, List, Optional, Sequence

import click

from slsgd_mx.cli.options import RUNS, option
from slsgd_mx.theory import PARTS, SEEDS


@click.command()
@click.argument("part", type=click.Choice([*PARTS, "all"]), default="all")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=SEEDS,
    show_default=True,
    help="Runs of every case, seeds 0, 1, ... (four cases have four times as many); those that "
    "are there are not run again.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="The same as --seeds 2: every picture in half a minute, verdicts with wide margins.",
)
@RUNS
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("figures/theory"),
    show_default=True,
    help="Folder of the pictures and their numbers.",
)
@option(
    "--jobs", type=click.IntRange(min=1), help="Processes at once. Default: one for every core."
)
def theory(part: str, seeds: int, quick: bool, runs: Path, out: Path, jobs: Optional[int]) -> None:
    """Set what happens beside what Theorems 1 and 2 and Proposition 1 say.

    Algorithm 1 runs, through the same code as everything else, on quadratics, least squares,
    logistic regression and a non-convex problem, n=40 devices, where L, mu, x_* and F(x_*) are
    computed; V_1 and V_2 are measured on the region visited and the assumptions checked.

    \b
    thm1   the error and its bound; the rate; alpha and H trade rate for error; alpha_t = 1/t^2
    thm2   attacks with b >= q, the worst found too; error over q, b, k and beta; the lemma
    prop1  scaled negation: without trimming the error follows its constant c
    all    everything, about 3 minutes on 2 cores

    Numbers are kept in RUNS/theory, so the same line goes on where it was stopped. It draws
    OUT/*.png, .svg and .csv, and writes OUT/assumptions-*.csv and OUT/proof-*.csv: which steps of
    the proofs hold as printed. docs/theory.md explains every picture; the verdicts on C10 to C12:

    \b
    slsgd-mx theory
    slsgd-mx claims
    """
    from slsgd_mx.system.threads import available_cores, set_threads

    set_threads(1)  # problems this small have nothing for a second thread
    from slsgd_mx.theory.cases import cases_of

    seeds = 2 if quick else seeds
    parts = PARTS if part == "all" else (part,)
    folder = runs / "theory"
    compute_missing([case for p in parts for case in cases_of(p)], folder, seeds,
                    jobs or available_cores())  # fmt: skip
    for each in parts:
        report(each, folder, out, seeds)
    where = "" if runs == Path("runs") else f" --runs {quote(str(runs))}"
    click.echo(f"verdicts on C10 to C12: slsgd-mx claims{where}")


def compute_missing(cases: Sequence[Any], folder: Path, seeds: int, processes: int) -> None:
    """Run what is not there yet, with a bar that tells how long it will take."""
    from tqdm import tqdm

    from slsgd_mx.theory.compute import compute, missing_jobs

    jobs = missing_jobs(folder, cases, seeds)
    if not jobs:
        click.echo(f"nothing to compute: {seeds} seeds of {len(cases)} cases in {folder}", err=True)
        return
    total = sum(job.epochs for job in jobs)
    with tqdm(total=total, unit="epoch", desc="theory", smoothing=0.05) as bar:
        compute(folder, jobs, min(processes, len(jobs)), bar.update)


def report(part: str, folder: Path, out: Path, seeds: int) -> None:
    """Draw a part, write and print what its numbers say."""
    from slsgd_mx.theory.pictures import draw_part
    from slsgd_mx.theory.report import assumptions_text, findings_text, write_reports

    pictures: List[Path] = draw_part(part, folder, out, seeds)
    reports, findings = write_reports(part, folder, out, seeds)
    click.echo(assumptions_text(part, reports) + findings_text(part, findings), nl=False)
    for path in pictures:
        click.echo(f"picture: {path}  (numbers: {path.with_suffix('.csv').name})")
