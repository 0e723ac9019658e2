"""Presets: they build, the published one is the publication, changes land where they belong."""

import dataclasses

import pytest

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.presets import PRESETS, change, preset
from slsgd_mx.tasks.cifar.sizes import Cifar
from slsgd_mx.tasks.lstm.sizes import Lstm
from slsgd_mx.tasks.sizes import SIZES

EVERY = [(task, name) for task in PRESETS for name in PRESETS[task]]


def test_every_task_has_the_same_presets():
    assert set(PRESETS) == set(SIZES) - {"problem"}  # whose sizes are those of the theory's cases
    assert all(list(names) == ["paper", "laptop", "smoke"] for names in PRESETS.values())


@pytest.mark.parametrize("task, name", EVERY)
def test_every_preset_is_fedavg_without_attack_or_warnings(task, name):
    config = preset(task, name)
    assert config.sizes.task == task and config.warnings() == []
    assert (config.alpha, config.b, config.q, config.seed) == (1.0, 0, 0, 0)
    assert config.alpha_decay_epoch < config.epochs and config.epochs % config.eval_every == 0
    assert (config.sizes.data == "synthetic") == (name == "smoke")
    assert RunConfig.from_json(config.to_json()) == config
    assert preset(task, name, alpha=0.8, b=4, q=4).warnings() == []  # k = 10 everywhere


def test_the_published_cnn():
    config = preset("cifar", "paper")
    assert (config.n, config.k, config.epochs, config.alpha_decay_epoch) == (100, 10, 800, 400)
    assert (config.gamma, config.batch_size, config.passes) == (0.1, 50, 1)
    assert (config.local_steps, config.selection) == (None, "independent")
    assert config.warm_up and config.alpha_schedule == "step"
    assert config.sizes == Cifar("cifar10", "balanced", 50_000, 10_000, 50_000, 64)


def test_the_published_language_model():
    config = preset("lstm", "paper")
    assert (config.n, config.k, config.gamma, config.batch_size) == (100, 10, 20.0, 20)
    assert config.alpha_decay_epoch == 600 < config.epochs == 800
    assert (config.passes, config.local_steps, config.selection) == (1, None, "independent")
    sizes = config.sizes
    assert (sizes.data, sizes.partition) == ("wikitext2", "shuffled")
    assert (sizes.vocab_size, sizes.bptt, sizes.width) == (33_278, 35, 200)
    # 2,088,628 tokens of training text, 217,646 of validation text and 245,569 of test text
    steps = [(tokens // 20 - 1) // 35 for tokens in (2_088_628, 217_646, 245_569)]
    assert config.n * sizes.device_batches <= sum(steps[:2]) < config.n * (sizes.device_batches + 1)
    assert sizes.test_batches == steps[2] and sizes.loss_batches == 3_200
    attacked = preset("lstm", "paper", q=2)
    assert (attacked.attack, attacked.attacker_start) == ("label-permute", "fresh")


@pytest.mark.parametrize("task", PRESETS)
def test_laptop_keeps_the_published_network(task):
    assert preset(task, "laptop").sizes.width == preset(task, "paper").sizes.width
    assert preset(task, "laptop").gamma == preset(task, "paper").gamma


@pytest.mark.parametrize("task, name", EVERY)
def test_changes_go_where_they_belong(task, name):
    base = preset(task, name)
    config = preset(task, name, b=3, q=3, seed=4, width=5, data="synthetic")
    expected = dataclasses.replace(base.sizes, width=5, data="synthetic")
    assert config == dataclasses.replace(base, sizes=expected, b=3, q=3, seed=4)
    assert preset(task, name) == base  # untouched


def test_changes_by_the_names_of_one_task():
    assert preset("lstm", "smoke", bptt=5, partition="consecutive").sizes == dataclasses.replace(
        preset("lstm", "smoke").sizes, bptt=5, partition="consecutive"
    )
    assert isinstance(preset("lstm", "laptop").sizes, Lstm)


@pytest.mark.parametrize("task", PRESETS)
def test_unknown_preset(task):
    with pytest.raises(ConfigError, match="'huge' is unknown: choose one of paper, laptop, smoke"):
        preset(task, "huge")


@pytest.mark.parametrize("field", ["zeta", "train_images", "kind", "slug"])
def test_a_field_the_task_does_not_have(field):
    with pytest.raises((ConfigError, TypeError), match=field):
        preset("lstm", "smoke", **{field: 3})


def test_unknown_task():
    with pytest.raises(ConfigError, match="'mnist' is unknown: choose one of cifar, lstm"):
        preset("mnist", "smoke")


@pytest.mark.parametrize(
    "task, changes, name, expected",
    [
        ("cifar", dict(train_images=700), "loss_images", 700),
        ("cifar", dict(train_images=30_000), "loss_images", 30_000),
        ("cifar", dict(train_images=700, loss_images=50), "loss_images", 50),
        ("lstm", dict(n=50), "loss_batches", 1600),
        ("lstm", dict(device_batches=3), "loss_batches", 300),
        ("lstm", dict(n=50, device_batches=3), "loss_batches", 150),
        ("lstm", dict(n=50, loss_batches=7), "loss_batches", 7),
        ("lstm", dict(device_batches=33), "loss_batches", 3200),
    ],
)
def test_the_training_loss_uses_no_more_data_than_there_is(task, changes, name, expected):
    assert getattr(preset(task, "paper", **changes).sizes, name) == expected


def test_illegal_changes_are_refused():
    with pytest.raises(ConfigError, match="b=5 is out of range for k=10"):
        preset("lstm", "laptop", b=5)
    with pytest.raises(ConfigError, match="loss_batches=9000 is out of range"):
        preset("lstm", "smoke", loss_batches=9000)


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, ("negation", "pulled", 5.0)),
        (dict(attack="negation"), ("negation", "pulled", 5.0)),
        (dict(attack="gaussian"), ("gaussian", "pulled", 1.0)),
        (dict(attack=None), ("label-flip", "fresh", 1.0)),  # the workload's own
        (dict(attack=None, attacker_start="pulled"), ("label-flip", "pulled", 1.0)),
    ],
)
def test_another_attack_has_its_own_start_and_scale(changes, expected):
    base = RunConfig(q=2, b=2, attack="negation", attack_scale=5)
    found = change(base, changes)
    assert (found.attack, found.attacker_start, found.attack_scale) == expected
