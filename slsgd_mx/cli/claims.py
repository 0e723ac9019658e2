"""Say which of the paper's claims hold on the runs that are there."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any, Mapping, Optional

import click

from slsgd_mx.cli.figures import BOTH, COMMON, LOSS
from slsgd_mx.cli.options import ALPHAS, PRESET, RUNS, SEED, given, option, with_options

OPTIONS = [
    PRESET,
    RUNS,
    option(
        "--repeats",
        type=click.IntRange(min=1),
        help="Seeds seed, seed+1, ... to judge by. Default: the preset's.",
    ),
    SEED,
    *COMMON,
    *BOTH,
    LOSS,
    ALPHAS,
    click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text."),
    option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder to write claims.json and claims.md to. Default: none is written.",
    ),
]


NOT_SIZES = ("repeats", "seed", "loss", "alphas")


@click.command()
@with_options(OPTIONS)
def claims(preset: str, runs: Path, as_json: bool, out: Optional[Path], **sizes: Any) -> None:
    """Judge the paper's claims on finished runs, each by a rule that is printed along.

    A claim holds, does not hold, or there is not enough data; nothing is computed anew. C1 to C9
    are judged on the runs of figures, C10 to C12 on what slsgd-mx theory left in RUNS/theory.

    \b
    slsgd-mx claims --preset smoke
    slsgd-mx claims --preset laptop --out figures/laptop
    """
    from slsgd_mx.claims import THEORY, judge_all, to_json, to_markdown, to_text
    from slsgd_mx.figures.declarations import Size

    asked = given(**sizes)
    changes = {name: value for name, value in asked.items() if name not in NOT_SIZES}
    seed, alphas = asked.get("seed", 0), asked.get("alphas", ())
    size = Size(preset, changes, asked.get("repeats"), seed, asked.get("loss"), alphas)
    verdicts = judge_all(runs, size)
    about = {"preset": preset, "seeds": list(size.seeds), "changes": changes}
    about.update(alphas=list(size.alphas), loss=size.loss)
    text = to_json(verdicts, about)
    click.echo(text if as_json else to_text(verdicts), nl=False)
    if out is not None:
        write({"claims.json": text, "claims.md": to_markdown(verdicts)}, out)
    if size.config("cifar").sizes.data == "synthetic":
        click.echo("synthetic data: these verdicts show how claims are judged, no more", err=True)
    missing = [verdict.claim for verdict in verdicts if verdict.missing]
    where = {} if runs == Path("runs") else {"runs": quote(str(runs))}
    if set(missing) - set(THEORY):
        options = {**asked, **where}
        if alphas:
            options["alphas"] = ",".join(f"{alpha:g}" for alpha in alphas)
        options.pop("loss", None)  # which nothing is computed by
        more = "".join(f" {_flag(name)} {value}" for name, value in options.items())
        way = f"what to do now: slsgd-mx all --preset {preset}{more} computes the missing runs"
        click.echo(way, err=as_json)
    lacking = [claim for claim in missing if claim in THEORY]
    if lacking:
        more = "".join(f" {_flag(name)} {value}" for name, value in where.items())
        way = f"what to do now: slsgd-mx theory{more} computes what {', '.join(lacking)} lack"
        click.echo(way, err=as_json)


def _flag(name: str) -> str:
    """The option of that name: ``-n``, ``--eval-every``."""
    return f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"


def write(files: Mapping[str, str], folder: Path) -> None:
    """Write texts by name."""
    from slsgd_mx.system.files import disk_errors, write_atomically

    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_atomically(folder / name, text.encode())
