"""Say which of the paper's claims hold on the runs that are there."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any, Mapping, Optional

import click

from .options import ALPHAS, PRESET, SEED, given, option, with_options

OPTIONS = [
    PRESET,
    click.option(
        "--runs",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("runs"),
        show_default=True,
        help="Folder of the run folders.",
    ),
    option(
        "--repeats",
        type=click.IntRange(min=1),
        help="Seeds seed, seed+1, ... to judge by. Default: the preset's.",
    ),
    SEED,
    option("--epochs", type=int, help="T: communication epochs. Default: the preset's."),
    ALPHAS,
    click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text."),
    option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder to write claims.json and claims.md to. Default: none is written.",
    ),
]


@click.command()
@with_options(OPTIONS)
def claims(preset: str, runs: Path, as_json: bool, out: Optional[Path], **sizes: Any) -> None:
    """Judge the paper's claims on finished runs, each by a rule that is printed along.

    A claim holds, does not hold, or there is not enough data; nothing is computed anew.

    \b
    slsgd-mx claims --preset smoke
    slsgd-mx claims --preset laptop --out figures/laptop
    """
    from ..claims import judge_all, to_json, to_markdown, to_text
    from ..figures import Size

    asked = given(**sizes)
    changes = {"epochs": asked["epochs"]} if "epochs" in asked else {}
    seed, alphas = asked.get("seed", 0), asked.get("alphas", ())
    size = Size(preset, changes, asked.get("repeats"), seed, at=alphas)
    verdicts = judge_all(runs, size)
    about = {"preset": preset, "seeds": list(size.seeds), "changes": changes}
    about["alphas"] = list(size.alphas)
    text = to_json(verdicts, about)
    click.echo(text if as_json else to_text(verdicts), nl=False)
    if out is not None:
        write({"claims.json": text, "claims.md": to_markdown(verdicts)}, out)
    if any(verdict.missing for verdict in verdicts):
        options = {**asked, **({} if runs == Path("runs") else {"runs": quote(str(runs))})}
        if alphas:
            options["alphas"] = ",".join(f"{alpha:g}" for alpha in alphas)
        more = "".join(f" --{name} {value}" for name, value in options.items())
        way = f"what to do now: slsgd-mx all --preset {preset}{more} computes the missing runs"
        click.echo(way, err=as_json)


def write(files: Mapping[str, str], folder: Path) -> None:
    """Write texts by name."""
    from ..files import disk_errors, write_atomically

    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_atomically(folder / name, text.encode())
