"""An epoch and an evaluation of the paper's CNN against bare hybridized Gluon loops."""

from __future__ import annotations

from itertools import islice
from typing import Iterator

import numpy as np

from benchmarks.report import Line, in_turns
from slsgd_mx import Cifar, RunConfig
from slsgd_mx.core.algorithm import initialize, local_sgd, pull, push, select_devices
from slsgd_mx.core.model_server import ModelServer
from slsgd_mx.randomness import integer_seed, stream
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.build import build_task
from slsgd_mx.tasks.cifar.network import cnn
from slsgd_mx.tasks.images.task import EVAL_BATCH

IMAGES = 5_000  # 10 workers x 500 images: an epoch of the paper
SCORED = 2_500  # test images, and as many for the training loss


def lines() -> Iterator[Line]:
    """Compare the paper's epoch (10 workers x 500 images, b=2) and evaluation with bare Gluon.

    Both sides alternate worker by worker, about a second each, so that other load affects both.
    """
    sizes = Cifar(data="synthetic", train_images=IMAGES, test_images=SCORED, loss_images=SCORED)
    config = RunConfig(sizes=sizes, n=10, k=10, b=2, warm_up=False)
    task, server = build_task(config), ModelServer(config.k, config.b)
    initialize(config, task, server)
    net, loss = bare_network()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=None)
    devices = [int(device) for device in select_devices(config, 1)]
    batches = [worker(task, config, device) for device in devices]

    def ours(slot: int) -> None:
        pull(task, server)
        local_sgd(1, devices[slot], config, task, poisoned=0)
        push(1, devices[slot], slot, config, task, server, poisoned=0)
        if slot == config.k - 1:
            server.update(1.0)

    def bare(slot: int) -> None:
        bare_epoch(net, loss, trainer, batches[slot])

    yield _compare("SLSGD epoch / bare Gluon loop", [bare, ours], IMAGES)

    pull(task, server)
    x, share = task.data.test_x, SCORED // 10

    def evaluate(part: int) -> None:
        task.score(part, 10)

    def forward(part: int) -> None:
        for _ in range(2):
            bare_forward(net, x[part * share : (part + 1) * share])

    yield _compare("evaluation / bare forward pass", [forward, evaluate], 2 * SCORED, rounds=3)


def _compare(what: str, calls: list, units: int, rounds: int = 1) -> Line:
    """Compare the speeds of two calls over ten parts of the work, the best of some rounds each."""
    bare, ours = (units / seconds for seconds in in_turns(calls, 10, rounds))
    detail = f"{ours:.0f} against {bare:.0f} images/s"
    return Line(what, ours / bare, detail, at_least=0.95)


def worker(task, config: RunConfig, device: int) -> list:
    """Return the batches that a worker trains on in epoch 1."""
    rng = stream(integer_seed(config.seed, "train", 1, int(device)), "shuffle")
    batches = task.batches(int(device), rng, None)
    return list(islice(batches, task.steps_per_pass(int(device))))


def bare_network() -> tuple:
    """Return the same network and the usual loss, both hybridized."""
    net = cnn()
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    loss.hybridize(static_alloc=True, static_shape=True)
    return net, loss


def bare_epoch(net, loss, trainer, batches: list) -> None:
    """Train locally without server, pull, push or shuffling."""
    for images, labels in batches:
        with mx.autograd.record():
            losses = loss(net(images), labels)
        losses.backward()
        trainer.step(len(labels))
    mx.nd.waitall()


def bare_forward(net, images: np.ndarray) -> None:
    """Compute the scores of all images and nothing else."""
    for start in range(0, len(images), EVAL_BATCH):
        net(mx.nd.array(images[start : start + EVAL_BATCH]))
    mx.nd.waitall()
