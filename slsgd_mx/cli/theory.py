"""Compare the paper's theorems with measurements, on problems whose constants are known."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any, Dict, List, Sequence

import click

from slsgd_mx.cli.options import FOLDER, pick, pick_formerly_out, with_options
from slsgd_mx.cli.output import json_option, print_json, say
from slsgd_mx.theory import PARTS, SEEDS


@click.command()
@click.argument("part", type=click.Choice([*PARTS, "all"]), default="all")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=SEEDS,
    show_default=True,
    help="Runs of every case, with seeds 0, 1, ... (four cases have four times as many); finished "
    "runs are not repeated.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="The same as --seeds 2: all pictures in half a minute, verdicts with wide margins.",
)
@with_options(
    pick("runs", type=FOLDER, help="Folder for the tables."),
    pick_formerly_out(
        "figures", default=Path("figures/theory"), help="Folder for pictures and tables."
    ),
    pick("jobs", help="Processes at the same time. Default: one per core."),
    json_option,
)
def theory(part: str, seeds: int, quick: bool, runs: Path, figures: Path, jobs: int | None) -> None:
    """Compare the paper's theorems with measurements.

    Theorems 1 and 2 and Proposition 1: Algorithm 1 runs, through the same code as everywhere else,
    on quadratics, least squares, logistic regression and a non-convex problem with n=40 devices. L,
    mu, x_* and F(x_*) are computed from the data, V_1 and V_2 are measured, and the assumptions are
    checked.

    \b
    thm1   the error and its bound; the rate; what alpha and H trade; 1/t^2
    thm2   attacks with b >= q; error over q, b, k and beta; the lemma
    prop1  scaled negation: without trimming, the error follows its factor c
    all    everything, about 3 minutes on 2 cores

    Tables are kept in RUNS/theory; if you interrupt it, the same command continues. Pictures and
    their numbers go to FIGURES, and so do assumptions-*.csv and proof-*.csv, which say which steps
    of the proofs hold as printed; with all, the verdicts on C10 to C12 as well (claims.json,
    claims.md). docs/theory.md explains every picture. slsgd-mx claims judges all claims.
    """
    from slsgd_mx.system.threads import available_cores, set_threads

    set_threads(1)  # these problems are too small for a second thread
    from slsgd_mx.theory.cases import cases_of

    seeds = 2 if quick else seeds
    parts = PARTS if part == "all" else (part,)
    folder = runs / "theory"
    compute_missing([case for p in parts for case in cases_of(p)], folder, seeds,
                    jobs or available_cores())  # fmt: skip
    print_json({each: report(each, folder, figures, seeds) for each in parts})
    if part == "all":
        write_verdicts(runs, figures, seeds)
    where = "" if runs == Path("runs") else f" --runs {quote(str(runs))}"
    say(f"verdicts on C10 to C12: slsgd-mx claims{where}")


def compute_missing(cases: Sequence[Any], folder: Path, seeds: int, processes: int) -> None:
    """Compute the runs that are not finished, with a progress bar."""
    from slsgd_mx.cli.progress import Counter
    from slsgd_mx.theory.compute import compute, missing_jobs

    jobs = missing_jobs(folder, cases, seeds)
    if not jobs:
        click.echo(f"nothing to compute: {seeds} seeds of {len(cases)} cases in {folder}", err=True)
        return
    total = sum(job.epochs for job in jobs)
    with Counter(total, "epochs of theory:") as bar:
        compute(folder, jobs, min(processes, len(jobs)), bar.update)


def write_verdicts(runs: Path, figures: Path, seeds: int) -> None:
    """Write the verdicts on C10 to C12 next to the pictures, where the report finds them."""
    from slsgd_mx.claims import judge_theory, to_json, to_markdown
    from slsgd_mx.cli.claims import write

    verdicts = judge_theory(runs, seeds)
    text = to_json(verdicts, {"preset": "theory", "seeds": list(range(seeds))})
    write({"claims.json": text, "claims.md": to_markdown(verdicts)}, figures)


def report(part: str, folder: Path, figures: Path, seeds: int) -> Dict[str, Any]:
    """Draw the pictures of a part, write its tables, print its findings and return them."""
    from slsgd_mx.theory.pictures import draw_part
    from slsgd_mx.theory.report import assumptions_text, findings_text, write_reports

    pictures: List[Path] = draw_part(part, folder, figures, seeds)
    reports, findings = write_reports(part, folder, figures, seeds)
    say(assumptions_text(part, reports) + findings_text(part, findings), nl=False)
    for path in pictures:
        say(f"picture: {path}  (numbers: {path.with_suffix('.csv').name})")
    return {
        "assumptions": [each._asdict() for each in reports],
        "findings": [each._asdict() for each in findings],
        "pictures": pictures,
    }
