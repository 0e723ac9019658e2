"""Does a minibatch fit what the devices hold?  Known before training starts; no MXNet."""

from __future__ import annotations

from typing import Optional

from slsgd_mx.config import RunConfig
from slsgd_mx.data.synthetic_text import MOST_TOKENS
from slsgd_mx.errors import ConfigError
from slsgd_mx.partitions import unbalanced_sizes
from slsgd_mx.tasks.images.sizes import ImageSizes
from slsgd_mx.tasks.lstm.sizes import Lstm
from slsgd_mx.validation import require


def check_batch(config: RunConfig) -> None:
    """Refuse a minibatch that is too large for every device, as far as that is known without data.

    A problem's minibatch that is as large as its device, or larger, is that device's data.
    Synthetic text is made to measure, so there the whole text is limited.
    """
    sizes, batch = config.sizes, config.batch_size
    if isinstance(sizes, Lstm) and sizes.data == "synthetic":
        texts = {
            "n * device_batches": config.n * sizes.device_batches,
            "test_batches": sizes.test_batches,
        }
        for name, count in texts.items():
            most = MOST_TOKENS // (count * sizes.bptt + 1)  # each sequence has one token more
            legal = f"1 <= batch_size <= {most}: {name} = {count} with bptt={sizes.bptt}, and a "
            legal += f"synthetic text has at most {MOST_TOKENS} tokens"
            require(batch <= most, "batch_size", batch, legal)
    most_held = _largest_device(config)
    if most_held is not None:
        check_fits(batch, most_held, sizes.unit, "no device holds more than")


def check_fits(batch_size: int, most: int, unit: str, what: str) -> None:
    """Refuse a minibatch of more samples than the ``most`` that any device holds.

    It would only repeat the samples of its device, at any cost in memory.

    >>> check_fits(50, 5, "images", "the largest device holds")
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.ConfigError: batch_size=50 is out of range: the largest device holds 5 images, \
so it needs 1 <= batch_size <= 5
    """
    if batch_size > most:
        raise ConfigError(
            f"batch_size={batch_size} is out of range: {what} {most} {unit}, so it needs "
            f"1 <= batch_size <= {most}"
        )


def _largest_device(config: RunConfig) -> Optional[int]:
    """An upper bound of the samples on a device; None if minibatches are not made of samples."""
    sizes, n = config.sizes, config.n
    if not isinstance(sizes, ImageSizes):
        return None
    if sizes.partition == "balanced":
        return -(-sizes.train_images // n)
    if sizes.partition == "unbalanced":
        return int(unbalanced_sizes(sizes.train_images, n)[-1])
    return sizes.train_images
