"""Runs under the backdoor: what poisoned workers train on and push, and how it is measured."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.run_folders import interrupt, numbers

from slsgd_mx.config import RunConfig
from slsgd_mx.core.algorithm import run_epoch, select_devices, select_poisoned
from slsgd_mx.core.model_server import ModelServer
from slsgd_mx.core.server import settings_of
from slsgd_mx.errors import ConfigError
from slsgd_mx.randomness import integer_seed, stream
from slsgd_mx.runs.trainer import train
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.build import build_task
from slsgd_mx.tasks.images.sizes import Images
from slsgd_mx.tasks.images.task import EVAL_BATCH

SIZES = Images(network="mlp:width=16", train_images=400, test_images=EVAL_BATCH + 50)
CONFIG = RunConfig(
    sizes=SIZES, n=8, k=4, q=2, attack="backdoor:target=3", batch_size=10, epochs=6, eval_every=2
)


@pytest.fixture(scope="module")
def task():
    task = build_task(CONFIG)
    task.initialize(4)
    return task


def pushed_in(config, task, x, t=1):
    """What the slots hold after an epoch from x."""
    server = ModelServer(*settings_of(config))
    for key, value in x.items():
        server.init(key, mx.nd.array(value), task.moving_average[key])
    run_epoch(t, config, task, server)
    return [server._shard.row(slot).copy() for slot in range(config.k)]


def flat(task):
    return np.concatenate([value.asnumpy().ravel() for value in task.values.values()])


def classified(task, pixels):
    return task.scorer.net(mx.nd.array(task.data.prepared(pixels))).asnumpy().argmax(axis=1)


def test_metrics_are_those_of_their_definition(task):
    found = task.evaluate()
    assert tuple(found) == CONFIG.metrics
    x, y = task.data.test_pixels, task.data.test_y
    guess = classified(task, x)
    for label in range(10):
        assert found[f"accuracy_{label}"] == pytest.approx((guess[y == label] == label).mean())
    patched = x[y != 3].copy()
    patched[:, :, -3:, -3:] = task.data.train_pixels.max()
    assert found["attack_success"] == pytest.approx((classified(task, patched) == 3).mean())
    assert 0 < found["attack_success"] < 1 and found["test_accuracy"] == (guess == y).mean()
    plain = build_task(replace(CONFIG, q=0))
    for key, value in task.values.items():
        plain.values[key][:] = value
    assert plain.evaluate() == {name: found[name] for name in SIZES.metrics}


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_parts_together_give_the_metrics_of_the_whole(task, parts):
    scores = [task.score(part, parts) for part in range(parts)]
    assert [len(score) for score in scores] == task.score_sizes(parts)
    assert task.metrics(scores) == task.evaluate()


def test_poisoned_workers_train_on_the_backdoor_and_push_the_result(task):
    x = {key: value.asnumpy() for key, value in task.values.items()}
    start, bad = flat(task), select_poisoned(CONFIG, 1)
    pushed = pushed_in(CONFIG, task, x)
    replaced = pushed_in(replace(CONFIG, attack="backdoor:target=3,factor=2"), task, x)
    honest = pushed_in(replace(CONFIG, q=0), task, x)
    for slot in range(CONFIG.k):
        same = pushed[slot].tobytes() == honest[slot].tobytes()
        assert same == (slot not in bad) == (replaced[slot].tobytes() == honest[slot].tobytes())
    slot = int(bad[0])
    device = int(select_devices(CONFIG, 1)[slot])
    rows = task.devices[device]
    rng = stream(CONFIG.seed, "attack-samples", 1, device)
    chosen = rows[rng.permutation(len(rows))[: len(rows) // 2]]
    data = task.data
    own = [data.train_pixels.copy(), data.train_y.copy()]
    own[0][chosen, :, -3:, -3:] = own[0].max()
    own[1][chosen] = 3
    for key, value in x.items():
        task.values[key][:] = mx.nd.array(value)
    task.data = replace(data, train_pixels=own[0], train_y=own[1])
    steps, seed = task.steps_per_pass(device), integer_seed(CONFIG.seed, "train", 1, device)
    task.train(device, steps, CONFIG.gamma, seed)
    task.data = data
    assert flat(task).tobytes() == pushed[slot].tobytes()
    np.testing.assert_allclose(replaced[slot], start + 2 * (pushed[slot] - start), atol=1e-6)
    for key, value in x.items():
        task.values[key][:] = mx.nd.array(value)


def test_the_attack_succeeds_unless_it_is_trimmed_and_a_run_resumes(tmp_path):
    config = replace(CONFIG, k=8, q=1, attack="backdoor:target=3,factor=8")
    rows = train(config, tmp_path / "whole").rows
    success = [float(row["attack_success"]) for row in rows]
    trimmed = train(replace(config, b=2), tmp_path / "trimmed").rows
    assert success[-1] > 0.9 > 0.1 > float(trimmed[-1]["attack_success"])
    assert float(rows[-1]["test_accuracy"]) > 0.5  # nobody notices
    interrupt(config, tmp_path / "part", 3)
    train(config, tmp_path / "part")
    assert numbers(tmp_path / "part") == numbers(tmp_path / "whole")


def test_every_class_needs_a_test_image():
    few = replace(CONFIG, sizes=replace(SIZES, test_images=5))
    with pytest.raises(ConfigError, match="the test set has no image of class"):
        build_task(few)
    build_task(replace(few, q=0))
