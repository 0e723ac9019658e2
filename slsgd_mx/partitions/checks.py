"""What can be divided among devices, and whether a partition has done so."""

from __future__ import annotations

from typing import List, Sequence

import numpy as np

from slsgd_mx.errors import ConfigError


def as_labels(labels: np.ndarray) -> np.ndarray:
    """The labels as an array with one axis, or a ConfigError."""
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ConfigError(f"labels of shape {labels.shape} cannot be split: one axis is needed")
    return labels


def check_devices(n: int, total: int) -> None:
    """Raise a ConfigError unless each of n devices can hold one of the samples."""
    if not 1 <= n <= total:
        raise ConfigError(
            f"n={n} is out of range for {total} samples: a partition needs 1 <= n <= {total}"
        )


def check_parts(name: str, parts: Sequence[np.ndarray], n: int, total: int) -> List[np.ndarray]:
    """What a partition returned, as n int arrays; a ConfigError that says what is wrong with it.

    No device may be empty, and no sample may be on two devices.  A sample on no device is legal:
    nobody trains on it.

    >>> check_parts("mine", [[0, 2], []], n=2, total=3)
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.ConfigError: partition mine leaves device 1 of n=2 empty: every device needs \
a sample
    """
    if len(parts) != n:
        raise ConfigError(f"partition {name} returned {len(parts)} devices: needs n={n}")
    arrays = [np.asarray(part) for part in parts]
    for device, part in enumerate(arrays):
        if part.size == 0:
            raise ConfigError(
                f"partition {name} leaves device {device} of n={n} empty: every device needs a "
                "sample"
            )
        if part.ndim != 1 or part.dtype.kind not in "iu":
            raise ConfigError(
                f"partition {name} gives device {device} an array of {part.dtype} {part.shape}: "
                "needs indices of samples, integers (samples,)"
            )
        if part.min() < 0 or part.max() >= total:
            raise ConfigError(
                f"partition {name} gives device {device} samples {part.min()} to {part.max()}: "
                f"needs 0 <= sample <= {total - 1}"
            )
    arrays = [part.astype(np.int64, copy=False) for part in arrays]
    held = np.bincount(np.concatenate(arrays), minlength=total)
    if held.max() > 1:
        sample = int(held.argmax())
        raise ConfigError(
            f"partition {name} deals out sample {sample} {held[sample]} times: needs each sample "
            "at most once"
        )
    return arrays
