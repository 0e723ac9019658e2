"""Share stored runs: pack them into one archive, unpack one."""

from __future__ import annotations

from pathlib import Path
from typing import Optional, Tuple

import click

from slsgd_mx.cli.options import FILE, FOLDER, PATH, WHERE, pick
from slsgd_mx.cli.output import count, json_option, print_json, say

OUT = click.option(
    "--out", type=PATH, default=Path("runs.tar.gz"), show_default=True, help="Archive to write."
)
MODELS = click.option(
    "--models", is_flag=True, help="Pack the final models as well: 10 MB for each of the CNN's."
)
CLAIMS = click.option(
    "--figures", type=FOLDER, help="Folder whose claims.json and claims.md are packed as well."
)


@click.command()
@pick("runs", type=FOLDER)
@WHERE
@OUT
@MODELS
@CLAIMS
@json_option
def pack(
    runs: Path, conditions: Tuple[str, ...], out: Path, models: bool, figures: Optional[Path]
) -> None:
    """Write finished runs into one archive for somebody else.

    It holds configurations, manifests, metrics and the record of pushes, a few kilobytes for each
    run, and the tables of slsgd-mx theory. Every command that reads runs takes it as --runs.

    \b
    slsgd-mx runs pack --where epochs=32 --out results.tar.gz
    slsgd-mx claims --preset laptop --runs results.tar.gz
    slsgd-mx fig3 --preset laptop --runs results.tar.gz
    slsgd-mx runs unpack results.tar.gz
    """
    from slsgd_mx.errors import ConfigError
    from slsgd_mx.runs.records import load_runs
    from slsgd_mx.runs.selection import select
    from slsgd_mx.runs.sharing import find_tables, pack_runs

    if not out.name.endswith(".tar.gz"):
        raise ConfigError(f"--out {out} needs a name that ends in .tar.gz")
    chosen = [run.path for run in select(load_runs(runs), conditions)]
    packed = pack_runs(chosen, runs, out, models, find_tables(runs, figures))
    document = {"file": out, "bytes": packed.bytes, "runs": packed.runs}
    print_json({**document, "unfinished": packed.unfinished})
    lacking = f"; {len(packed.unfinished)} unfinished left out" if packed.unfinished else ""
    what = "with their models" if models else "without models"
    many = count(len(packed.runs), "run")
    say(f"{many} {what}{lacking}: {out} ({packed.bytes / 1000:,.0f} kB)")


@click.command()
@click.argument("archive", type=FILE)
@pick("runs", type=FOLDER, help="Folder that will hold the run folders.")
@json_option
def unpack(archive: Path, runs: Path) -> None:
    """Unpack an archive of runs, after checking all of it.

    Every run is verified against its digests. Runs that are already there are left as they are;
    paths that lead elsewhere, links and archives that unpack to far more than their size are
    refused.

    \b
    slsgd-mx runs unpack results.tar.gz --runs theirs
    slsgd-mx runs --runs theirs
    """
    from slsgd_mx.runs.sharing import unpack_runs

    unpacked = unpack_runs(archive, runs)
    document = {"runs_folder": runs, "new": unpacked.new, "known": unpacked.known}
    print_json({**document, "unfinished": unpacked.unfinished})
    known = f", {len(unpacked.known)} already there" if unpacked.known else ""
    say(f"{count(len(unpacked.new), 'new run')}{known}: {runs}")
    for path in unpacked.unfinished:
        say(f"{path} is there and not finished: move it away to get the finished one")
