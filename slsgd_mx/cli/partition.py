"""Draw which device holds which data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional, Tuple

import click

from slsgd_mx.cli.options import given, pick_formerly_out, with_options
from slsgd_mx.cli.output import json_option, print_json, say, warn_if_unread


@click.command()
@with_options(
    *("preset", "image_partition", "image_named_partition", "image_data", "train_images", "n"),
    *("seed", "data_dir", "arrays"),
)
@pick_formerly_out("picture")
@json_option
def partition(picture: Path, **options: Any) -> None:
    """Draw which device holds which labels.

    The picture shows each device's samples by label, its size and its number of distinct labels.
    docs/reference.md defines the partitions: balanced and unbalanced (the paper's),
    dirichlet:concentration=0.5, shards:labels=2 and similarity:share=0.3, here with their defaults.

    \b
    slsgd-mx partition --unbalanced                       CIFAR-10
    slsgd-mx partition --unbalanced --data synthetic      without any data
    slsgd-mx partition --partition dirichlet:concentration=0.3
    slsgd-mx partition --arrays my.npz --partition shards
    """
    from slsgd_mx.figures.partition import draw_partition
    from slsgd_mx.partitions import label_counts
    from slsgd_mx.partitions import partition as deal
    from slsgd_mx.randomness import stream

    config, data = (_own if options["arrays"] else _cifar)(**options)
    sizes, labels = config.sizes, data.train_y
    parts = deal(sizes.partition, labels, config.n, stream(config.data_seed, "partition"))
    counts = label_counts(parts, labels, sizes.classes)
    title = f"{sizes.partition.capitalize()} partition of {sizes.data}, n={config.n}"
    draw_partition(counts, picture, title)
    lengths, distinct = counts.sum(axis=1), (counts > 0).sum(axis=1)
    print_json({"picture": picture, "n": config.n, "label_counts": counts, "sizes": lengths})
    say(
        f"{config.n} devices of {_range(lengths)} images, {_range(distinct)} labels per device: "
        f"{picture}"
    )


def _range(numbers: Any) -> str:
    """The smallest and the largest of some numbers, in words."""
    least, most = numbers.min(), numbers.max()
    return f"{least}" if least == most else f"{least} to {most}"


def _cifar(preset: str, data_dir: Optional[Path], arrays: None, **changes: Any) -> Tuple[Any, Any]:
    """The configuration and images of a run on CIFAR-10 or what stands for it."""
    from slsgd_mx.data.load import load_images
    from slsgd_mx.presets import preset as make_config

    config = make_config("cifar", preset, k=1, **given(**changes))  # k has no effect here
    sizes = config.sizes
    warn_if_unread(data_dir, [config])
    return config, load_images(sizes.data, data_dir, sizes.train_images, sizes.test_images)


def _own(arrays: Path, **options: Any) -> Tuple[Any, Any]:
    """The configuration and images of a run of ``train images --arrays``."""
    from slsgd_mx.data.arrays import load_arrays, sizes_in
    from slsgd_mx.presets import preset as make_config

    source = click.get_current_context().get_parameter_source
    for name in ("preset", "data", "train_images", "data_dir"):
        if source(name).name == "COMMANDLINE":
            raise click.UsageError(f"--{name.replace('_', '-')} does not go with --arrays")
    changes = {name: options[name] for name in ("partition", "n", "seed")}
    own = dict(sizes_in(arrays), network="mlp")  # which takes images of any shape
    config = make_config("images", "laptop", k=1, **own, **given(**changes))
    return config, load_arrays(config.sizes, arrays)
