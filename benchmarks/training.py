"""An epoch and an evaluation of the paper's CNN against bare hybridized Gluon loops."""

from __future__ import annotations

from itertools import islice
from typing import Iterator

import numpy as np

from slsgd_mx import Cifar, RunConfig
from slsgd_mx._mxnet import mx
from slsgd_mx.algorithm import initialize, pull, run_epoch, select_devices
from slsgd_mx.models import cnn
from slsgd_mx.randomness import integer_seed, stream
from slsgd_mx.server import ModelServer
from slsgd_mx.tasks import build_task
from slsgd_mx.tasks.cifar import EVAL_BATCH
from slsgd_mx.threads import thread_count

from .report import Line, best_of

IMAGES = 5_000  # 10 workers x 500 images: an epoch of the paper


def lines(repeats: int = 3) -> Iterator[Line]:
    """The paper's epoch (10 workers x 500 images, b=2) and evaluation, as shares of bare Gluon."""
    sizes = Cifar(data="synthetic", train_images=IMAGES, test_images=IMAGES, loss_images=IMAGES)
    config = RunConfig(task=sizes, n=10, k=10, b=2, warm_up=False)
    task = build_task(config)
    server = ModelServer(config.k, config.b, threads=thread_count())
    initialize(config, task, server)
    net, loss = bare_network()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=None)
    batches = [
        batch for device in select_devices(config, 1) for batch in worker(task, config, device)
    ]
    bare_epoch(net, loss, trainer, batches[:2])

    def ours() -> None:
        run_epoch(1, config, task, server)

    def bare() -> None:
        bare_epoch(net, loss, trainer, batches)

    bare_seconds, seconds = best_of([bare, ours], repeats)
    detail = f"{IMAGES / seconds:.0f} against {IMAGES / bare_seconds:.0f} images/s"
    yield Line("SLSGD epoch / bare Gluon loop", bare_seconds / seconds, detail, at_least=0.95)

    pull(task, server)
    x, y = task.data.test_x, task.data.test_y
    bare_forward(net, x[:EVAL_BATCH])
    bare_seconds, seconds = best_of(
        [lambda: bare_forward(net, x), lambda: task._score(x, y)], repeats
    )
    detail = f"{IMAGES / seconds:.0f} against {IMAGES / bare_seconds:.0f} images/s"
    yield Line("evaluation / bare forward pass", bare_seconds / seconds, detail, at_least=0.95)


def worker(task, config: RunConfig, device: int) -> list:
    """The very batches a worker trains on in epoch 1, ready in memory."""
    rng = stream(integer_seed(config.seed, "train", 1, int(device)), "shuffle")
    batches = task.batches(int(device), rng, None)
    return list(islice(batches, task.steps_per_pass(int(device))))


def bare_network() -> tuple:
    """The same network, hybridized, and the loss a Gluon tutorial would take."""
    net = cnn()
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    loss.hybridize(static_alloc=True, static_shape=True)
    return net, loss


def bare_epoch(net, loss, trainer, batches: list) -> None:
    """Plain local training: no server, no pull, no push, no shuffling."""
    for images, labels in batches:
        with mx.autograd.record():
            losses = loss(net(images), labels)
        losses.backward()
        trainer.step(len(labels))
    mx.nd.waitall()


def bare_forward(net, images: np.ndarray) -> None:
    """Scores of all images and nothing else."""
    for start in range(0, len(images), EVAL_BATCH):
        net(mx.nd.array(images[start : start + EVAL_BATCH]))
    mx.nd.waitall()
