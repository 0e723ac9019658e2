"""Forecasts against calculations by hand, and a real calibration of tiny networks."""

import dataclasses
import math
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from slsgd_mx.errors import RunError
from slsgd_mx.runs.prefix import prefix_of
from slsgd_mx.runs.status import Outcome
from slsgd_mx.sweeps.forecast import (
    EVAL_BATCH,
    STEPS,
    Forecast,
    Measured,
    calibrate,
    evaluated_at_once,
    finish_time,
    forecast,
    measure,
    network,
    seconds_of,
)
from slsgd_mx.sweeps.plan import Step, make_plan
from slsgd_mx.sweeps.pool import Pool, Result
from slsgd_mx.system.machine import peak_memory
from slsgd_mx.system.slot_memory import VARIABLE
from slsgd_mx.workloads import Sizes

COST = Measured(
    ready=3.0, step=0.01, evaluated=0.001, exchange=0.5, model_bytes=100.0, memory_bytes=10.0
)


def step(config, epoch=0, prefix=None):
    outcome = Outcome("begun" if epoch else "missing", epoch)
    return Step(config, Path("run"), outcome, True, prefix and step(prefix))


@pytest.mark.parametrize("epoch, rows", [(0, 3), (2, 3), (3, 2), (4, 2), (6, 1)])
def test_a_run_with_a_checkpoint_or_from_its_first_epoch(tiny, epoch, rows):
    """4 workers of 1 step, 7 epochs, rows after 3, 6 and 7 of 80 + 20 images; x_0 is warmed up."""
    warm_up = 5 * 1 * 0.01 if epoch == 0 else 0
    expected = 3 + warm_up + (7 - epoch) * (4 * 1 * 0.01 + 0.5) + rows * 100 * 0.001
    assert seconds_of(step(tiny(epochs=7, eval_every=3), epoch), COST) == pytest.approx(expected)


def test_a_run_that_starts_from_a_prefix_and_one_evaluated_every_second_epoch(tiny):
    config = tiny(epochs=7, eval_every=3, alpha=0.5, alpha_decay_epoch=3)
    after = step(config, prefix=prefix_of(config))
    assert seconds_of(after, COST) == pytest.approx(3 + 4 * 0.54 + 2 * 0.1)
    every_second = step(tiny(epochs=6, eval_every=2, warm_up=False))
    assert seconds_of(every_second, COST) == pytest.approx(3 + 6 * 0.54 + 3 * 0.1)


@pytest.mark.parametrize(
    "changes, steps",
    [
        (dict(passes=2), 2),
        (dict(local_steps=(2, 4)), 3),  # on average
        (dict(batch_size=2), 5),
        (dict(batch_size=50), 1),  # 10 images are a minibatch too
        (dict(partition="unbalanced"), 1.5),  # half a minibatch is lost at the end, about
    ],
    ids=str,
)
def test_steps_of_a_worker(tiny, changes, steps):
    one = step(tiny(epochs=1, warm_up=False, **changes))
    assert seconds_of(one, COST) == pytest.approx(3 + 4 * steps * 0.01 + 0.5 + 0.1)
    warm = step(tiny(epochs=1, **changes))  # 5 passes, whatever H is
    passes = {"passes": 1, "local_steps": 1}.get(next(iter(changes)), steps)
    assert seconds_of(warm, COST) - seconds_of(one, COST) == pytest.approx(5 * passes * 0.01)


