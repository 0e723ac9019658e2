"""Commands that train: one a workload, all on the same trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import click

from slsgd_mx.cli.options import (
    FAULTS,
    PRESET,
    RUNNING,
    algorithm_options,
    given,
    option,
    with_options,
)

TRAIN_IMAGES = option("--train-images", type=int, help="Training images used. Paper: 50,000.")
IMAGES = [
    option(
        "--balanced/--unbalanced",
        help="Devices of equal size with all labels, or of sizes 104...896 with at most 5 labels.",
    ),
    option(
        "--data",
        type=click.Choice(["cifar10", "synthetic"]),
        help="CIFAR-10, or an embedded, drawn stand-in of the same shape.",
    ),
    TRAIN_IMAGES,
]
CNN = algorithm_options(gamma="0.1 and 0.05", batch="50 images", decay=400)
LSTM = algorithm_options(gamma="20", batch="20 sequences", decay=600)
NETWORK = [
    option("--test-images", type=int, help="Test images used. Paper: 10,000."),
    option("--loss-images", type=int, help="Training images the training loss is measured on."),
    option("--width", type=int, help="Channels of the first convolution. Paper: 64."),
]


@click.command(
    epilog="FedAvg is alpha=1, b=0 (the defaults); local SGD is that with one number for "
    "--local-steps; the paper's attack is --q 2 (label flip)."
)
@with_options([PRESET], IMAGES, NETWORK, CNN, FAULTS, RUNNING)
def cifar(preset: str, **options: Any) -> None:
    """Train the paper's CNN on CIFAR-10 (Figures 1 to 10).

    \b
    The paper's run:        slsgd-mx cifar --balanced --alpha 0.8 --b 2
    Under attack:           slsgd-mx cifar --q 2 --b 2
    In a minute, no data:   slsgd-mx cifar --preset smoke --q 2 --b 2

    Rerunning a command resumes it, or says that it is done.
    """
    run_training("cifar", preset, **image_options(**options))


TEXT = [
    option(
        "--data",
        type=click.Choice(["wikitext2", "synthetic"]),
        help="WikiText-2, or an embedded, made-up text with structure to learn.",
    ),
    option(
        "--vocab-size", type=int, help="Most frequent types kept, the rest <unk>. Paper: 33278."
    ),
    option(
        "--partition",
        type=click.Choice(["shuffled", "consecutive"]),
        help="Batches dealt out to devices in random order (the released code) or as they follow.",
    ),
    option("--bptt", type=int, help="Tokens of a sequence in a minibatch. Paper: 35."),
    option("--device-batches", type=int, help="Minibatches each device holds. Paper: 32."),
    option("--loss-batches", type=int, help="Batches the training loss is measured on."),
    option("--test-batches", type=int, help="Batches of test text used. Paper: 350."),
    option("--width", type=int, help="Size of embedding and state. Paper: 200."),
]


@click.command(epilog="FedAvg is alpha=1, b=0 (the defaults).")
@with_options([PRESET], TEXT, LSTM, FAULTS, RUNNING)
def lstm(preset: str, **options: Any) -> None:
    """Train the paper's LSTM language model on WikiText-2 (Figures 11 to 13).

    \b
    Under attack:           slsgd-mx lstm --alpha 0.8 --b 2 --q 2 --attack label-permute
    In a minute, no data:   slsgd-mx lstm --preset smoke --q 2 --b 2

    Rerunning a command resumes it, or says that it is done.
    """
    run_training("lstm", preset, **options)


def image_options(balanced: Optional[bool], **options: Any) -> dict:
    """Options of image data by the names of the configuration."""
    if balanced is not None:
        options["partition"] = "balanced" if balanced else "unbalanced"
    return options


def run_training(
    task: str,
    preset: str,
    repeats: int,
    out: Optional[Path],
    data_dir: Optional[Path],
    threads: Optional[int],
    **changes: Any,
) -> None:
    """Build the configuration, say what is odd about it, train, show the result."""
    from slsgd_mx.cli.engines import current_engine
    from slsgd_mx.presets import preset as make_config
    from slsgd_mx.system.threads import set_threads

    engine = current_engine()
    set_threads(threads or engine.threads(preset))
    if engine.single and repeats > 1:
        raise click.UsageError("--repeats needs one job a seed here: give each job its own --seed")
    asked = {**given(**changes), **engine.changes}
    config = make_config(task, preset, **asked)
    warnings = config.warnings()
    if config.q == 0 and {"attack", "attacker_start", "attack_scale"} & set(asked):
        warnings.append("an attack with q=0 poisons nobody: give --q as well")
    if data_dir is not None and config.sizes.data == "synthetic":
        warnings.append(f"--data-dir {data_dir} is not read: the data is synthetic (see --data)")
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)

    from slsgd_mx.cli.running import run_repeats

    run_repeats(config, repeats, out, data_dir)
