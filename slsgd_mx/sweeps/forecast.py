"""The time, memory and disk space a plan will take, from a short trial of its networks.

The trial runs in child processes; nothing here imports MXNet until it is measured.
"""

from __future__ import annotations

import heapq
import time
import timeit
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import mean, median
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from slsgd_mx.config import WARM_UP_PASSES, RunConfig
from slsgd_mx.core.server import settings_of
from slsgd_mx.errors import DataError, RunError
from slsgd_mx.runs.folder import KEPT_CHECKPOINTS
from slsgd_mx.sweeps.plan import Plan, Step
from slsgd_mx.sweeps.pool import Job, Pool
from slsgd_mx.system.machine import peak_memory
from slsgd_mx.system.processes import Message, Report
from slsgd_mx.tasks.images.sizes import ImageSizes
from slsgd_mx.tasks.lstm.sizes import Lstm
from slsgd_mx.workloads import Sizes

Network = Tuple  # equal for runs whose steps and exchanges cost the same
STEPS = 6  # minibatches of the trial
EVAL_BATCH = 250  # that of slsgd_mx.tasks.images.task, which imports MXNet


@dataclass(frozen=True)
class Measured:
    """Seconds and bytes of one network, in a process with the threads it will have."""

    ready: float  # seconds to load the data, build the network and compile it
    step: float  # one minibatch
    evaluated: float  # one image or batch of an evaluation
    exchange: float  # k pulls and pushes and the aggregation
    model_bytes: float
    memory_bytes: float
    loaded: float = 1.0  # 0 if the data are missing: their loading and memory are not included
    slot_bytes: float = 0.0  # of the pushes of an epoch, if they are in a file
    held_bytes: float = 0.0  # of those that are in memory
    imported: float = 0.0  # seconds to import MXNet, in a process that has not done so
    base_bytes: float = 0.0  # memory of such a process after that


@dataclass(frozen=True)
class Forecast:
    seconds: float
    memory_bytes: float
    disk_bytes: float
    includes_data: bool = True  # whether the time and the memory of loading were measured


def network(config: RunConfig) -> Network:
    """What determines the cost of a step (network, batch) and of an exchange (its rows)."""
    rows = config.k + settings_of(config).extra
    return (config.sizes.cost_key, config.batch_size, rows, config.precision)


def calibrate(plan: Plan, pool: Pool, data_dir: Optional[Path] = None) -> Dict[Network, Measured]:
    """Measure each network of a plan in all processes at once, as they will run.

    A workload of a plug-in may need its data for that.
    """
    samples = {network(step.config): step.config for step in plan.to_do}
    measured = {}
    for key, config in samples.items():
        message = {"do": "slsgd_mx.sweeps.forecast:measure", "config": config.to_json()}
        message["data_dir"] = None if data_dir is None else str(data_dir)
        message["slot_folder"] = str(_existing(plan.home))
        names = [f"calibration {number}" for number in range(pool.processes)]
        jobs = [Job(name, message, precision=config.precision) for name in names]
        results = list(pool.run(jobs).values())
        for result in results:
            if not result.ok:
                raise RunError(f"the calibration failed: {result.why}")
        found = [result.content["measured"] for result in results]
        measured[key] = Measured(**{name: mean(f[name] for f in found) for name in found[0]})
    return measured


def measure(job: Message, report: Report) -> Message:
    """Time the loading of a configuration's data, and its network on a little synthetic data.

    The job of a child process.
    """
    began = time.perf_counter()
    from slsgd_mx.core.algorithm import init_server, pull, push_values
    from slsgd_mx.core.model_server import ModelServer
    from slsgd_mx.system.mxnet import mx
    from slsgd_mx.tasks.build import build_task

    imported, base = time.perf_counter() - began, peak_memory()
    config = RunConfig.from_json(job["config"])
    data_dir = Path(job["data_dir"]) if job.get("data_dir") else None
    loading, real = load(config, data_dir)  # kept in memory, as in the run itself
    sizes = config.sizes.sample(config.k * config.batch_size)
    small = replace(config, n=config.k, sizes=sizes, poisoned_devices=None)
    building, task = timed(lambda: build_task(small, data_dir))
    task.initialize(0)
    server = ModelServer(*settings_of(small), slot_folder=job.get("slot_folder"))
    init_server(task, server)

    def typical(times: int, call: Callable[[], object]) -> float:
        """The median time of several calls, in seconds."""
        return median(timeit.repeat(lambda: (call(), mx.nd.waitall()), repeat=times, number=1))

    def train() -> None:
        task.train(0, STEPS, 1e-6, 0)

    def exchange() -> None:
        for slot in range(small.k):
            pull(task, server)
            push_values(task.values, slot, server)
        server.update(1.0)

    first, _ = timed(lambda: (train(), task.evaluate(), mx.nd.waitall()))  # compiles the network
    training, evaluating = typical(3, train), typical(2, task.evaluate)
    model_bytes = sum(value.size * 4 for value in task.values.values())
    rows = small.k + settings_of(small).extra
    measured = {
        "ready": (building if real is None else loading) + max(0.0, first - training - evaluating),
        "step": training / STEPS,
        "evaluated": evaluating / small.sizes.evaluated,
        "exchange": typical(2, exchange),
        "model_bytes": model_bytes,
        "memory_bytes": peak_memory(),
        "loaded": float(real is not None),
        "slot_bytes": server.slot_bytes,
        "held_bytes": rows * model_bytes - server.slot_bytes,
        "imported": imported,
        "base_bytes": base,
    }
    return {"measured": measured}


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists: a forecast makes none."""
    return next(path for path in (folder, *folder.absolute().parents) if path.is_dir())


def load(config: RunConfig, data_dir: Optional[Path]) -> Tuple[float, Any]:
    """The seconds to build a run's task, and the task; None if its data are missing."""
    from slsgd_mx.tasks.build import build_task

    try:
        return timed(lambda: build_task(config, data_dir))
    except DataError:
        return 0.0, None


