"""Partitions: labels of the training set -> the sample indices that each of the n devices holds.

Both are the paper's: `balanced` (equal sizes, IID) and `unbalanced` (sizes 104, 112, ..., 896; at
most 5 labels on a device).

A partition is a function of the labels (total,), the number of devices n and a random generator; it
returns n int arrays in which every sample index occurs once.  To add one, register it in
``PARTITIONS``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.validation import require_name

MAX_LABELS = 5  # most distinct labels on one device of the unbalanced partition

# The paper's smallest, largest and mean device; other sizes keep these proportions.
SMALLEST, LARGEST, MEAN = 104, 896, 500

_DRAWS = 200  # shuffles to try if the limit on labels is not guaranteed


def balanced(labels: np.ndarray, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Shuffle all samples and split them into shares whose sizes differ by at most one (IID).

    >>> parts = balanced(np.zeros(50000, int), 100, np.random.default_rng(0))
    >>> {len(part) for part in parts}
    {500}
    """
    labels = _as_labels(labels)
    _check_devices(n, len(labels))
    return np.array_split(rng.permutation(len(labels)), n)


def unbalanced_sizes(total: int, n: int) -> np.ndarray:
    """Return device sizes that grow linearly from 104/500 to 896/500 of the mean size, (n,).

    The exact sizes ``s_i = total/n * (104 + 792 i/(n-1)) / 500`` are rounded down, and the samples
    left over go to the largest fractions, which keeps the sum exact and the sizes non-decreasing.

    >>> unbalanced_sizes(50000, 100)[[0, 1, 2, 99]].tolist()
    [104, 112, 120, 896]
    >>> unbalanced_sizes(1000, 5).tolist()
    [42, 121, 200, 279, 358]
    """
    _check_devices(n, total)
    if n == 1:
        return np.array([total])
    most = total * SMALLEST // MEAN
    if n > most:
        raise ConfigError(
            f"n={n} is out of range for {total} samples: the unbalanced partition needs "
            f"1 <= n <= {max(most, 1)}, so that its smallest device holds a sample"
        )
    # Integer arithmetic: rounding must not decide which device gets an extra sample.
    numerator = total * (SMALLEST * (n - 1) + (LARGEST - SMALLEST) * np.arange(n, dtype=np.int64))
    sizes, fraction = np.divmod(numerator, MEAN * n * (n - 1))
    left_over = total - int(sizes.sum())
    # The sort is stable, so of equal fractions the later (larger) device comes first.
    sizes[np.argsort(fraction, kind="stable")[n - left_over :]] += 1
    return sizes


def unbalanced(labels: np.ndarray, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Assign shuffled one-label runs to devices of growing size; at most 5 labels on a device.

    Samples are sorted by label, and each label is cut into runs of half the mean device size (250
    images in the paper) or slightly more. The runs are shuffled, concatenated and cut into devices.

    Why 5: let L be the shortest run. A device with samples of 6 runs holds 4 whole runs and at
    least one sample of two more, ``4 L + 2`` or more; the largest device holds at most
    ``3.584 L + 1``. A label with fewer than L samples forms a shorter run, and the proof no longer
    applies: then the shuffle is redrawn, up to 200 times, until the limit holds.

    >>> labels = np.arange(50000) % 10
    >>> parts = unbalanced(labels, 100, np.random.default_rng(0))
    >>> max(len(set(labels[part])) for part in parts) <= 5
    True
    """
    labels = _as_labels(labels)
    sizes = unbalanced_sizes(len(labels), n)
    runs = _one_label_runs(labels, -(-len(labels) // (2 * n)))
    for _ in range(_DRAWS):
        order = np.concatenate([runs[i] for i in rng.permutation(len(runs))])  # (total,)
        if _most_labels(labels[order], sizes) <= MAX_LABELS:
            return np.split(order, np.cumsum(sizes)[:-1])
    raise ConfigError(_too_many_labels(labels, n))


PARTITIONS: dict[str, Callable[[np.ndarray, int, np.random.Generator], list[np.ndarray]]] = {
    "balanced": balanced,
    "unbalanced": unbalanced,
}


def partition(kind: str, labels: np.ndarray, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Split the samples among n devices with the partition of that name in `PARTITIONS`.

    >>> [len(part) for part in partition("balanced", np.zeros(7), 3, np.random.default_rng(0))]
    [3, 2, 2]
    """
    require_name("partition", kind, PARTITIONS)
    return PARTITIONS[kind](labels, n, rng)


def label_counts(parts: Sequence[np.ndarray], labels: np.ndarray, classes: int) -> np.ndarray:
    """Count the samples of each label on each device, int (n, classes).

    >>> label_counts([np.array([0, 1]), np.array([2])], np.array([0, 2, 2]), 3).tolist()
    [[1, 0, 1], [0, 0, 1]]
    """
    labels = _as_labels(labels)
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        raise ConfigError(
            f"labels {labels.min()} to {labels.max()} are out of range for {classes} classes: "
            f"each must lie in 0 <= label <= {classes - 1}"
        )
    counts = np.zeros((len(parts), classes), dtype=np.int64)  # (n, classes)
    for row, part in zip(counts, parts):
        row += np.bincount(labels[np.asarray(part, dtype=np.int64)], minlength=classes)
    return counts


def _as_labels(labels: np.ndarray) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ConfigError(f"labels of shape {labels.shape} cannot be split: one axis is needed")
    return labels


def _check_devices(n: int, total: int) -> None:
    if not 1 <= n <= total:
        raise ConfigError(
            f"n={n} is out of range for {total} samples: a partition needs 1 <= n <= {total}"
        )


def _one_label_runs(labels: np.ndarray, length: int) -> list[np.ndarray]:
    """Cut each label's samples into runs of at least `length`, or one run if there are fewer."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order])) + 1
    runs: list[np.ndarray] = []
    for same_label in np.split(order, starts):
        runs += np.array_split(same_label, max(1, len(same_label) // length))
    return runs


def _most_labels(labels: np.ndarray, sizes: np.ndarray) -> int:
    """Return the most distinct labels on one device; `labels` (total,) are in device order."""
    names, codes = np.unique(labels, return_inverse=True)
    device = np.repeat(np.arange(len(sizes)), sizes)  # (total,)
    held = np.unique(device * len(names) + codes)  # one entry for each pair (device, label)
    return int(np.bincount(held // len(names)).max())


def _too_many_labels(labels: np.ndarray, n: int) -> str:
    """Say that the limit was exceeded and from which n on it certainly holds."""
    rarest = int(np.unique(labels, return_counts=True)[1].min())
    certain = -(-len(labels) // (2 * rarest))  # smallest n at which every label fills a run
    if certain <= len(labels) * SMALLEST // MEAN:
        remedy = f"n >= {certain} always works for these labels"
    else:
        remedy = f"a label has only {rarest} samples; use the balanced partition"
    return (
        f"n={n} leaves a device of the unbalanced partition with more than {MAX_LABELS} labels "
        f"in each of {_DRAWS} shuffles: {remedy}"
    )