@pytest.mark.parametrize("tiny", ["lstm"], indirect=True)
def test_a_language_model(tiny):
    """3 batches a device, 4 + 3 batches an evaluation."""
    one = step(tiny(epochs=2, eval_every=2, passes=2, warm_up=False))
    assert seconds_of(one, COST) == pytest.approx(3 + 2 * (4 * 6 * 0.01 + 0.5) + 7 * 0.001)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_workers_divide_training_and_evaluation(tiny, workers):
    """Of 4 devices and 2 batches of images the busiest worker has 4, 2, 2, 1 and 2, 1, 1, 1."""
    one = step(tiny(epochs=2, eval_every=2, warm_up=False))
    devices, images = {1: (4, 100), 2: (2, 50), 3: (2, 50), 4: (1, 50)}[workers]
    expected = 3 + 2 * (devices * 0.01 + 0.5) + images * 0.001
    assert seconds_of(one, COST, workers) == pytest.approx(expected)


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("tiny", ["cifar", "lstm"], indirect=True)
def test_the_share_of_an_evaluation_is_that_of_the_task(tiny, tiny_task, workers):
    images = dict(train_images=1_000, test_images=500, loss_images=750)
    config = tiny(**images) if tiny().sizes.task == "cifar" else tiny()
    parts = tiny_task(config).score_sizes(workers)
    share = evaluated_at_once(config.sizes, workers) / config.sizes.evaluated
    assert share == pytest.approx(max(parts) / sum(parts))


def test_a_workload_that_does_not_divide_evaluations():
    from slsgd_mx.tasks.images import task

    assert EVAL_BATCH == task.EVAL_BATCH
    assert evaluated_at_once(Sizes(), 3) == Sizes().evaluated == 1


def ends(tiny, processes, *seconds, prefixes=()):
    """When runs of these seconds end; ``prefixes`` maps a run to the run it starts from."""
    configs = [tiny(seed=seed) for seed in range(len(seconds))]
    after = dict(prefixes)
    steps = [
        step(config, prefix=configs[after[index]] if index in after else None)
        for index, config in enumerate(configs)
    ]
    return finish_time(steps, dict(zip(configs, seconds)), processes)


def test_runs_one_after_the_other_and_side_by_side(tiny):
    assert ends(tiny, 1, 5, 3, 4, 2) == 14
    assert ends(tiny, 2, 5, 3, 4, 2) == 7  # 5 + 2 beside 3 + 4
    assert ends(tiny, 3, 5, 3, 4, 2) == 5  # 5 beside 3 + 2 beside 4
    assert ends(tiny, 9, 5, 3, 4, 2) == 5
    assert ends(tiny, 2) == 0


def test_runs_that_wait_for_their_prefix(tiny):
    assert ends(tiny, 2, 4, 3, 3) == 6  # 4 beside 3 + 3
    assert ends(tiny, 2, 4, 3, 3, prefixes={1: 0, 2: 0}) == 7  # 4, then 3 beside 3
    assert ends(tiny, 1, 4, 3, 3, prefixes={1: 0, 2: 0}) == 10
    assert ends(tiny, 2, 10, 1, 10, prefixes={1: 0}) == 11  # no process idles: 10 beside 10, then 1
    assert ends(tiny, 2, 4, 2, 3, 3, prefixes={2: 0, 3: 1}) == 7  # 2, then 3 after the 4
    done = tiny(seed=9)  # a finished prefix keeps no run waiting
    waiting = step(tiny(), prefix=done)
    assert finish_time([waiting], {waiting.config: 3.0}, 2) == 3


def test_runs_are_not_compared_with_each_other(tiny, monkeypatch):
    """With thousands of them that would take minutes."""
    monkeypatch.setattr(Step, "__eq__", lambda one, other: pytest.fail("compared"))
    assert ends(tiny, 2, 5, 3, 4, 2) == 7