def timed(call: Callable[[], Any]) -> Tuple[float, Any]:
    """The seconds that a call takes, and what it returns."""
    began = time.perf_counter()
    found = call()
    return time.perf_counter() - began, found


def evaluated_at_once(sizes: Sizes, workers: int) -> float:
    """What the busiest of several workers evaluates; the others wait for it.

    Images are divided by batches, texts are not divided, and there are two of them.  Of another
    workload worker 0 may have to evaluate everything.
    """
    if workers > 1 and isinstance(sizes, ImageSizes):
        batches = sum(-(-count // EVAL_BATCH) for count in (sizes.loss_images, sizes.test_images))
        return sizes.evaluated * -(-batches // workers) / batches
    if workers > 1 and isinstance(sizes, Lstm):
        return max(sizes.loss_batches, sizes.test_batches)
    return sizes.evaluated


def seconds_of(step: Step, cost: Measured, workers: int = 1) -> float:
    """The time to finish one run that ``workers`` workers train and evaluate at once."""
    config, start = step.config, step.start
    turns = -(-config.k // workers)  # devices that the busiest worker trains in an epoch
    passes = config.passes * config.sizes.steps_per_pass(config.n, config.batch_size)
    steps = passes if config.local_steps is None else mean(config.local_steps)
    evaluations = config.epochs // config.eval_every - start // config.eval_every
    evaluations += config.epochs % config.eval_every > 0
    warms_up = config.warm_up and start == 0 and step.left > 0
    return (
        cost.ready
        + warms_up * WARM_UP_PASSES * passes / config.passes * cost.step
        + step.left * (turns * steps * cost.step + cost.exchange)
        + evaluations * evaluated_at_once(config.sizes, workers) * cost.evaluated
    )


def memory_of(cost: Measured, base: float, workers: int = 1, servers: int = 1) -> float:
    """The memory of all processes of one run; ``base`` is that of one which only imported MXNet.

    On a parameter server the servers have the pushes, and there is a scheduler.
    """
    if workers == 1:
        return cost.memory_bytes
    return workers * (cost.memory_bytes - cost.held_bytes) + cost.held_bytes + (servers + 1) * base


def forecast(
    plan: Plan,
    costs: Dict[Network, Measured],
    processes: int,
    workers: int = 1,
    servers: int = 1,
) -> Forecast:
    """The plan's time, the memory of its processes, and the space its folders will take.

    On a parameter server a run is trained by several ``workers``, each a process of its own.
    """
    steps = plan.to_do
    step_costs = [costs[network(step.config)] for step in steps]
    # Only the first calibration of a process imports MXNet, and later ones find memory in use.
    imported = max((cost.imported for cost in costs.values()), default=0.0)
    base = min((cost.base_bytes for cost in costs.values()), default=0.0)
    # On a parameter server the processes are those of one run, else they compute run after run.
    each, once = (imported, 0.0) if workers > 1 else (0.0, imported)
    seconds = {s.config: each + seconds_of(s, c, workers) for s, c in zip(steps, step_costs)}
    models = [cost.model_bytes for cost in step_costs]
    memory = [memory_of(cost, base, workers, servers) for cost in step_costs]
    slots = [cost.slot_bytes for cost in step_costs]
    busy = min(processes, len(steps))
    return Forecast(
        once + finish_time(steps, seconds, processes),
        busy * max(memory, default=0.0),
        sum(models)
        + busy * (KEPT_CHECKPOINTS * max(models, default=0.0) + max(slots, default=0.0)),
        all(cost.loaded for cost in step_costs),
    )


def finish_time(steps: Sequence[Step], seconds: Dict[RunConfig, float], processes: int) -> float:
    """When the last step ends; a free process takes the first step whose prefix is finished."""
    after = [None if step.prefix is None else step.prefix.config for step in steps]
    waiting, running, now = list(range(len(steps))), [], 0.0  # numbers in steps; (end, number)
    pending = {step.config for step in steps}
    while waiting or running:
        free = processes - len(running)
        started = list(islice((n for n in waiting if after[n] not in pending), free))
        for number in started:
            heapq.heappush(running, (now + seconds[steps[number].config], number))
            waiting.remove(number)
        now, number = heapq.heappop(running)
        pending.remove(steps[number].config)
    return now
