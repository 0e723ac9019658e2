"""Who holds which samples: labels in, one index array a device out.

Two ways to deal the training set out to the n devices, both from the paper: `balanced` (equal
sizes, IID) and `unbalanced` (sizes 104, 112, ..., 896; at most 5 labels a device).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slsgd_mx.errors import ConfigError

MAX_LABELS = 5  # distinct labels on one device of the unbalanced partition, at most

# The paper's smallest, largest and mean device; other set-ups keep these proportions.
SMALLEST, LARGEST, MEAN = 104, 896, 500

_DRAWS = 200  # shuffles to try where the limit on labels cannot be proven beforehand


def balanced(labels: np.ndarray, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Shuffle all samples and deal them out in equal shares (IID).

    Parameters
    ----------
    labels : array of shape (total,)
        The label of each sample; only their number matters here.
    n : int
        Devices, 1 <= n <= total.
    rng : numpy.random.Generator
        The source of the shuffle.

    Returns
    -------
    list of n int arrays
        Sample indices of each device; sizes differ by at most one, every index occurs once.

    Examples
    --------
    >>> parts = balanced(np.zeros(50000, int), 100, np.random.default_rng(0))
    >>> {len(part) for part in parts}
    {500}
    """
    labels = _as_labels(labels)
    _check_devices(n, len(labels))
    return np.array_split(rng.permutation(len(labels)), n)


def unbalanced_sizes(total: int, n: int) -> np.ndarray:
    """Device sizes growing linearly from 104/500 to 896/500 of the mean size.

    The exact line ``s_i = total/n * (104 + 792 i/(n-1)) / 500`` is rounded down and what is left
    over goes to the largest fractions, which keeps the sum exact and the sizes non-decreasing.

    Raises
    ------
    ConfigError
        If the smallest device would hold less than one sample.

    Examples
    --------
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
    # Integers throughout: a float's last bit must not decide who gets the extra sample.
    numerator = total * (SMALLEST * (n - 1) + (LARGEST - SMALLEST) * np.arange(n, dtype=np.int64))
    sizes, fraction = np.divmod(numerator, MEAN * n * (n - 1))
    left_over = total - int(sizes.sum())
    # Stable, so that of equal fractions the later (larger) device is served first.
    sizes[np.argsort(fraction, kind="stable")[n - left_over :]] += 1
    return sizes


def unbalanced(labels: np.ndarray, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Deal shuffled one-label runs out to devices of growing size; at most 5 labels a device.

    Samples are sorted by label and each label is cut into runs of half the mean device size (250
    images in the paper) or slightly more. The runs are shuffled, joined and dealt out in order.

    Why 5: let L be the shortest run. A device that touches 6 runs holds 4 of them whole and a
    sample of two more, at least ``4 L + 2``; the largest holds at most ``3.584 L + 1``. A label
    with fewer than L samples makes a shorter run and voids the proof: then the shuffle is drawn
    again until the limit holds.

    Parameters
    ----------
    labels : array of shape (total,)
        The label of each sample.
    n : int
        Devices, 1 <= n <= 104/500 of total.
    rng : numpy.random.Generator
        The source of the shuffle.

    Returns
    -------
    list of n int arrays
        Sample indices of each device, sizes as `unbalanced_sizes`; every index occurs once.

    Raises
    ------
    ConfigError
        If n is out of range, or no shuffle tried keeps every device within 5 labels.

    Examples
    --------
    >>> labels = np.arange(50000) % 10
    >>> parts = unbalanced(labels, 100, np.random.default_rng(0))
    >>> max(len(set(labels[part])) for part in parts) <= 5
    True
    """
    labels = _as_labels(labels)
    sizes = unbalanced_sizes(len(labels), n)
    runs = _one_label_runs(labels, -(-len(labels) // (2 * n)))
    for _ in range(_DRAWS):
        dealt = np.concatenate([runs[i] for i in rng.permutation(len(runs))])
        if _most_labels(labels[dealt], sizes) <= MAX_LABELS:
            return np.split(dealt, np.cumsum(sizes)[:-1])
    raise ConfigError(_too_many_labels(labels, n))


PARTITIONS: dict[str, Callable[[np.ndarray, int, np.random.Generator], list[np.ndarray]]] = {
    "balanced": balanced,
    "unbalanced": unbalanced,
}


def partition(kind: str, labels: np.ndarray, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Split samples among n devices in the named way: an entry of `PARTITIONS`.

    Examples
    --------
    >>> [len(part) for part in partition("balanced", np.zeros(7), 3, np.random.default_rng(0))]
    [3, 2, 2]
    """
    if kind not in PARTITIONS:
        raise ConfigError(f"partition={kind!r} is unknown: choose one of {', '.join(PARTITIONS)}")
    return PARTITIONS[kind](labels, n, rng)


def label_counts(parts: Sequence[np.ndarray], labels: np.ndarray, classes: int) -> np.ndarray:
    """Count the samples of each label on each device.

    Returns
    -------
    int array of shape (n, classes)

    Examples
    --------
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
    """Cut the samples of each label into runs of at least `length`, if it has as many."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order])) + 1
    runs: list[np.ndarray] = []
    for same_label in np.split(order, starts):
        runs += np.array_split(same_label, max(1, len(same_label) // length))
    return runs


def _most_labels(dealt: np.ndarray, sizes: np.ndarray) -> int:
    """Count the labels of the device that has most; `dealt` holds labels in dealing order."""
    names, codes = np.unique(dealt, return_inverse=True)
    device = np.repeat(np.arange(len(sizes)), sizes)  # (total,)
    held = np.unique(device * len(names) + codes)  # one entry for each (device, label) that occurs
    return int(np.bincount(held // len(names)).max())


def _too_many_labels(labels: np.ndarray, n: int) -> str:
    """Say that the limit failed and from which n on it is certain to hold."""
    rarest = int(np.unique(labels, return_counts=True)[1].min())
    certain = -(-len(labels) // (2 * rarest))  # smallest n whose runs no label is too short for
    if certain <= len(labels) * SMALLEST // MEAN:
        way_on = f"n >= {certain} always works for these labels"
    else:
        way_on = f"a label has only {rarest} samples; use the balanced partition"
    return (
        f"n={n} leaves a device of the unbalanced partition with more than {MAX_LABELS} labels "
        f"in each of {_DRAWS} shuffles: {way_on}"
    )
