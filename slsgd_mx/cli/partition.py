"""Draw who has which data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import click

from slsgd_mx.cli.options import DATA_DIR, DEVICES, PRESET, SEED, given, with_options
from slsgd_mx.cli.training import IMAGES, image_options


@click.command()
@with_options([PRESET], IMAGES, [DEVICES, SEED, DATA_DIR])
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("partition.png"),
    show_default=True,
    help="Picture to write, .png or .svg.",
)
def partition(preset: str, data_dir: Optional[Path], out: Path, **options: Any) -> None:
    """Draw the partition: devices x labels, with sizes and distinct labels.

    \b
    slsgd-mx partition --unbalanced                       CIFAR-10
    slsgd-mx partition --unbalanced --data synthetic      without any data
    """
    from slsgd_mx.data import load_images
    from slsgd_mx.figures.plot import draw_partition
    from slsgd_mx.partitions import label_counts
    from slsgd_mx.partitions import partition as deal
    from slsgd_mx.presets import preset as make_config
    from slsgd_mx.randomness import stream

    config = make_config("cifar", preset, **given(**image_options(**options)))
    sizes = config.sizes
    labels = load_images(sizes.data, data_dir, sizes.train_images, sizes.test_images).train_y
    parts = deal(sizes.partition, labels, config.n, stream(config.seed, "partition"))
    counts = label_counts(parts, labels, classes=10)
    title = f"{sizes.partition.capitalize()} partition of {sizes.data}, n={config.n}"
    draw_partition(counts, out, title)
    lengths, distinct = counts.sum(axis=1), (counts > 0).sum(axis=1)
    click.echo(
        f"{config.n} devices of {lengths.min()} to {lengths.max()} images, "
        f"{distinct.min()} to {distinct.max()} labels a device: {out}"
    )
