"""Which slots of S_t each worker trains; every worker works it out for itself, and alike."""

from __future__ import annotations

from typing import List, Sequence

from slsgd_mx.config import RunConfig
from slsgd_mx.core.algorithm import local_iterations, select_devices
from slsgd_mx.core.task import Task


def share_slots(t: int, config: RunConfig, task: Task, workers: int) -> List[List[int]]:
    """The slots of every worker in epoch t, so that all have about the same to do."""
    devices = select_devices(config, t)
    return share_out([local_iterations(t, int(d), config, task) for d in devices], workers)


def share_out(steps: Sequence[int], workers: int) -> List[List[int]]:
    """Longest first, each to whom has least; ties go to the lower number.

    >>> share_out([5, 1, 1, 3], workers=2)
    [[0], [1, 2, 3]]
    """
    shares: List[List[int]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for slot in sorted(range(len(steps)), key=lambda slot: -steps[slot]):
        least = loads.index(min(loads))
        shares[least].append(slot)
        loads[least] += steps[slot]
    return [sorted(share) for share in shares]
