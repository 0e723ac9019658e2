"""The arena: every rule against every attack, in one command."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import click

from slsgd_mx.arena import ATTACKS, RULES
from slsgd_mx.cli.options import COUNT, IMAGES, parameter, pick, with_options
from slsgd_mx.cli.output import print_json, say, warn_if_unread
from slsgd_mx.cli.sweeping import WORKLOAD, by_reason, running, take_sweep, take_workload
from slsgd_mx.cli.types import ChoiceIn

SYMBOLS = (
    *("n", "k", "epochs", "alpha_decay_epoch", "gamma", "batch_size", "eval_every", "selection"),
    *("warm_up", "partition_seed", "nonfinite", "drop_rate", "precision"),
    *(name for name in IMAGES if parameter(name) != "partition"),
)


@click.command()
@with_options(
    pick("task_preset", help=
        "laptop: CIFAR-10, 16 epochs a cell. smoke: embedded synthetic data, 8 epochs a cell, "
        "minutes. paper: as published, weeks. Default: paper, or the first preset of the workload "
        "that --task names."),
    *WORKLOAD,
    pick("rule", multiple=True, help=
        "A rule, such as krum or nnm+krum; repeat it. docs/conformance.md defines all. Default: "
        f"{', '.join(RULES)}."),
    pick("attack", multiple=True, help=f"An attack; repeat it. Default: {', '.join(ATTACKS)}."),
    pick("q", multiple=True, help="q: poisoned workers an epoch; repeat it. Default: 2."),
    pick("poisoned_devices", multiple=True, help=
        "Instead of --q: so many of the n devices, chosen by the seed, are poisoned whenever they "
        "are selected; repeat it."),
    pick("b", multiple=True, help="b: what the rule is prepared for; repeat it. Default: 2."),
)  # fmt: skip
@click.option(
    "--partition", "--partitions", "partition", multiple=True,
    type=ChoiceIn("partitions", "PARTITIONS", "find_partition"),
    help="A partition of the images; repeat it. Default: balanced.",
)  # fmt: skip
@with_options(pick("alpha", multiple=True, help=
    "alpha: weight of the new model after the decay epoch; repeat it. Default: 1."))  # fmt: skip
@click.option("--repeats", type=COUNT, default=1, show_default=True, help="Number of seeds.")
@click.option("--curves", is_flag=True, help="Also draw the curves behind all cells.")
@click.option(
    "--cell", "cells", multiple=True, nargs=2, metavar="RULE ATTACK",
    help="Also draw the curves behind this cell, and its rule's without attack; repeat it.",
)  # fmt: skip
@with_options(*SYMBOLS, *running(pick("figures")))
def arena(curves: bool, cells: Tuple[Tuple[str, str], ...], **options: Any) -> None:
    """Which aggregation rule survives which attack?

    Trains every rule without attack and under every attack, sharing runs with other commands, and
    draws a heat map of the final test accuracy (the loss where a workload has none): rules by
    attacks, and each rule's worst case. A rule or attack that is illegal here leaves an empty cell
    with the reason. Writes arena.png, .svg, .csv, .json and .md (the verdict in words), and
    arena-used.png (which pushes the rules used). The same command resumes.

    \b
    In minutes, no data: slsgd-mx arena --preset smoke
    Only what you want:  slsgd-mx arena --preset smoke --rule krum --attack alie
    Your own attack:     slsgd-mx arena --preset smoke --plugin my.py --attack my
    Your own images:     slsgd-mx arena --task images --arrays my.npz
    Why did it fail?     slsgd-mx arena --preset smoke --cell phocas alie
    What will it take?   slsgd-mx arena --preset laptop --dry-run
    """
    from slsgd_mx.arena import results

    sweep = take_sweep(options)
    grid, folder = _grid(options, sweep.servers["servers"] if sweep.servers else 1)
    cells = _find_cells(grid, cells)
    for warning in grid.warnings():
        click.echo(f"warning: {warning}", err=True)
    wanted = {"arena": grid.runs()}
    warn_if_unread(sweep.data_dir, wanted["arena"])
    plan = sweep.plan(wanted)
    empty = grid.empty_cells()
    if empty:
        click.echo(f"empty cells:\n{by_reason(empty)}", err=True)
    if sweep.dry_run:
        sweep.show(plan, wanted)
        return
    failed = sweep.compute(plan)
    boards = results.read_boards(grid, sweep.runs)
    missing = dict(line.split(": ", 1) for line in results.missing_runs(boards))
    for slug in results.stuck_runs(boards):
        failed.pop(slug, None)
    if len(missing) < len(wanted["arena"]):
        _write(grid, boards, folder, curves, cells)
    if failed or missing:
        raise sweep.unfinished(missing, failed, wanted)


def _grid(options: Dict[str, Any], servers: int) -> Tuple[Any, Path]:
    """The arena that the options ask for, and the folder for its pictures."""
    from slsgd_mx.arena.grid import Arena
    from slsgd_mx.figures.variants import Variant

    names = ("rule", "attack", "q", "poisoned_devices", "b", "partition", "alpha")
    lists = {name: options.pop(name) for name in names}
    if lists["q"] and lists["poisoned_devices"]:
        raise click.UsageError("give either --q or --poisoned-devices")
    repeats, seed, figures = (options.pop(name) for name in ("repeats", "seed", "figures"))
    workload = take_workload("cifar", options)
    workload.refuse_to_set(names)
    grid = Arena(
        workload.preset,
        rules=lists["rule"] or RULES,
        attacks=lists["attack"] or ATTACKS,
        partitions=lists["partition"],
        qs=lists["q"] or (2,),
        poisoned_devices=lists["poisoned_devices"],
        bs=lists["b"] or (2,),
        alphas=lists["alpha"] or (1.0,),
        repeats=repeats,
        seed=seed or 0,
        task=workload.task or "cifar",
        servers=servers,
        changes=workload.changes,
    )
    listed = {name: "-".join(map(str, values)) for name, values in lists.items() if values}
    changes = {**listed, **workload.changes}
    if repeats > 1:  # an arena has one, whatever the figures of its preset have
        changes["repeats"] = repeats
    variant = Variant(workload.preset, changes, seed=grid.seed, task=workload.task)
    return grid, figures or Path("figures") / variant.folder


def _find_cells(grid: Any, cells: Tuple[Tuple[str, str], ...]) -> Tuple[Tuple[str, str], ...]:
    """The cells, spelt as in the arena."""
    from slsgd_mx.attacks import find_attack
    from slsgd_mx.rules.pipeline import find_rule

    names = (grid.rules, find_rule), (grid.columns, find_attack)
    return tuple((_spelt(cell, 0, *names[0]), _spelt(cell, 1, *names[1])) for cell in cells)


def _spelt(cell: Tuple[str, str], place: int, known: Tuple[str, ...], find: Callable) -> str:
    """How the arena spells the rule or the attack of a cell; a UsageError if it lacks it."""
    from slsgd_mx.errors import ConfigError

    name = cell[place]
    if name not in known:
        with suppress(ConfigError):
            name = find(name).text
    if name not in known:
        raise click.UsageError(
            f"--cell {' '.join(cell)}: {cell[place]!r} is not in this arena, which has "
            f"{', '.join(known)}"
        )
    return name


def _write(grid: Any, boards: list, folder: Path, curves: bool, cells: tuple) -> None:
    """Draw and write everything."""
    from slsgd_mx.arena import results, tables, verdict
    from slsgd_mx.system.files import disk_errors, write_atomically, write_csv

    note, stem = _note(grid, results.missing_runs(boards)), folder / "arena"
    _draw(grid, boards, folder, note, curves, cells)
    write_csv(stem.with_suffix(".csv"), *tables.table(grid, boards))
    parts = [_words(str(board.setting), verdict.verdict(board)) for board in boards]
    alphas = verdict.compare_alphas(boards)
    text = "\n\n".join([*parts, *[_words("alpha", alphas)] * bool(alphas)])
    content = tables.to_json(grid, boards)
    with disk_errors(folder):
        write_atomically(stem.with_suffix(".json"), content.encode())
        write_atomically(stem.with_suffix(".md"), f"{text}\n\n{note}\n".encode())
    say(text)
    print_json(json.loads(content))
    say(f"picture: {stem}.png  (also .svg, .csv, .json and .md); used pushes: {stem}-used.png")


def _draw(grid: Any, boards: list, folder: Path, note: str, curves: bool, cells: tuple) -> None:
    from slsgd_mx.arena import pictures
    from slsgd_mx.figures.captions import SYNTHETIC, precision_in_words

    config = grid.runs()[0]
    of = SYNTHETIC * (config.sizes.data == "synthetic") + precision_in_words(config)
    of = of if grid.usual else f", {config.sizes.title}{of}"
    files = [folder / "arena.png", folder / "arena.svg"]
    unfinished = all(board.unfinished for board in boards)  # then no board has a frame
    frame = note if unfinished else f"{note} The orange frame marks the best worst case."
    words = boards[0].measure.words
    title = f"Final {words}, rules by attacks{of}"
    pictures.draw_heat_maps(boards, files, title, frame)
    title = f"Share of the poisoned pushes that the rule used{of}"
    lost = f"{note} Last half of the epochs; lost: share of the honest pushes that were not used."
    pictures.draw_used(boards, folder / "arena-used.png", title, lost)
    title = f"{words.capitalize()}{of}"
    for number, board in enumerate(boards, start=1):
        if curves:
            pictures.draw_curves(board, folder / f"arena-curves-{number}.png", title, note)
    if cells:
        pictures.draw_cells(boards, cells, folder / "arena-cells.png", title, note)


def _words(title: str, lines: list) -> str:
    return "\n".join([f"## {title}", "", *[f"- {line}" for line in lines]])


def _note(grid: Any, missing: list) -> str:
    from slsgd_mx.figures.panels import seeds_in_words
    from slsgd_mx.workloads import OWN

    runs = grid.runs()
    config, seeds = runs[0], seeds_in_words(range(grid.seed, grid.seed + grid.repeats))
    lacks = f" {len(missing)} of {len(runs)} runs are missing." if missing else ""
    own = {"synthetic": "Data: synthetic, embedded, ", OWN: ""}
    data = own.get(config.sizes.data, f"Data: {config.sizes.data}, ")
    workload = "" if grid.usual else f"Workload: {config.sizes.title}. "
    return (
        f"{workload}{data}{config.sizes.amount}; n={config.n}, k={config.k}, "
        f"T={config.epochs}; {seeds}.{lacks}"
    )
