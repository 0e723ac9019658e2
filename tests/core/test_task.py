"""Tasks: local SGD is plain SGD and fixed by its seed; metrics do not depend on the parts."""

from itertools import islice

import numpy as np
import pytest

from slsgd_mx.randomness import stream
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.cifar.network import cnn
from slsgd_mx.tasks.images.task import EVAL_BATCH, cut_batches
from slsgd_mx.tasks.sizes import SIZES

every_task = pytest.mark.parametrize("tiny", SIZES, indirect=True)


def statistics(key):
    return "running" in key  # of batch normalisation: not trained by the optimiser


def as_bytes(task):
    return {key: value.asnumpy().tobytes() for key, value in task.values.items()}


def load(task, values):
    mx.nd.waitall()
    for key, value in values.items():
        task.values[key][:] = mx.nd.array(value)


@pytest.fixture(scope="module")
def task(tiny, tiny_task):
    return tiny_task(tiny())


@pytest.fixture(scope="module")
def x(task):
    task.initialize(1)
    return {key: value.asnumpy() for key, value in task.values.items()}


def test_task_has_every_parameter_of_the_network(task, x):
    net = cnn(classes=10, width=2)
    net.initialize()
    net(mx.nd.zeros((1, 3, 24, 24)))
    everything = net.collect_params().values()
    assert len(x) == len(everything) == 28
    assert sum(value.size for value in x.values()) == sum(p.data().size for p in everything)
    assert {key for key in x if not task.moving_average[key]} == set(filter(statistics, x))


def test_one_local_step_is_plain_sgd(task, x):
    """x - gamma times the gradient of the mean loss; the seed fixes shuffle and dropout."""
    load(task, x)
    mx.random.seed(11)
    (batch,) = islice(task.batches(2, stream(11, "shuffle"), None), 1)
    with mx.autograd.record():
        loss = task.objective(*batch).mean()
    loss.backward()
    trained = {key: p for key, p in task.parameters.items() if not statistics(key)}
    gradients = {key: parameter.grad().asnumpy() for key, parameter in trained.items()}
    load(task, x)
    task.train(2, 1, 0.3, 11)
    assert task.units_per_step == 10
    for key, gradient in gradients.items():
        expected = x[key] - 0.3 * gradient
        np.testing.assert_allclose(task.values[key].asnumpy(), expected, rtol=1e-4, atol=1e-6)
        assert np.abs(gradient).max() > 0
    moved = [key for key in x if task.values[key].asnumpy().tobytes() != x[key].tobytes()]
    assert set(filter(statistics, x)) <= set(moved)


@every_task
@pytest.mark.parametrize("seed, same", [(5, True), (6, False)])
def test_local_sgd_is_determined_by_its_seed(task, x, seed, same):
    results = []
    for each in (5, seed):
        load(task, x)
        task.train(1, 3, 0.1, each)
        results.append(as_bytes(task))
    assert (results[0] == results[1]) == same


@every_task
@pytest.mark.parametrize("draw", ["initialize", "start_fresh"])
def test_initial_models_are_determined_by_their_seed(task, draw):
    drawn = []
    for seed in (1, 1, 2):
        getattr(task, draw)(seed)
        drawn.append(as_bytes(task))
    given = draw == "initialize" and hasattr(task, "visited")  # the theorems start from one x_0
    assert drawn[0] == drawn[1] and (drawn[0] == drawn[2]) == given


@every_task
@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_together_give_the_metrics_of_the_whole(task, x, tiny, parts):
    load(task, x)
    whole = task.evaluate()
    scores = [task.score(part, parts) for part in range(parts)]
    assert [len(score) for score in scores] == task.score_sizes(parts)
    assert task.metrics(scores) == whole
    assert tuple(whole) == tiny().sizes.metrics
    assert sum(task.score_sizes(parts)) == sum(task.score_sizes(1))


@every_task
def test_every_part_affects_the_metrics(task, x):
    load(task, x)
    whole, parts = task.evaluate(), 2
    for part, size in enumerate(task.score_sizes(parts)):
        scores = [np.array(task.score(p, parts)) for p in range(parts)]
        if size:
            scores[part] += 1
            assert task.metrics(scores) != whole


def test_images_in_two_batches_count_once(tiny, tiny_task):
    count = EVAL_BATCH + 30
    larger = tiny_task(tiny(test_images=count))
    larger.initialize(3)
    loss = larger.evaluate()["test_loss"]
    inputs = larger._inputs(larger.data.test_pixels, larger.data.test_y)
    losses = larger.scorer(*inputs)[0].asnumpy()
    assert len(losses) == count
    np.testing.assert_allclose(loss, losses.mean(dtype=np.float64), rtol=1e-5)
    assert [batch.seen for batch in cut_batches("test", count)] == [0, EVAL_BATCH - 30]
