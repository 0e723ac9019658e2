"""Minibatches larger than every device, or than any text, are refused before training."""

from dataclasses import replace

import numpy as np
import pytest

from slsgd_mx.config import RunConfig
from slsgd_mx.data.synthetic_text import MOST_TOKENS
from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.variants import FIGURE_PRESETS, Variant, runs_of
from slsgd_mx.partitions import PARTITIONS, Partition
from slsgd_mx.presets import NAMES, PRESETS, preset
from slsgd_mx.tasks.build import build_task
from slsgd_mx.tasks.devices import check_batch
from slsgd_mx.theory import PARTS
from slsgd_mx.theory.cases import cases_of


def test_all_presets_figures_and_problems_pass():
    runs = [PRESETS[task][name] for task in PRESETS for name in NAMES]
    for name in FIGURE_PRESETS:
        runs += [run for figure in FIGURES.values() for run in runs_of(figure, Variant(name, {}))]
    runs += [case.config for part in PARTS for case in cases_of(part)]
    for run in dict.fromkeys(runs):
        check_batch(run)


@pytest.mark.parametrize(
    "changes, most",
    [
        (dict(partition="balanced"), 100),
        (dict(partition="balanced", train_images=2001), 101),
        (dict(partition="unbalanced"), 179),
    ],
)
def test_the_largest_batch_is_the_largest_device(changes, most):
    config = preset("cifar", "smoke", batch_size=most, **changes)
    task = build_task(config)
    assert max(len(rows) for rows in task.devices) == most
    with pytest.raises(ConfigError) as error:
        build_task(preset("cifar", "smoke", batch_size=most + 1, **changes))
    assert str(error.value) == (
        f"batch_size={most + 1} is out of range: no device holds more than {most} images, so it "
        f"needs 1 <= batch_size <= {most}"
    )


def test_a_stored_run_with_a_larger_batch_is_still_read():
    old = RunConfig(batch_size=100_000)
    assert RunConfig.from_json(old.to_json()) == old
    with pytest.raises(ConfigError, match="batch_size=100000"):
        check_batch(old)


@pytest.mark.parametrize("batches", ["device_batches", "test_batches"])
def test_synthetic_text_is_limited_as_its_maker_limits_it(batches):
    sizes = {"device_batches": 1, "test_batches": 1, batches: 3, "loss_batches": 1}
    config = preset("lstm", "smoke", n=2, k=2, **sizes)
    count = 3 if batches == "test_batches" else 6
    most = MOST_TOKENS // (count * config.sizes.bptt + 1)
    check_batch(replace(config, batch_size=most))
    with pytest.raises(ConfigError, match=f"<= batch_size <= {most}: .*{batches} = {count} with"):
        check_batch(replace(config, batch_size=most + 1))


def test_an_empty_device_of_a_custom_partition_is_named(tiny, monkeypatch):
    def greedy(labels, n, rng):
        """All samples on all devices but 2 and 5."""
        parts = np.array_split(np.arange(len(labels)), n - 2)
        return [*parts[:2], np.array([], int), *parts[2:4], np.array([], int), *parts[4:]]

    monkeypatch.setitem(PARTITIONS, "greedy", Partition("unfair", greedy))
    with pytest.raises(ConfigError) as error:
        build_task(tiny(partition="greedy"))
    assert str(error.value) == (
        "partition greedy leaves device 2 of n=8 empty: every device needs a sample"
    )
    equal = Partition("fair", lambda labels, n, rng: np.array_split(range(80), n))
    monkeypatch.setitem(PARTITIONS, "greedy", equal)
    with pytest.raises(ConfigError, match="largest device holds 10 images"):
        build_task(tiny(partition="greedy", batch_size=11))


@pytest.mark.parametrize("tiny", ["cifar", "lstm"], indirect=True)
def test_the_partition_seed_decides_which_device_holds_what(tiny):
    """Without one it is the seed."""

    def held(**seeds):
        return [np.asarray(part).tolist() for part in build_task(tiny(**seeds)).devices]

    assert held(seed=1, partition_seed=7) == held(seed=2, partition_seed=7) == held(seed=7)
    assert held(seed=1, partition_seed=8) != held(seed=7)