def test_a_plan(tiny, tmp_path):
    """A prefix, two runs that start from it, and one of a larger network."""
    usual = dict(epochs=4, eval_every=2, alpha_decay_epoch=2, warm_up=False)
    narrow, wide = (
        [tiny(alpha=a, **usual) for a in (1, 0.5)],
        tiny(width=4, epochs=1, warm_up=False),
    )
    plan = make_plan({"a": narrow, "b": [wide]}, tmp_path)
    large = dataclasses.replace(COST, ready=50.0, model_bytes=1000.0, memory_bytes=30.0)
    costs = {network(narrow[0]): COST, network(wide): large}
    assert len(plan.to_do) == 4 and len(costs) == 2
    part = 3 + 2 * 0.54 + 0.1  # two epochs and an evaluation: the prefix, and each run after it
    last = 50 + 0.54 + 0.1
    three = forecast(plan, costs, processes=3)
    assert three.seconds == pytest.approx(last)  # it starts at once, and the others end before it
    assert three.memory_bytes == 3 * 30
    assert three.disk_bytes == (3 * 100 + 1000) + 2 * 3 * 1000  # models, two checkpoints each
    eight = forecast(plan, costs, processes=8)
    assert eight.seconds == pytest.approx(last)
    assert (eight.memory_bytes, eight.disk_bytes) == (4 * 30, 1300 + 2 * 4 * 1000)
    one = forecast(plan, costs, processes=1)
    assert one == Forecast(pytest.approx(3 * part + last), 30, 1300 + 2 * 1000)
    assert forecast(make_plan({}, tmp_path), {}, 2) == Forecast(0, 0, 0)  # nothing to do


def test_only_the_servers_have_the_pushes_of_an_epoch(tiny, tmp_path):
    plan = make_plan({"a": [tiny(), tiny(seed=1)]}, tmp_path)
    cost = dataclasses.replace(COST, memory_bytes=500, held_bytes=100, base_bytes=130)
    costs = {network(tiny()): cost}

    def memory(**options):
        return forecast(plan, costs, **options).memory_bytes

    assert (memory(processes=1), memory(processes=2)) == (500, 1000)
    alone = 2 * 400 + 100 + 2 * 130  # workers, the pushes on the server, and it and the scheduler
    assert (memory(processes=1, workers=2), memory(processes=2, workers=2)) == (alone, 2 * alone)
    assert memory(processes=1, workers=3, servers=2) == 3 * 400 + 100 + 3 * 130


def test_processes_import_mxnet_once_on_a_parameter_server_for_each_run(tiny, tmp_path):
    """A process that calibrates a second network has imported MXNet, and memory is in use."""
    runs = [tiny(epochs=1), tiny(epochs=1, width=4)]
    plan = make_plan({"a": runs}, tmp_path)
    both = [
        dataclasses.replace(COST, imported=2.0, base_bytes=130),
        dataclasses.replace(COST, imported=0.0, base_bytes=400),
    ]
    costs = {network(run): cost for run, cost in zip(runs, both)}
    without = forecast(plan, {key: COST for key in costs}, 1)
    assert forecast(plan, costs, 1).seconds == pytest.approx(2 + without.seconds)
    together = forecast(plan, costs, 1, workers=2)
    without = forecast(plan, {key: COST for key in costs}, 1, workers=2)
    assert together.seconds == pytest.approx(2 * 2 + without.seconds)
    assert together.memory_bytes == without.memory_bytes + 2 * 130


def test_the_peak_memory_of_a_process_is_its_own():
    """It does not begin with the peak of the process that started it, as ``ru_maxrss`` does."""
    small = "from slsgd_mx.system.machine import peak_memory; print(peak_memory())"
    call = [sys.executable, "-c", small]
    large = f"import subprocess; used = b'1' * 2**29; subprocess.run({call!r}, check=True)"
    found = subprocess.run([sys.executable, "-c", large], stdout=subprocess.PIPE, check=True)
    assert 2**22 < int(found.stdout) < 2**28 or sys.platform != "linux"
    assert peak_memory() > 2**22


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of other processes")
def test_the_peak_memory_of_another_process():
    call, pipe = [sys.executable, "-c", "print(flush=True); input()"], subprocess.PIPE
    with subprocess.Popen(call, stdin=pipe, stdout=pipe) as other:
        other.stdout.readline()  # Python has started
        assert 2**20 < peak_memory(other.pid) < 2**28
        other.communicate(b"\n")
    with pytest.raises(OSError, match="does not say"):
        peak_memory(other.pid)


