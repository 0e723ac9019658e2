"""Draw which device holds which data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import click

from slsgd_mx.cli.options import given, pick_formerly_out, with_options
from slsgd_mx.cli.output import json_option, print_json, say


@click.command()
@with_options(
    *("preset", "image_partition", "image_named_partition", "image_data", "train_images", "n"),
    *("seed", "data_dir"),
)
@pick_formerly_out("picture")
@json_option
def partition(preset: str, data_dir: Optional[Path], picture: Path, **options: Any) -> None:
    """Draw which device holds which labels.

    The picture shows each device's samples by label, its size and its number of distinct labels.

    \b
    slsgd-mx partition --unbalanced                       CIFAR-10
    slsgd-mx partition --unbalanced --data synthetic      without any data
    slsgd-mx partition --partition dirichlet:concentration=0.3
    """
    from slsgd_mx.data.load import load_images
    from slsgd_mx.figures.partition import draw_partition
    from slsgd_mx.partitions import label_counts
    from slsgd_mx.partitions import partition as deal
    from slsgd_mx.presets import preset as make_config
    from slsgd_mx.randomness import stream

    config = make_config("cifar", preset, **given(**options))
    sizes = config.sizes
    labels = load_images(sizes.data, data_dir, sizes.train_images, sizes.test_images).train_y
    parts = deal(sizes.partition, labels, config.n, stream(config.data_seed, "partition"))
    counts = label_counts(parts, labels, classes=10)
    title = f"{sizes.partition.capitalize()} partition of {sizes.data}, n={config.n}"
    draw_partition(counts, picture, title)
    lengths, distinct = counts.sum(axis=1), (counts > 0).sum(axis=1)
    print_json({"picture": picture, "n": config.n, "label_counts": counts, "sizes": lengths})
    say(
        f"{config.n} devices of {lengths.min()} to {lengths.max()} images, "
        f"{distinct.min()} to {distinct.max()} labels per device: {picture}"
    )
