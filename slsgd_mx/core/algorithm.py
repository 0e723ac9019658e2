"""Algorithm 1 (SLSGD), line by line, over a Task and a server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Iterable, List, Optional

import numpy as np

from slsgd_mx.attacks import AttackContext, find_attack
from slsgd_mx.config import WARM_UP_GAMMA, WARM_UP_PASSES, RunConfig
from slsgd_mx.core.server import Server, Update
from slsgd_mx.core.task import Poison, PoisonSamples, Task, Values
from slsgd_mx.randomness import integer_seed, stream
from slsgd_mx.system.arrays import Array

if TYPE_CHECKING:
    from slsgd_mx.system.mxnet import mx


@dataclass(frozen=True)
class EpochReport:
    """What happened in one epoch."""

    selected: np.ndarray  # S_t: the device in each slot
    poisoned: np.ndarray  # slots
    update: Update
    units: int  # images or tokens that the arrived pushes were trained on


def initialize(config: RunConfig, task: Task, server: Server) -> None:
    """Line 2: x_0, warmed up on one device's data if configured, becomes the global model."""
    task.initialize(integer_seed(config.seed, "initialize"))
    if config.warm_up:
        device = int(stream(config.seed, "warm-up").integers(config.n))
        steps = WARM_UP_PASSES * task.steps_per_pass(device)
        task.train(device, steps, WARM_UP_GAMMA, integer_seed(config.seed, "warm-up"))
    init_server(task, server)


def init_server(task: Task, server: Server) -> None:
    """Give the server the parameters in ``task`` as its initial model."""
    for key, value in task.values.items():
        server.init(key, as_pushed(value), task.moving_average[key])


def run_epoch(
    t: int, config: RunConfig, task: Task, server: Server, slots: Optional[Iterable[int]] = None
) -> EpochReport:
    """One epoch, t = 1..T; ``slots`` are those of S_t trained in this process (default: all)."""
    selected = select_devices(config, t)  # 4: S_t, k of n devices
    poisoned = select_poisoned(config, t)
    silent = set(select_silent(config, t, poisoned))
    attackers = [slot for slot in poisoned.tolist() if slot not in silent]
    bad = set(attackers)
    idle = set() if attackers_train(config, len(poisoned)) else bad
    for slot in range(config.k) if slots is None else slots:  # 5: for all i in S_t
        if slot in attackers[:1]:
            push_target(config, task, server)
        if slot in silent or slot in idle:
            continue
        device, q = int(selected[slot]), len(poisoned) if slot in bad else 0
        pull(task, server)  # 6-7: x_{t,0}^i <- x_{t-1}
        if q:
            prepare_attack(t, slot, device, config, task, server)
        local_sgd(t, device, config, task, q)  # 8-11: H_t^i steps
        push(t, device, slot, config, task, server, q)  # 12
    update = server.update(config.alpha_at(t), attackers)  # 14-15: aggregate, moving average
    trained = [slot for slot in update.arrived if slot not in idle]
    steps = sum(local_iterations(t, int(selected[s]), config, task) for s in trained)
    return EpochReport(selected, poisoned, update, steps * task.units_per_step)


