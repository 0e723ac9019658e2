"""Checks of what the devices hold, before training starts; no MXNet."""

from __future__ import annotations

from typing import Optional, Sequence

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.partitions import unbalanced_sizes
from slsgd_mx.tasks.images.sizes import ImageSizes
from slsgd_mx.tasks.lstm.sizes import Lstm
from slsgd_mx.validation import require

MOST_TOKENS = 10**8  # of synthetic text: 0.8 GB, 45 times the paper's


def check_devices(held: Sequence[int], batch_size: int, unit: str) -> None:
    """Refuse an empty device, and a minibatch larger than every device.

    ``held`` is the number of samples on each device.  An empty device has nothing to train on. A
    larger minibatch would only repeat the samples of its device, at any cost in memory.

    >>> check_devices([3, 5], 50, "images")
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.ConfigError: batch_size=50 is out of range: the largest device holds 5 images, \
so it needs 1 <= batch_size <= 5
    """
    empty = [device for device, count in enumerate(held) if not count]
    if empty:
        more = f" (nor do {len(empty) - 1} others)" if len(empty) > 1 else ""
        raise ConfigError(
            f"device {empty[0]} of n={len(held)} holds no {unit}{more}: the partition must give "
            "every device at least one"
        )
    _check_batch(batch_size, max(held), unit, "the largest device holds")


def check_batch(config: RunConfig) -> None:
    """Refuse a minibatch that is too large for every device, as far as that is known without data.

    A problem's minibatch that is as large as its device, or larger, is that device's data.
    Synthetic text is made to measure, so there the whole text is limited.
    """
    sizes = config.sizes
    if isinstance(sizes, Lstm) and sizes.data == "synthetic":
        others = config.n * sizes.device_batches * sizes.bptt
        legal = f"1 <= batch_size <= {MOST_TOKENS // others}: the devices hold {others} times as "
        legal += f"many tokens of synthetic text, at most {MOST_TOKENS}"
        require(config.batch_size * others <= MOST_TOKENS, "batch_size", config.batch_size, legal)
    most = _largest_device(config)
    if most is not None:
        _check_batch(config.batch_size, most, config.sizes.unit, "no device holds more than")


def _check_batch(batch_size: int, most: int, unit: str, what: str) -> None:
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
