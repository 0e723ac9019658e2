"""Algorithm 1 (SLSGD), line by line, over a Task and a server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Iterable, List, Optional

import numpy as np

from slsgd_mx.attacks import AttackContext, find_attack
from slsgd_mx.config import RunConfig
from slsgd_mx.core.server import Server, Update
from slsgd_mx.core.task import Task
from slsgd_mx.randomness import integer_seed, stream
from slsgd_mx.system.mxnet import mx

WARM_UP_PASSES, WARM_UP_GAMMA = 5, 0.01  # of the released code


@dataclass(frozen=True)
class EpochReport:
    """What happened in one epoch."""

    selected: np.ndarray  # S_t, a device a slot
    poisoned: np.ndarray  # slots
    update: Update
    units: int  # images or tokens that the pushes were trained on


def initialize(config: RunConfig, task: Task, server: Server) -> None:
    """Line 2: x_0, warmed up on one device's data if asked for, becomes the global model."""
    task.initialize(integer_seed(config.seed, "initialize"))
    if config.warm_up:
        device = int(stream(config.seed, "warm-up").integers(config.n))
        steps = WARM_UP_PASSES * task.steps_per_pass(device)
        task.train(device, steps, WARM_UP_GAMMA, integer_seed(config.seed, "warm-up"))
    for key, value in task.values.items():
        server.init(key, value, averaged=task.averaged[key])


def run_epoch(
    t: int,
    config: RunConfig,
    task: Task,
    server: Server,
    slots: Optional[Iterable[int]] = None,
) -> EpochReport:
    """One epoch, t = 1..T; ``slots`` are those of S_t whose workers run here (all)."""
    selected = select_devices(config, t)  # 4: S_t, k of n
    poisoned = select_poisoned(config, t)
    silent = select_silent(config, t, poisoned)
    for slot in range(config.k) if slots is None else slots:  # 5: for all i in S_t
        if slot in silent:
            continue
        pull(task, server)  # 6, 7: x_{t,0}^i <- x_{t-1}
        device, bad = int(selected[slot]), slot in poisoned
        local_sgd(t, device, config, task, bad)  # 8-11
        push(t, device, slot, config, task, server, bad)  # 12
    update = server.update(config.alpha_at(t))  # 14, 15
    steps = sum(local_iterations(t, int(selected[s]), config, task) for s in update.arrived)
    return EpochReport(selected, poisoned, update, steps * task.units_per_step)


def select_devices(config: RunConfig, t: int) -> np.ndarray:
    """S_t: k of n devices without replacement.

    ``independent`` draws anew each epoch (the text); ``permutation`` cuts shuffled permutations
    of all devices into blocks of k, so that each takes part once in n/k epochs (the code).
    """
    if config.selection == "independent":
        return stream(config.seed, "select", t).permutation(config.n)[: config.k]
    sweep, block = divmod(t - 1, config.n // config.k)
    order = stream(config.seed, "permutation", sweep).permutation(config.n)
    return order[block * config.k : (block + 1) * config.k]


def select_poisoned(config: RunConfig, t: int) -> np.ndarray:
    """The q slots of S_t that are poisoned in epoch t, redrawn each epoch."""
    return np.sort(stream(config.seed, "poison", t).permutation(config.k)[: config.q])


def select_silent(config: RunConfig, t: int, poisoned: np.ndarray) -> List[int]:
    """Slots whose worker does not answer: by chance (``drop_rate``) or as the attack."""
    dropped = stream(config.seed, "drop", t).random(config.k) < config.drop_rate
    if config.q and find_attack(config.attack).silent:
        dropped[poisoned] = True
    return list(np.flatnonzero(dropped))


def local_iterations(t: int, device: int, config: RunConfig, task: Task) -> int:
    """H_t^i: full passes of the device's data, or drawn between two bounds."""
    if config.local_steps is None:
        return config.passes * task.steps_per_pass(device)
    low, high = config.local_steps
    return int(stream(config.seed, "local-steps", t, device).integers(low, high + 1))


def pull(task: Task, server: Server) -> None:
    """Lines 6-7: the worker's parameters become the global model."""
    for key, value in task.values.items():
        server.pull(key, out=value)


def local_sgd(t: int, device: int, config: RunConfig, task: Task, poisoned: bool) -> None:
    """Lines 8-11: H_t^i steps of SGD; a poisoned worker may start afresh, on poisoned labels."""
    poison = None
    if poisoned:
        if config.attacker_start == "fresh":
            task.start_afresh(integer_seed(config.seed, "afresh", t, device))
        attack, context = find_attack(config.attack), _context(config, task, "labels", t, device)
        if attack.labels is not None:
            poison = partial(attack.labels, context=context)
    steps = local_iterations(t, device, config, task)
    seed = integer_seed(config.seed, "train", t, device)
    task.train(device, steps, config.gamma, seed, poison)


def push(
    t: int,
    device: int,
    slot: int,
    config: RunConfig,
    task: Task,
    server: Server,
    poisoned: bool,
) -> None:
    """Line 12: push the trained model, or what the attack makes of it."""
    attack = find_attack(config.attack) if poisoned else None
    context = _context(config, task, "model", t, device)
    for key, value in task.values.items():
        if attack is not None and attack.model is not None:
            value = mx.nd.array(attack.model(value.asnumpy(), context), dtype=np.float32)
        server.push(key, value, slot)


def _context(config: RunConfig, task: Task, purpose: str, t: int, device: int) -> AttackContext:
    rng = stream(config.seed, f"attack-{purpose}", t, device)
    return AttackContext(config.k, config.q, task.classes, config.attack_scale or 0.0, rng)
