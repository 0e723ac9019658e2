"""An evaluation in parts: whoever scores which, the metrics are the same to the bit."""

import numpy as np
import pytest

from slsgd_mx.tasks.cifar.task import EVAL_BATCH, cut_batches
from slsgd_mx.tasks.sizes import SIZES

on_every_task = pytest.mark.parametrize("tiny", SIZES, indirect=True)


@pytest.fixture
def task(tiny, tiny_task):
    task = tiny_task(tiny())
    task.initialize(3)
    return task


@on_every_task
@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_put_together_are_the_whole(task, tiny, parts):
    whole = task.evaluate()
    scores = [task.score(part, parts) for part in range(parts)]
    assert [len(score) for score in scores] == task.score_sizes(parts)
    assert task.metrics(scores) == whole
    assert tuple(whole) == tiny().sizes.metrics
    assert sum(task.score_sizes(parts)) == sum(task.score_sizes(1))


@on_every_task
def test_every_part_counts(task):
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
