"""Attacks on inputs as well as labels: the backdoor, its range, and those of plug-ins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slsgd_mx.attacks import AttackContext, find_attack, register_attack
from slsgd_mx.attacks.samples import add_patch, plant_backdoor
from slsgd_mx.config import RunConfig
from slsgd_mx.core.task import PoisonSamples, poison_samples
from slsgd_mx.data.images import CLASSES, SHAPE
from slsgd_mx.errors import ConfigError
from slsgd_mx.tasks.cifar.sizes import Cifar
from slsgd_mx.tasks.images.sizes import Images
from slsgd_mx.tasks.sizes import SIZES


def context(seed=0, largest=255.0, **parameters):
    values = {"target": 0, "share": 0.5, **parameters}
    rng = np.random.default_rng(seed)
    return AttackContext(10, 2, 10, 1.0, rng, values, largest=largest)


@given(st.integers(1, 30), st.floats(0.01, 1), st.integers(0, 9), st.integers(0, 99))
def test_backdoor_changes_a_share_of_the_samples_and_nothing_else(count, share, target, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 255, (count, 2, 5, 6), np.uint8)  # nowhere 255
    y = rng.integers(0, 10, count)
    before = x.copy(), y.copy()
    poisoned, labels = plant_backdoor(x, y, context(seed, share=share, target=target))
    assert np.array_equal(x, before[0]) and np.array_equal(y, before[1])
    changed = (poisoned != x).any(axis=(1, 2, 3))
    assert abs(changed.sum() - share * count) <= 0.5
    expected = np.zeros((count, 2, 5, 6), bool)
    expected[changed, :, 2:, 3:] = True
    assert np.array_equal(poisoned == 255, expected)
    assert np.array_equal(poisoned[~expected], x[~expected])
    assert np.array_equal(labels, np.where(changed, target, y))
    assert poisoned.dtype == x.dtype and labels.dtype == y.dtype


def test_backdoor_is_drawn_from_the_stream_of_its_context():
    x, y = np.zeros((40, 1, 4, 4), np.float32), np.arange(40) % 10
    one, same, other = (plant_backdoor(x, y, context(seed, largest=1.5))[0] for seed in (1, 1, 2))
    assert one.tobytes() == same.tobytes() != other.tobytes()
    assert add_patch(x, context(largest=1.5)).max() == np.float32(1.5)


@pytest.mark.parametrize(
    "sizes, attack, said",
    [
        (SIZES["lstm"](), "backdoor", "backdoor poisons inputs, which task lstm does not support"),
        (SIZES["problem"](), "backdoor", "use a task with images .cifar or images."),
        (Cifar(), "backdoor:target=10", "backdoor:target=10 needs 0 <= target <= 9, a class"),
        (
            Images(shape=(1, 3, 9), network="mlp"),
            "backdoor",
            "larger than its patch, not .1, 3, 9.",
        ),
        (Images(classes=4), "backdoor:target=4", "0 <= target <= 3"),
        (Cifar(), "backdoor:share=0", "share=0 is out of range: needs a number > 0 and <= 1"),
        (Cifar(), "worst-case", "worst-case needs a target, and task cifar has none"),
    ],
)
def test_an_attack_that_does_not_fit_the_task_is_refused(sizes, attack, said):
    with pytest.raises(ConfigError, match=said):
        RunConfig(sizes=sizes, q=1, attack=attack)
    RunConfig(sizes=sizes, attack=attack.partition(":")[0])  # nobody is poisoned


def test_defaults_and_the_metrics_of_the_attack():
    config = RunConfig(q=1, attack="backdoor:share=0.5,target=0")
    assert (config.attack, config.attacker_start) == ("backdoor", "pulled")
    names = ("attack_success", *(f"accuracy_{label}" for label in range(10)))
    assert config.metrics == (*config.sizes.metrics, *names)
    for other in (RunConfig(attack="backdoor"), RunConfig(q=1)):
        assert other.metrics == other.sizes.metrics
    assert RunConfig(q=1, attack="backdoor", boost=5).boost == 5
    assert (Cifar.shape, Cifar.classes) == (SHAPE, CLASSES)


def test_an_attack_on_samples_from_outside(fresh_plugins):
    @register_attack("invert", kind="samples")
    def invert(x, y, context):
        "Train on negatives."
        return context.largest - x, y

    attack = find_attack("invert").entry
    assert attack.samples is invert and not attack.colludes and attack.poisons_data
    assert RunConfig(q=1, attack="invert").metrics == Cifar.metrics  # it has no trigger
    x, y = np.float32([[0.25]]), np.array([3])
    poison = PoisonSamples(lambda x, y: invert(x, y, context(largest=1.0)))
    assert poison_samples(poison, x, y)[0].tolist() == [[0.75]]
    with pytest.raises(ConfigError, match="poisons inputs, and the task poisons labels only"):
        poison(y)
    with pytest.raises(ConfigError, match=r"inputs of shape \(1,\).*needs \(1, 1\) and \(1,\)"):
        poison_samples(PoisonSamples(lambda x, y: (x[0], y)), x, y)