def select_devices(config: RunConfig, t: int) -> np.ndarray:
    """S_t: k of n devices without replacement.

    ``independent`` draws S_t independently in each epoch (the paper's text); ``permutation`` cuts
    random permutations of all devices into blocks of k, so that each device takes part once in
    n/k epochs (the released code).
    """
    if config.selection == "independent":
        return stream(config.seed, "select", t).permutation(config.n)[: config.k]
    sweep, block = divmod(t - 1, config.n // config.k)
    order = stream(config.seed, "permutation", sweep).permutation(config.n)
    return order[block * config.k : (block + 1) * config.k]


def select_poisoned(config: RunConfig, t: int) -> np.ndarray:
    """The slots of S_t that are poisoned in epoch t.

    q slots, redrawn each epoch (the paper), or those whose device is one of the
    ``poisoned_devices`` chosen by the seed.
    """
    if config.poisoned_devices is not None:
        devices = stream(config.seed, "poisoned-devices").permutation(config.n)
        bad = devices[: config.poisoned_devices]
        return np.flatnonzero(np.isin(select_devices(config, t), bad))
    return np.sort(stream(config.seed, "poison", t).permutation(config.k)[: config.q])


def attackers_train(config: RunConfig, q: int) -> bool:
    """Whether poisoned workers train, or only compute their push from those of the others.

    With q = k there are no others, so they push what they trained.
    """
    if not config.attacked:
        return True
    attack = find_attack(config.attack).entry
    needed = {"own", "start"} & set(attack.needs)
    return not attack.colludes or bool(needed) or q == config.k


def select_silent(config: RunConfig, t: int, poisoned: np.ndarray) -> List[int]:
    """The slots that push nothing: dropped at random (``drop_rate``) or silenced by the attack."""
    dropped = stream(config.seed, "drop", t).random(config.k) < config.drop_rate
    if config.attacked and find_attack(config.attack).entry.silent:
        dropped[poisoned] = True
    return list(np.flatnonzero(dropped))


def local_iterations(t: int, device: int, config: RunConfig, task: Task) -> int:
    """H_t^i: full passes over the device's data, or drawn between two bounds."""
    if config.local_steps is None:
        return config.passes * task.steps_per_pass(device)
    low, high = config.local_steps
    return int(stream(config.seed, "local-steps", t, device).integers(low, high + 1))


def push_target(config: RunConfig, task: Task, server: Server) -> None:
    """Show the colluding attackers the model that the task says they are after, if they ask."""
    if "target" in find_attack(config.attack).entry.needs:
        push_values(task.target, 2 * config.k, server)


def pull(task: Task, server: Server) -> None:
    """Lines 6-7: copy the global model into the worker's parameters."""
    for key, value in task.values.items():
        if isinstance(value, np.ndarray):
            pulled = as_pushed(value)
            server.pull(key, out=pulled)
            value[...] = pulled.asnumpy().reshape(value.shape)
        else:
            server.pull(key, out=value)


def prepare_attack(
    t: int, slot: int, device: int, config: RunConfig, task: Task, server: Server
) -> None:
    """A poisoned worker may start from a random model; colluders may show what they start from."""
    if config.attacker_start == "fresh":
        task.start_fresh(integer_seed(config.seed, "afresh", t, device))
    if "start" in find_attack(config.attack).entry.needs:
        push_values(task.values, config.k + slot, server)


def local_sgd(t: int, device: int, config: RunConfig, task: Task, poisoned: int) -> None:
    """Lines 8-11: H_t^i steps of SGD; a poisoned worker may train on poisoned data and boost.

    ``poisoned`` is the number of poisoned workers in the epoch if this is one of them, else 0.
    """
    poison = poison_of(t, device, config, task, poisoned) if poisoned else None
    steps = local_iterations(t, device, config, task)
    seed = integer_seed(config.seed, "train", t, device)
    boosted = poisoned > 0 and config.boost != 1
    start = {key: value.copy() for key, value in task.values.items()} if boosted else {}
    task.train(device, steps, config.gamma, seed, poison)
    for key in start:
        if task.moving_average[key]:  # trainable: not the statistics of batch normalisation
            boost(task.values[key], start[key], config.boost)


def poison_of(t: int, device: int, config: RunConfig, task: Task, q: int) -> Optional[Poison]:
    """What a poisoned worker does to its device's data; None: nothing."""
    attack = find_attack(config.attack).entry
    if attack.samples is not None:
        context = _context(config, task, "samples", t, device, q)
        return PoisonSamples(partial(attack.samples, context=context))
    if attack.labels is not None:
        context = _context(config, task, "labels", t, device, q)
        return partial(attack.labels, context=context)
    return None


def boost(value: Array, start: Array, factor: float) -> None:
    """Move a trained parameter away from its start, in place: ``w_0 + F (x - w_0)``.

    >>> from slsgd_mx.system.mxnet import mx
    >>> value = mx.nd.array([1.0, 3.0])
    >>> boost(value, mx.nd.array([1.0, 2.0]), 5.0)
    >>> value.asnumpy()
    array([1., 7.], dtype=float32)
    """
    value[...] = start + factor * (value - start)


def push(
    t: int, device: int, slot: int, config: RunConfig, task: Task, server: Server, poisoned: int
) -> None:
    """Line 12: push the trained model, altered by the attack if the worker is poisoned.

    ``poisoned``: as for ``local_sgd``.
    """
    attack = find_attack(config.attack).entry.model if poisoned else None
    context = None if attack is None else _context(config, task, "model", t, device, poisoned)
    for key, value in task.values.items():
        value = as_pushed(value)
        if attack is not None:
            value = as_pushed(attack(value.asnumpy(), context))
        server.push(key, value, slot)


def push_values(values: Values, slot: int, server: Server) -> None:
    """Push arrays as they are, by their names."""
    for key, value in values.items():
        server.push(key, as_pushed(value), slot)


def as_pushed(value: Array) -> mx.nd.NDArray:
    """A task's array as the server takes it: an NDArray, a copy if it is a NumPy array."""
    from slsgd_mx.system.mxnet import mx

    if isinstance(value, mx.nd.NDArray):
        return value
    return mx.nd.array(np.atleast_1d(value), dtype=np.float32)


def _context(
    config: RunConfig, task: Task, purpose: str, t: int, device: int, q: int
) -> AttackContext:
    rng = stream(config.seed, f"attack-{purpose}", t, device)
    scale = config.attack_scale or 0.0
    parameters = find_attack(config.attack).parameters if config.attacked else {}
    return AttackContext(config.k, q, task.classes, scale, rng, parameters, t, task.largest)
