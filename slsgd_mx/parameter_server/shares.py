"""Which slots of S_t each worker trains; all workers compute the same division."""

from __future__ import annotations

from typing import List, Sequence

from slsgd_mx.config import RunConfig
from slsgd_mx.core.algorithm import local_iterations, select_devices
from slsgd_mx.core.task import Task


def share_slots(t: int, config: RunConfig, task: Task, workers: int) -> List[List[int]]:
    """The slots of every worker in epoch t, with about the same number of steps for each."""
    devices = select_devices(config, t)
    return balance([local_iterations(t, int(d), config, task) for d in devices], workers)


def balance(steps: Sequence[int], workers: int) -> List[List[int]]:
    """Assign slots, longest first, to the worker with the fewest steps (ties: the lower rank).

    >>> balance([5, 1, 1, 3], workers=2)
    [[0], [1, 2, 3]]
    """
    shares: List[List[int]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for slot in sorted(range(len(steps)), key=lambda slot: -steps[slot]):
        least = loads.index(min(loads))
        shares[least].append(slot)
        loads[least] += steps[slot]
    return [sorted(share) for share in shares]
