"""Judge the paper's claims on the runs that are finished."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, List, Mapping, Optional

import click

from slsgd_mx.cli.options import SYMBOLS, UNAMBIGUOUS, given, pick_formerly_out, spell, with_options
from slsgd_mx.cli.output import COPIES, json_option, wants_json

FIGURES = pick_formerly_out(
    "figures", help="Folder for claims.json and claims.md. Default: they are not written."
)
TABLES = click.option(
    "--tables",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of pictures: where a run is missing, its rows in the CSV files there are used, "
    "which nothing verifies.",
)


@click.command()
@with_options(
    "preset", "released", "runs", "repeats", "seed", *SYMBOLS, *UNAMBIGUOUS, "loss", "alphas"
)
@TABLES
@json_option
@FIGURES
def claims(
    preset: str,
    released: bool,
    runs: Path,
    tables: Optional[Path],
    figures: Optional[Path],
    repeats: Optional[int],
    seed: Optional[int],
    loss: Optional[float],
    alphas: Optional[tuple],
    **changes: Any,
) -> None:
    """Judge the paper's claims on finished runs.

    A claim holds, does not hold, is not decided, or, without runs, not computed; the rule is
    printed with each verdict. Nothing is trained: C1 to C9 are judged on the runs of the figures,
    so give the same options as to them; C10 to C12 on the tables that slsgd-mx theory leaves in
    RUNS/theory.

    \b
    slsgd-mx claims --preset smoke
    slsgd-mx claims --preset laptop --runs results.tar.gz --tables figures/laptop
    slsgd-mx claims --preset laptop --figures figures/laptop
    """
    from slsgd_mx.claims import THEORY, Evidence, judge_all, to_json, to_markdown, to_text
    from slsgd_mx.claims.starts import compare_starts
    from slsgd_mx.figures.variants import Variant

    asked = given(**changes)
    variant = Variant(preset, asked, repeats, seed or 0, loss, alphas or (), released)
    verdicts = judge_all(runs, variant, tables)
    starts = compare_starts(Evidence(runs, variant, tables))
    switched = {"released": True} if released else {}
    about = {"preset": preset, "seeds": list(variant.seeds), "changes": {**asked, **switched}}
    about.update(alphas=list(variant.alphas), loss=variant.loss, data=variant.data)
    text, as_json = to_json(verdicts, about), wants_json()
    click.echo(text if as_json else to_text(verdicts) + starts, nl=False)
    if figures is not None:
        page = to_markdown(verdicts, _of_first_seed(runs, variant, tables))
        page += f"\n{starts}" if starts else ""
        write({"claims.json": text, "claims.md": page}, figures)
    if variant.data == "synthetic":
        click.echo("synthetic data: these verdicts only show how claims are judged", err=True)
    missing = [verdict.claim for verdict in verdicts if verdict.missing]
    lacking = ", ".join(claim for claim in missing if claim in THEORY)
    archive = click.get_current_context().meta.get(COPIES, {}).get(str(runs))
    if missing and archive:
        unpack = f"slsgd-mx runs unpack {archive} --runs DIR"
        then = f", then slsgd-mx theory --runs DIR for {lacking}" if lacking else ""
        click.echo(f"runs are missing: to compute them, first {unpack}{then}", err=as_json)
        return
    where = {} if runs == Path("runs") else {"runs": runs}
    if set(missing) - set(THEORY):
        asked = {**given(repeats=repeats, seed=seed, alphas=alphas), **asked, **where}
        options = given(released=released or None, **asked)
        command = " ".join(["slsgd-mx all", spell("preset", preset), _spell(options)]).strip()
        click.echo(f"what to do now: {command} computes the missing runs", err=as_json)
    if lacking:
        command = f"slsgd-mx theory {_spell(where)}".strip()
        click.echo(f"what to do now: {command} computes what {lacking} lack", err=as_json)


def _of_first_seed(runs: Path, variant: Any, tables: Optional[Path]) -> List[Any]:
    """The verdicts of C1 to C9 on the first of several seeds, with fixed margins; else none."""
    from slsgd_mx.claims import CLAIMS, THEORY, judge_all

    if len(variant.seeds) == 1:
        return []
    names = [name for name in CLAIMS if name not in THEORY]
    return judge_all(runs, replace(variant, repeats=1), tables, names)


def _spell(options: Mapping[str, Any]) -> str:
    return " ".join(spell(name, value) for name, value in options.items())


def write(files: Mapping[str, str], folder: Path) -> None:
    """Write texts, by file name."""
    from slsgd_mx.system.files import disk_errors, write_atomically

    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_atomically(folder / name, text.encode())