def test_costs_are_the_mean_of_all_processes(tiny, tmp_path):
    plan = make_plan({"a": [tiny(), tiny(seed=1), tiny(width=4)]}, tmp_path)
    asked = []

    def answer(jobs):
        asked.append(len(jobs))
        fields = dataclasses.asdict(COST)
        numbers = {job.name: {**fields, "step": place + 1.0} for place, job in enumerate(jobs)}
        return {name: Result("done", content={"measured": n}) for name, n in numbers.items()}

    measured = calibrate(plan, SimpleNamespace(processes=3, run=answer))
    assert asked == [3, 3]  # each network once, in all processes
    expected = dataclasses.replace(COST, step=2.0)
    assert measured == {network(tiny()): expected, network(tiny(width=4)): expected}

    def fail(jobs):
        return {**answer(jobs[1:]), jobs[0].name: Result("failed", "no MXNet")}

    with pytest.raises(RunError, match="the calibration failed: no MXNet"):
        calibrate(plan, SimpleNamespace(processes=3, run=fail))


def test_a_real_calibration(tiny, tmp_path, tiny_task):
    """The real data is missing: a trial needs none."""
    config = tiny(data="cifar10", k=2, q=1)
    plan = make_plan({"a": [config]}, tmp_path / "runs")
    with Pool(processes=1, threads=1) as pool:
        ((key, cost),) = calibrate(plan, pool).items()
    assert key == network(config)
    assert cost.loaded == 0
    for name, value in dataclasses.asdict(cost).items():
        assert math.isfinite(value) and (value > 0 or name in ("loaded", "slot_bytes")), name
    model = tiny_task(tiny()).values.values()
    assert cost.model_bytes == 4 * sum(value.size for value in model)
    assert 2**25 < cost.memory_bytes < 2**35
    expected = forecast(plan, {key: cost}, 1)
    assert expected.seconds > cost.ready and expected.disk_bytes == 3 * cost.model_bytes
    assert not expected.includes_data
    assert not (tmp_path / "runs").exists()


def test_a_calibration_is_in_seconds_and_bytes(tiny, monkeypatch):
    """With a clock by which every repetition takes twelve seconds."""
    repeat = lambda call, repeat, number: [12.0 + n for n in range(repeat)]  # noqa: E731
    monkeypatch.setattr("slsgd_mx.sweeps.forecast.timeit.repeat", repeat)
    began = time.perf_counter()
    cost = Measured(**measure({"config": tiny(k=2).to_json()}, None)["measured"])
    took = time.perf_counter() - began
    assert took / 1000 < cost.ready < took  # the rest may include importing MXNet
    assert (cost.step, cost.exchange) == (13 / STEPS, 12.5)  # medians of 3 and of 2
    assert cost.loaded == 1  # its data are synthetic
    images = tiny(k=2).sizes.sample(2 * tiny().batch_size).evaluated
    assert cost.evaluated == 12.5 / images
    assert 0 < cost.base_bytes <= cost.memory_bytes <= peak_memory()
    assert cost.held_bytes == 2 * cost.model_bytes and 0 < cost.imported < took


def test_pushes_that_exceed_their_memory_are_forecast_as_disk(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "0")
    job = {"config": tiny(k=3).to_json(), "slot_folder": str(tmp_path)}
    cost = Measured(**measure(job, None)["measured"])
    assert cost.slot_bytes == 3 * cost.model_bytes and not list(tmp_path.iterdir())
    assert cost.held_bytes == 0
    plan = make_plan({"a": [tiny(k=3), tiny(k=3, seed=1)]}, tmp_path)
    models = 2 + 2 * 2  # two runs, and two checkpoints of each
    two = forecast(plan, {network(tiny(k=3)): cost}, 2)
    assert two.disk_bytes == models * cost.model_bytes + 2 * cost.slot_bytes


@pytest.mark.parametrize("tiny", ["lstm"], indirect=True)
def test_a_real_calibration_of_a_language_model(tiny):
    job = {"config": tiny(data="wikitext2", k=1).to_json()}
    cost = Measured(**measure(job, None)["measured"])
    assert cost.slot_bytes == 0  # the pushes fit into memory
    cost = dataclasses.replace(cost, loaded=1.0, slot_bytes=1.0)
    assert all(math.isfinite(v) and v > 0 for v in dataclasses.asdict(cost).values())
