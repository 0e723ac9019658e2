"""Commands that train: one for each workload, all on the same trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional, Sequence

import click

from slsgd_mx.cli.options import ALGORITHM, FAULTS, IMAGES, TEXT, given, with_options
from slsgd_mx.cli.output import json_option

RUNNING = ("seed", "repeats", "eval_every", "data_dir", "out", "threads")
EPILOG = (
    "FedAvg is --alpha 1 --b 0 (the defaults); local SGD is FedAvg with one number for "
    "--local-steps; the paper's attack is --q 2."
)


@click.command(epilog=EPILOG)
@with_options("preset", "released", *IMAGES, *ALGORITHM, *FAULTS, *RUNNING, json_option)
def cifar(preset: str, **options: Any) -> None:
    """Train the paper's CNN on CIFAR-10 (Figures 1 to 10).

    \b
    As in the paper:        slsgd-mx cifar --balanced --alpha 0.8 --b 2
    Under attack:           slsgd-mx cifar --q 2 --b 2
    In a minute, no data:   slsgd-mx cifar --preset smoke --q 2 --b 2

    The same command again resumes an interrupted run, or says that it is done.
    """
    run_training("cifar", preset, **options)


@click.command(epilog=EPILOG)
@with_options("preset", "released", *TEXT, *ALGORITHM, *FAULTS, *RUNNING, json_option)
def lstm(preset: str, **options: Any) -> None:
    """Train the paper's LSTM on WikiText-2 (Figures 11 to 13).

    \b
    As in the paper:        slsgd-mx lstm --alpha 0.8 --b 2
    Under attack:           slsgd-mx lstm --q 2 --b 2 --attack label-permute
    In a minute, no data:   slsgd-mx lstm --preset smoke --q 2 --b 2

    The same command again resumes an interrupted run, or says that it is done.
    """
    run_training("lstm", preset, **options)


def run_training(
    task: str,
    preset: str,
    released: bool,
    repeats: Optional[int],
    out: Optional[Path],
    data_dir: Optional[Path],
    threads: Optional[int],
    **changes: Any,
) -> None:
    """Build the configuration, warn about odd combinations, train, show the result."""
    from slsgd_mx.cli.engines import current_engine
    from slsgd_mx.presets import RELEASED
    from slsgd_mx.presets import preset as make_config
    from slsgd_mx.system.threads import set_threads

    engine = current_engine()
    set_threads(threads or engine.threads(preset))
    asked = {**given(**changes), **engine.changes}
    config = make_config(task, preset, **{**(RELEASED[task] if released else {}), **asked})
    warnings = config.warnings()
    if config.q == 0 and {"attack", "attacker_start", "attack_scale", "boost"} & set(asked):
        warnings.append("an attack with q=0 poisons nobody: give --q as well")
    warn_and_run(config, warnings, repeats, out, data_dir)


def warn_and_run(
    config: Any,
    warnings: Sequence[str],
    repeats: Optional[int],
    out: Optional[Path],
    data_dir: Optional[Path],
) -> None:
    """Print the warnings, then train on the current engine."""
    from slsgd_mx.cli.engines import current_engine

    if current_engine().single and (repeats or 1) > 1:
        raise click.UsageError("--repeats is not possible here: start one job for each --seed")
    if data_dir is not None and config.sizes.data == "synthetic":
        warnings = [*warnings, f"--data-dir {data_dir} is not read: the data is synthetic"]
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)

    from slsgd_mx.cli.running import run_repeats

    run_repeats(config, repeats or 1, out, data_dir)
