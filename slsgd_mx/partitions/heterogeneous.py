"""Partitions into devices of equal sizes whose labels differ."""

from __future__ import annotations

from typing import List

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.partitions.checks import as_labels, check_devices


def dirichlet(
    labels: np.ndarray, n: int, rng: np.random.Generator, concentration: float = 0.5
) -> List[np.ndarray]:
    """Draw every device's label proportions p ~ Dirichlet(concentration, ..., concentration).

    A device then draws its samples' labels independently from p, and the samples themselves
    without replacement.  Where a label has run out, p is restricted to those that are left, so the
    last devices follow their p less closely.  Sizes differ by at most one.

    >>> parts = dirichlet(np.arange(100) % 10, 5, np.random.default_rng(0), concentration=0.1)
    >>> [len(part) for part in parts]
    [20, 20, 20, 20, 20]
    """
    labels = as_labels(labels)
    check_devices(n, len(labels))
    _, codes = np.unique(labels, return_inverse=True)
    pools = [rng.permutation(np.flatnonzero(codes == code)) for code in range(codes.max() + 1)]
    left = np.array([len(pool) for pool in pools])  # (labels,)
    parts = []
    for size in _equal_sizes(len(labels), n):
        proportions = rng.dirichlet(np.full(len(pools), concentration))
        counts = _draw_labels(size, proportions, left, rng)
        taken = [pool[rest - count : rest] for pool, rest, count in zip(pools, left, counts)]
        left -= counts
        parts.append(rng.permutation(np.concatenate(taken)))
    return parts


def _draw_labels(
    size: int, proportions: np.ndarray, left: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """How many samples of each label a device gets, at most those that are left."""
    counts = np.zeros(len(left), np.int64)
    while counts.sum() < size:
        chances = np.where(counts < left, proportions, 0.0)
        if not chances.sum() > 0:  # its labels have run out, or its proportions have underflowed
            chances = (left - counts).astype(np.float64)
        drawn = rng.multinomial(size - counts.sum(), chances / chances.sum())
        counts = np.minimum(counts + drawn, left)
    return counts


def shards(y: np.ndarray, n: int, rng: np.random.Generator, labels: int = 2) -> List[np.ndarray]:
    """Sort samples by label, cut them into n * ``labels`` shards, deal these out (McMahan et al.).

    Every device gets ``labels`` shards at random.  A shard in which one label ends and the next
    begins holds both, so a device may have a few labels more.

    >>> y = np.arange(100) % 10
    >>> [len(set(y[part])) <= 2 for part in shards(y, 5, np.random.default_rng(0), labels=2)]
    [True, True, True, True, True]
    """
    y = as_labels(y)
    check_devices(n, len(y))
    if n * labels > len(y):
        raise ConfigError(
            f"labels={labels} is out of range for {len(y)} samples on n={n} devices: shards need "
            f"1 <= labels <= {len(y) // n}"
        )
    pieces = np.array_split(np.argsort(y, kind="stable"), n * labels)
    order = rng.permutation(n * labels).reshape(n, labels)
    return [np.concatenate([pieces[piece] for piece in row]) for row in order]


def similarity(
    labels: np.ndarray, n: int, rng: np.random.Generator, share: float = 0.3
) -> List[np.ndarray]:
    """Deal out that share of the samples at random, and the rest in the order of their labels.

    Every device gets an equal part of both (Karimireddy et al.); sizes differ by at most one.

    >>> y = np.arange(100) % 10
    >>> sorted(len(set(y[part])) for part in similarity(y, 10, np.random.default_rng(0), share=0))
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    """
    labels = as_labels(labels)
    total = len(labels)
    check_devices(n, total)
    order = rng.permutation(total)
    mixed, rest = np.split(order, [round(share * total)])
    ordered = rest[np.argsort(labels[rest], kind="stable")]
    first = np.split(mixed, np.cumsum(_equal_sizes(len(mixed), n))[:-1])
    second = np.split(ordered, np.cumsum(_equal_sizes(len(ordered), n)[::-1])[:-1])
    return [np.concatenate(pair) for pair in zip(first, second)]


def _equal_sizes(total: int, n: int) -> np.ndarray:
    """n sizes that differ by at most one, the larger ones first.

    >>> _equal_sizes(11, 3).tolist()
    [4, 4, 3]
    """
    return total // n + (np.arange(n) < total % n)
