"""Partitions: labels of the training set -> the sample indices that each of the n devices holds.

A partition is chosen by ``NAME:key=value,...``.  To add one to this package, write its function in
the module of its family and list it in ``PARTITIONS``.  To add one from outside::

    from slsgd_mx import register_partition
    from slsgd_mx.registry import number

    @register_partition("halves", parameters={"share": number(0.5, above=0, most=1)})
    def halves(labels, n, rng, share):
        "Deal out a share of the samples; nobody holds the rest."
        chosen = rng.permutation(len(labels))[: int(share * len(labels))]
        return np.array_split(chosen, n)

The function is pure and returns n arrays of indices.  Every result is checked: no device is empty,
and no sample is on two devices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, List, Mapping, Optional, Sequence

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.partitions.checks import as_labels, check_devices, check_parts
from slsgd_mx.partitions.heterogeneous import dirichlet, shards, similarity
from slsgd_mx.partitions.paper import MAX_LABELS, balanced, unbalanced, unbalanced_sizes
from slsgd_mx.registry import Choice, Parameter, Registry, number, whole

__all__ = [
    "MAX_LABELS",
    "PARTITIONS",
    "Partition",
    "balanced",
    "find_partition",
    "label_counts",
    "partition",
    "register_partition",
    "unbalanced",
    "unbalanced_sizes",
]


@dataclass(frozen=True)
class Partition:
    """``deal(labels, n, rng, **parameters)`` returns n arrays of indices."""

    summary: str
    deal: Callable[..., Sequence[np.ndarray]]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


PARTITIONS: Registry[Partition] = Registry(
    "partition",
    {
        "balanced": Partition("equal sizes, all labels (the paper's)", balanced),
        "unbalanced": Partition("sizes 104 to 896, at most 5 labels (the paper's)", unbalanced),
        "dirichlet": Partition(
            "equal sizes, label proportions from a Dirichlet distribution",
            dirichlet,
            {"concentration": number(0.5, above=0)},
        ),
        "shards": Partition(
            "equal sizes, about so many labels on a device (McMahan et al.)",
            shards,
            {"labels": whole(2)},
        ),
        "similarity": Partition(
            "equal sizes, a share of the samples IID and the rest sorted by label",
            similarity,
            {"share": number(0.3, least=0, most=1)},
        ),
    },
)


def register_partition(
    name: str, partition: Optional[Partition] = None, **attributes: Any
) -> Callable:
    """Add a partition under a new name: decorate its function, or call it with a ``Partition``.

    Parameters
    ----------
    name : str
        What ``--partition`` takes; it must be new.
    partition : Partition, optional
        Instead of a function to decorate, ``deal(labels, n, rng, **parameters)``, which returns n
        arrays of indices: no device is empty, and no sample is on two devices.
    **attributes
        ``parameters`` (see ``slsgd_mx.registry``) and ``summary`` (default: the first line of the
        docstring).

    Raises
    ------
    ConfigError
        If the name is taken or is not a name.

    Examples
    --------
    >>> from slsgd_mx import preset, register_partition
    >>> @register_partition("example-in-order")
    ... def deal_in_order(labels, n, rng):
    ...     return np.array_split(np.arange(len(labels)), n)
    >>> preset("cifar", "smoke", partition="example-in-order").sizes.partition
    'example-in-order'
    >>> PARTITIONS.remove("example-in-order")  # so that the example leaves nothing behind
    """

    def register(function: Callable) -> Callable:
        attributes.setdefault("summary", ((function.__doc__ or "").strip().splitlines() or [""])[0])
        PARTITIONS.register(name, Partition(deal=function, **attributes), function)
        return function

    if partition is not None:
        PARTITIONS.register(name, partition, partition.deal)
    return register


def find_partition(text: str) -> Choice[Partition]:
    """The partition that a text names, with its parameters; a ConfigError if there is none."""
    return PARTITIONS.choose(text)


def partition(kind: str, labels: np.ndarray, n: int, rng: np.random.Generator) -> List[np.ndarray]:
    """Split the samples among n devices with the partition that ``kind`` names.

    >>> [len(part) for part in partition("balanced", np.zeros(7), 3, np.random.default_rng(0))]
    [3, 2, 2]
    """
    chosen, labels = find_partition(kind), as_labels(labels)
    check_devices(n, len(labels))
    parts = chosen.entry.deal(labels, n, rng, **chosen.parameters)
    return check_parts(chosen.text, parts, n, len(labels))


def label_counts(parts: Sequence[np.ndarray], labels: np.ndarray, classes: int) -> np.ndarray:
    """Count the samples of each label on each device, int (n, classes).

    >>> label_counts([np.array([0, 1]), np.array([2])], np.array([0, 2, 2]), 3).tolist()
    [[1, 0, 1], [0, 0, 1]]
    """
    labels = as_labels(labels)
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        raise ConfigError(
            f"labels {labels.min()} to {labels.max()} are out of range for {classes} classes: "
            f"each must lie in 0 <= label <= {classes - 1}"
        )
    counts = np.zeros((len(parts), classes), dtype=np.int64)  # (n, classes)
    for row, part in zip(counts, parts):
        row += np.bincount(labels[np.asarray(part, dtype=np.int64)], minlength=classes)
    return counts
