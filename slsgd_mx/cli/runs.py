"""List, show, compare and export stored runs."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

import click

from slsgd_mx.cli.options import FOLDER, PATH, WHERE, pick
from slsgd_mx.cli.output import json_option, print_json, run_document, say, table, wrap
from slsgd_mx.cli.sharing import pack, unpack
from slsgd_mx.cli.types import RunName

HOME = pick("runs", help="Folder that holds the run folders, at any depth, or a packed archive.")
FOLDERS = click.argument("folders", nargs=-1, required=True, metavar="RUN...", type=RunName())
METRIC = click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Column of metrics.csv to compare and draw, instead of the usual ones. Give it again for "
    "further panels.",
)
OUT = click.option(
    "--out", type=PATH, default=Path("runs.csv"), show_default=True, help="CSV file to write."
)
WIDE = click.option(
    "--wide",
    is_flag=True,
    help="One row for each run and evaluation, with every column of metrics.csv, instead of one "
    "row for each run, evaluation and metric.",
)
TENSORBOARD = click.option(
    "--tensorboard",
    type=FOLDER,
    metavar="DIR",
    help="Write event files for TensorBoard into DIR instead of a CSV file; needs pip install "
    '"slsgd-mx[tensorboard]".',
)
SHOWN_ROWS = 12  # of metrics.csv
MANY = 20  # runs: of more, those that are verified are counted


@click.group(invoke_without_command=True)
@HOME
@WHERE
@json_option
@click.pass_context
def runs(ctx: click.Context, runs: Path, conditions: Tuple[str, ...]) -> None:
    """List stored runs; show, compare, export, verify or share them.

    Without a subcommand: one line for each run below --runs, with the symbols in which the runs
    differ, the epochs computed and the metrics of the last evaluation. A run is done, running,
    interrupted (the command that started it resumes it), diverged (its model stopped being finite),
    failed (no update was ever applied) or damaged.

    \b
    slsgd-mx runs
    slsgd-mx runs --where b=2 --where "q>=2"
    slsgd-mx runs show 3f9a1c
    slsgd-mx runs compare 3f9a1c 77b2e0 --picture compare.png
    slsgd-mx runs export --out all.csv
    slsgd-mx runs verify
    slsgd-mx runs pack --out results.tar.gz

    The name of a run is its folder, or a unique part of its folder's name such as the digits that
    the list shows.
    """
    if ctx.invoked_subcommand is None:
        list_runs(runs, conditions)
    elif conditions or ctx.get_parameter_source("runs").name == "COMMANDLINE":
        raise click.UsageError(f"put the options after the subcommand: {ctx.invoked_subcommand}")


def list_runs(home: Path, conditions: Sequence[str]) -> None:
    """Print the table of all runs, or the chosen ones."""
    from slsgd_mx.runs.records import load_runs
    from slsgd_mx.runs.selection import brief, in_common, select, short_names, varying

    every = load_runs(home)
    chosen = select(every, conditions)
    names = short_names((run.path for run in every), home)
    differ = varying(chosen)
    print_json(
        {
            "runs_folder": home,
            "differ": differ,
            "in_common": in_common(chosen),
            "runs": [{"name": names[run.path], **run_document(run)} for run in chosen],
        }
    )
    among = f" of {len(every)}" if conditions else ""
    say(f"{len(chosen)}{among} {'run' if len(every) == 1 else 'runs'} in {home}")
    if not chosen:
        return
    common = [f"{name}={brief(value)}" for name, value in in_common(chosen).items()]
    if common:
        say(wrap(f"in common: {' '.join(common)}"))
    metrics = list(dict.fromkeys(name for run in chosen for name in run.metrics))
    header = ["run", "epoch", "status", *differ, *metrics]
    rows = [
        [
            names[run.path],
            f"{run.epoch}/{run.symbols.get('epochs', '?')}",
            run.status,
            *(brief(run.symbols[name]) if name in run.symbols else "" for name in differ),
            *(f"{run.last[name]:#.4g}" if name in run.last else "" for name in metrics),
        ]
        for run in chosen
    ]
    say()
    say(table(header, rows, first=3))


def _find(names: Sequence[str], home: Path) -> List[Any]:
    """The runs that the user named; those below ``home`` are read only if a name is no folder."""
    from slsgd_mx.runs.records import load_run, load_runs
    from slsgd_mx.runs.selection import find_run

    others = any(not (Path(name) / "config.json").exists() for name in names)
    known = load_runs(home) if others else []
    found: Dict[Path, Path] = {}  # each run once, under the first of its names
    for name in names:
        path = find_run(name, known, home)
        found.setdefault(path.resolve(), path)
    return [load_run(path) for path in found.values()]


@runs.command("show")
@click.argument("folder", metavar="RUN", type=RunName())
@HOME
@json_option
def show_run(folder: str, runs: Path) -> None:
    """Show one run: its configuration, what computed it, its metrics.

    \b
    slsgd-mx runs show runs/mine
    slsgd-mx runs show 3f9a1c
    """
    from slsgd_mx.runs.selection import brief

    (run,) = _find([folder], runs)
    print_json({**run_document(run), "manifest": run.manifest, "metrics": run.columns})
    say(str(run.path))
    say(f"{run.status}, epoch {run.epoch} of {run.symbols.get('epochs', '?')}")
    if run.why:
        say(wrap(run.why, indent="  "))
    say("configuration")
    say(wrap(" ".join(f"{name}={brief(value)}" for name, value in run.symbols.items()), "  "))
    say("computed by")
    for session in run.manifest["sessions"] or [{}]:
        names = ("started", "after_epoch", "slsgd_mx", "mxnet", "numpy", "python", "threads")
        names += ("cpu", "instructions")
        words = [f"{name}={session[name]}" for name in names if name in session]
        say(wrap(" ".join(words) or "unknown", "  "))
    if len(run.columns.get("epoch", ())):
        _show_rows(run)
    else:
        say("not evaluated yet" if run.status != "damaged" else "its numbers are not shown")


def _show_rows(run) -> None:
    """Print what happened to the pushes, and evenly spaced rows of metrics.csv."""
    lost = {"refused": "pushes refused", "missing": "pushes missing", "skipped": "epochs skipped"}
    counted = [name for name in lost if name in run.columns and run[name].dtype.kind == "i"]
    if counted:
        say(", ".join(f"{lost[name]}: {run[name].sum()}" for name in counted))
    count = len(run["epoch"])
    few = min(count, SHOWN_ROWS)
    kept = sorted({round(i * (count - 1) / max(1, few - 1)) for i in range(few)})
    names = [name for name in ("epoch", "alpha", *run.metrics) if name in run.columns]
    say(table(names, [[f"{run[name][i]:.6g}" for name in names] for i in kept]))
    if count > few:
        say(f"({few} of {count} evaluations; all are in {run.path / 'metrics.csv'})")


@runs.command()
@FOLDERS
@HOME
@METRIC
@pick("picture", default=Path("compare.png"))
@json_option
def compare(folders: Tuple[str, ...], runs: Path, metrics: Tuple[str, ...], picture: Path) -> None:
    """Compare runs in a table and a picture.

    The table has the symbols in which the runs differ and their metrics after the last epoch that
    all of them have evaluated. In the picture, runs that differ only in their seed are one curve.

    \b
    slsgd-mx runs compare runs/one runs/other
    slsgd-mx runs compare 3f9a1c 77b2e0 --metric test_loss --picture loss.svg
    """
    from slsgd_mx.errors import ConfigError, RunError
    from slsgd_mx.figures.comparison import plot_runs
    from slsgd_mx.runs.selection import brief, short_names, varying

    chosen = _find(folders, runs)
    if len(chosen) < 2:
        raise click.UsageError("name at least two different runs to compare")
    for run in chosen:
        if run.status == "damaged":
            raise RunError(run.why)
    evaluated = [set(run.columns.get("epoch", ())) for run in chosen]
    shared = set.intersection(*evaluated)
    if not shared:
        raise RunError("the runs have no evaluated epoch in common: there is nothing to compare")
    paths = [run.path.absolute() for run in chosen]
    short = short_names(paths, Path(os.path.commonpath(paths)))
    epoch, names = int(max(shared)), {run.path: short[path] for run, path in zip(chosen, paths)}
    differ = varying(chosen)
    measured = [name for name in chosen[0].metrics if all(name in run.metrics for run in chosen)]
    measured = list(metrics) or measured
    if not measured:
        each = "; ".join(f"{names[run.path]} has {', '.join(run.metrics)}" for run in chosen)
        raise ConfigError(f"the runs have no metric in common: {each}")
    plot_runs(chosen, list(metrics) or None, picture)
    rows, documents = [], []
    for run in chosen:
        at = list(run["epoch"]).index(epoch)
        values = {name: run[name][at].item() for name in measured if name in run.columns}
        documents.append({"name": names[run.path], **run_document(run), "at_epoch": values})
        symbols = [brief(run.symbols[name]) if name in run.symbols else "" for name in differ]
        numbers = [f"{values[name]:#.4g}" if name in values else "" for name in measured]
        rows.append([names[run.path], run.status, *symbols, *numbers])
    print_json({"epoch": epoch, "differ": differ, "runs": documents, "picture": picture})
    say(f"metrics after epoch {epoch}, the last that all of them have evaluated")
    say()
    say(table(["run", "status", *differ, *measured], rows, first=2))
    say()
    say(f"picture: {picture}")


@runs.command()
@HOME
@WHERE
@OUT
@WIDE
@TENSORBOARD
@json_option
def export(runs: Path, conditions: Tuple[str, ...], out: Path, wide: bool, tensorboard) -> None:
    """Write the numbers of many runs into one CSV file.

    Every row names its run and all symbols of its configuration, so the file needs nothing else:
    read it with pandas, R or a spreadsheet.

    \b
    slsgd-mx runs export --where attack=label-flip --out flips.csv
    slsgd-mx runs export --wide
    slsgd-mx runs export --tensorboard events
    tensorboard --logdir events
    """
    from slsgd_mx.runs.export import tidy, write_events
    from slsgd_mx.runs.export import wide as widen
    from slsgd_mx.runs.records import load_runs
    from slsgd_mx.runs.selection import select
    from slsgd_mx.system.files import warn, write_csv

    every = load_runs(runs)
    chosen = select(every, conditions)
    if not chosen:
        warn(f"none of the {len(every)} runs in {runs} is chosen, so no numbers are exported")
    if tensorboard is not None:
        folders = write_events(chosen, runs, tensorboard)
        print_json({"folders": folders})
        say(f"event files of {len(folders)} runs: {tensorboard}")
        return
    header, rows = (widen if wide else tidy)(chosen)
    write_csv(out, header, rows)
    print_json({"file": out, "columns": header, "rows": len(rows), "runs": len(chosen)})
    say(f"{len(rows)} rows of {len(chosen)} runs: {out}")


@runs.command("verify")
@click.argument("folders", nargs=-1, metavar="[RUN]...", type=RunName())
@HOME
@json_option
def verify(folders: Tuple[str, ...], runs: Path) -> None:
    """Check runs against the digests of their rows, pushes and models.

    Without names, all runs below --runs; of more than 20, those that are verified are counted and
    the others listed. Exit code 1 if something is wrong; a run of an earlier
    version, which stored no digest of its rows, is reported as not verifiable.

    \b
    slsgd-mx runs verify
    slsgd-mx runs verify runs/mine
    slsgd-mx runs verify 3f9a1c
    """
    from slsgd_mx.errors import RunError
    from slsgd_mx.runs.records import find_folders, load_runs
    from slsgd_mx.runs.selection import find_run
    from slsgd_mx.runs.verify import VERIFIED, verify_run

    elsewhere = [name for name in folders if not Path(name).is_dir()]
    known = load_runs(runs) if elsewhere else []
    named = [find_run(name, known, runs) if name in elsewhere else Path(name) for name in folders]
    paths = named or find_folders(runs)
    if not paths:
        raise RunError(f"there is no run below {runs}: give --runs, or the folders of runs")
    checks = [verify_run(path) for path in paths]
    print_json([{"path": c.path, "result": c.result, "why": c.why} for c in checks])
    alike = [c for c in checks if c.result == VERIFIED] if len(checks) > MANY else []
    for check in (check for check in checks if check not in alike):
        say(f"{check.result}: {check.path}{': ' + check.why if check.why else ''}")
    for why, number in Counter(check.why for check in alike).items():
        say(f"{VERIFIED}: {number} runs{': ' + why if why else ''}")
    counts = Counter(check.result for check in checks)
    say(", ".join(f"{number} {result}" for result, number in counts.most_common()))
    wrong = sum(not check.ok for check in checks)
    if wrong:
        raise RunError(f"{wrong} of {len(checks)} runs are not what they were when they finished")


runs.add_command(pack)
runs.add_command(unpack)
