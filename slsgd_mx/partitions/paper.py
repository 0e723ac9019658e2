"""The paper's partitions: `balanced` and `unbalanced`.

`balanced` devices have equal sizes and are IID; `unbalanced` ones have 104, 112, ..., 896 samples
and at most 5 labels each.
"""

from __future__ import annotations

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.partitions.checks import as_labels, check_devices

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
    labels = as_labels(labels)
    check_devices(n, len(labels))
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
    check_devices(n, total)
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
    labels = as_labels(labels)
    sizes = unbalanced_sizes(len(labels), n)
    runs = _one_label_runs(labels, -(-len(labels) // (2 * n)))
    for _ in range(_DRAWS):
        order = np.concatenate([runs[i] for i in rng.permutation(len(runs))])  # (total,)
        if _most_labels(labels[order], sizes) <= MAX_LABELS:
            return np.split(order, np.cumsum(sizes)[:-1])
    raise ConfigError(_too_many_labels(labels, n))


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
