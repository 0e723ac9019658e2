"""The arena: every rule against every attack, in one command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional, Tuple

import click

from slsgd_mx.cli.options import COUNT, IMAGES, given, parameter, pick, with_options
from slsgd_mx.cli.output import json_option, print_json, say
from slsgd_mx.cli.types import ChoiceIn

SYMBOLS = (
    *("n", "k", "epochs", "alpha_decay_epoch", "gamma", "batch_size", "eval_every", "selection"),
    *("warm_up", "partition_seed", "nonfinite", "drop_rate"),
    *(name for name in IMAGES if parameter(name) != "partition"),
)


@click.command()
@with_options(
    pick("preset", help=
        "laptop: CIFAR-10, 16 epochs a cell. smoke: embedded synthetic data, 8 epochs a cell, "
        "minutes. paper: as published, weeks."),
    pick("rule", multiple=True, help="A rule; repeat it. Default: eight of the field's rules."),
    pick("attack", multiple=True, help="An attack; repeat it. Default: six."),
    pick("q", multiple=True, help="q: poisoned workers an epoch; repeat it. Default: 2."),
    pick("b", multiple=True, help="b: what the rule is prepared for; repeat it. Default: 2."),
)  # fmt: skip
@click.option(
    "--partition", "partitions", multiple=True,
    type=ChoiceIn("partitions", "PARTITIONS", "find_partition"),
    help="A partition of the images; repeat it. Default: balanced.",
)  # fmt: skip
@with_options(pick("alpha", multiple=True, help=
    "alpha: weight of the new model after the decay epoch; repeat it. Default: 1."))  # fmt: skip
@click.option("--repeats", type=COUNT, default=1, show_default=True, help="Number of seeds.")
@click.option("--curves", is_flag=True, help="Also draw the curves behind the cells.")
@with_options(
    *SYMBOLS,
    *("seed", "data_dir", "jobs", "threads", "runs", "figures", "dry_run", "draw_only"),
    *("no_share", "engine", "workers", "servers"),
    json_option,
)
def arena(
    preset: str,
    rule: Tuple[str, ...],
    attack: Tuple[str, ...],
    q: Tuple[int, ...],
    b: Tuple[int, ...],
    partitions: Tuple[str, ...],
    alpha: Tuple[float, ...],
    repeats: int,
    curves: bool,
    seed: Optional[int],
    data_dir: Optional[Path],
    jobs: Optional[int],
    threads: Optional[int],
    runs: Path,
    figures: Optional[Path],
    dry_run: bool,
    draw_only: bool,
    no_share: bool,
    engine: str,
    **changes: Any,
) -> None:
    """Which aggregation rule survives which attack?

    Trains every rule without attack and under every attack, sharing runs with other commands, and
    draws a heat map of the final test accuracy: rules by attacks, and each rule's worst case. A
    rule that is illegal for k and b leaves an empty cell with the reason. Writes arena.png, .svg,
    .csv, .json and .md (the verdict in words). The same command resumes.

    \b
    In minutes, no data:  slsgd-mx arena --preset smoke
    Only what you want:   slsgd-mx arena --preset smoke --rule krum --attack alie
    With your own attack: slsgd-mx arena --plugin mine.py --attack mine
    What will it take?    slsgd-mx arena --preset laptop --dry-run
    """
    from slsgd_mx.arena.grid import ATTACKS, RULES, Arena
    from slsgd_mx.cli.engines import server_options
    from slsgd_mx.cli.figures import by_reason, compute
    from slsgd_mx.errors import RunError
    from slsgd_mx.sweeps.plan import make_plan

    server, changes = server_options(engine, changes)
    grid = Arena(
        preset,
        rules=rule or RULES,
        attacks=attack or ATTACKS,
        partitions=partitions or ("balanced",),
        qs=q or (2,),
        bs=b or (2,),
        alphas=alpha or (1.0,),
        repeats=repeats,
        seed=seed or 0,
        changes=given(**changes),
    )
    plan = make_plan({"arena": grid.runs()}, runs, share=not no_share)
    if dry_run:
        from slsgd_mx.cli.planning import show_plan

        show_plan(plan, {"arena": grid.runs()}, jobs, threads, server and server["workers"])
        return
    failed = {} if draw_only else compute(plan, data_dir, jobs, threads, server)
    missing = dict(line.split(": ", 1) for line in _write(grid, runs, figures, curves))
    if failed or missing:
        raise RunError(f"not finished:\n{by_reason({**missing, **failed})}\nRun the command again")


def _write(grid: Any, runs: Path, folder: Optional[Path], curves: bool) -> list:
    """Draw and write everything; return the runs that are missing."""
    from slsgd_mx.arena import pictures, results
    from slsgd_mx.system.files import disk_errors, write_atomically, write_csv

    boards = results.read_boards(grid, runs)
    folder = folder or Path("figures") / grid.preset
    synthetic = grid.runs()[0].sizes.data == "synthetic"
    title = "Final test accuracy, rules by attacks" + " (synthetic data)" * synthetic
    note = _note(grid)
    stem = folder / "arena"
    files = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    pictures.draw_heat_maps(boards, files, title, note)
    if curves:
        for number, board in enumerate(boards, start=1):
            path = folder / f"arena-curves-{number}.png"
            pictures.draw_curves(board, path, "Test accuracy", note)
            files.append(path)
    write_csv(stem.with_suffix(".csv"), results.COLUMNS, results.table(boards))
    text = "\n\n".join(_words(board, results.verdict(board)) for board in boards)
    with disk_errors(folder):
        write_atomically(stem.with_suffix(".json"), results.to_json(grid, boards).encode())
        write_atomically(stem.with_suffix(".md"), f"{text}\n\n{note}\n".encode())
    say(text)
    print_json(json.loads(results.to_json(grid, boards)))
    say(f"picture: {files[0]}  (also .svg, .csv, .json and .md)")
    return results.missing_runs(boards)


def _words(board: Any, lines: list) -> str:
    return "\n".join([f"## {board.setting}", "", *[f"- {line}" for line in lines]])


def _note(grid: Any) -> str:
    config = grid.runs()[0]
    seeds = f"seed {grid.seed}"
    if grid.repeats > 1:
        seeds = f"seeds {grid.seed} to {grid.seed + grid.repeats - 1}"
    data = "embedded synthetic images" if config.sizes.data == "synthetic" else config.sizes.data
    return (
        f"Data: {data}, {config.sizes.amount}; n={config.n}, k={config.k}, T={config.epochs}; "
        f"{seeds}. The orange frame marks the best worst case."
    )
