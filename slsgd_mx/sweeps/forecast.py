"""Time, memory and disk a plan will take, from what a short calibration measured; no MXNet."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from statistics import mean
from typing import Dict, Sequence, Tuple

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import RunError
from slsgd_mx.runs.folder import KEPT_CHECKPOINTS
from slsgd_mx.sweeps.plan import Plan, Step
from slsgd_mx.sweeps.pool import Job, Pool

Network = Tuple  # what makes two runs cost the same a step


@dataclass(frozen=True)
class Measured:
    """Seconds and bytes of one network with the threads that one process will have."""

    ready: float  # to load and build
    step: float  # one minibatch
    evaluated: float  # one image or batch of an evaluation
    exchange: float  # k pulls and pushes and the aggregation
    model_bytes: float
    memory_bytes: float


@dataclass(frozen=True)
class Forecast:
    seconds: float
    memory_bytes: float
    disk_bytes: float


def network(config: RunConfig) -> Network:
    """Runs with the same network and batch cost the same a step, those with equal k an epoch."""
    return (config.sizes.network, config.batch_size, config.k)


def calibrate(plan: Plan, pool: Pool) -> Dict[Network, Measured]:
    """Measure each network of a plan in all processes at once, as they will run."""
    samples = {network(step.config): step.config for step in plan.to_do}
    measured = {}
    for key, config in samples.items():
        message = {"do": "calibrate", "config": config.to_json()}
        jobs = [Job(f"calibration {number}", message) for number in range(pool.processes)]
        results = list(pool.run(jobs).values())
        for result in results:
            if not result.ok:
                raise RunError(f"the calibration failed: {result.why}")
        found = [result.content["measured"] for result in results]
        measured[key] = Measured(**{name: mean(f[name] for f in found) for name in found[0]})
    return measured


def seconds_of(step: Step, cost: Measured, workers: int = 1) -> float:
    """What is left of one run, trained by so many workers at once."""
    config, start = step.config, step.start
    passes = config.passes * config.sizes.steps_per_pass(config.n, config.batch_size)
    steps = passes if config.local_steps is None else mean(config.local_steps)
    evaluations = config.epochs // config.eval_every - start // config.eval_every
    evaluations += config.epochs % config.eval_every > 0
    return (
        cost.ready
        + step.left * (config.k * steps * cost.step / workers + cost.exchange)
        + evaluations * config.sizes.evaluated * cost.evaluated
    )


def forecast(
    plan: Plan, costs: Dict[Network, Measured], processes: int, workers: int = 1
) -> Forecast:
    """The plan's time with so many processes, their memory, and what the folders grow by.

    With a parameter server a run is trained by several ``workers``, each a process of its own.
    """
    steps = plan.to_do
    seconds = {
        step.config: seconds_of(step, costs[network(step.config)], workers) for step in steps
    }
    models = [costs[network(step.config)].model_bytes for step in steps]
    memory = [costs[network(step.config)].memory_bytes for step in steps]
    busy = min(processes, len(steps))
    return Forecast(
        finish_time(steps, seconds, processes),
        busy * workers * max(memory, default=0.0),
        sum(models) + KEPT_CHECKPOINTS * busy * max(models, default=0.0),
    )


def finish_time(steps: Sequence[Step], seconds: Dict[RunConfig, float], processes: int) -> float:
    """When the last of the steps ends; a free process takes the first whose prefix is there."""
    waiting, running, now = list(steps), [], 0.0  # running: (end, number in steps)
    pending = {step.config for step in steps}
    while waiting or running:
        for step in list(waiting):
            if len(running) < processes and step.prefix not in pending:
                waiting.remove(step)
                end = now + seconds[step.config]
                heapq.heappush(running, (end, steps.index(step)))
        now, number = heapq.heappop(running)
        pending.remove(steps[number].config)
    return now
