"""The language model: hybridized training against the tutorial's loop, and a whole epoch."""

from __future__ import annotations

from typing import Iterator, List

from benchmarks.report import Line, in_turns
from slsgd_mx import Lstm, RunConfig
from slsgd_mx.core.algorithm import initialize, local_sgd, pull, push
from slsgd_mx.core.model_server import ModelServer
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.build import build_task
from slsgd_mx.tasks.lstm.network import language_model
from slsgd_mx.tasks.lstm.task import CLIP

STEPS = 4  # batches of 20 x 35 tokens a worker: about one and a half seconds


def lines() -> Iterator[Line]:
    """Compare with the full vocabulary of 33,278 types: 7.3 million values."""
    sizes = Lstm(data="synthetic", device_batches=STEPS, loss_batches=STEPS, test_batches=1)
    config = RunConfig(sizes=sizes, n=10, k=5, gamma=20, batch_size=20, b=2, warm_up=False)
    task, server = build_task(config), ModelServer(config.k, config.b)
    initialize(config, task, server)
    net, trainer = tutorial_network(sizes.vocab_size)

    def ours(slot: int) -> None:
        pull(task, server)
        local_sgd(1, slot, config, task, poisoned=0)
        push(1, slot, slot, config, task, server, poisoned=0)
        if slot == config.k - 1:
            server.update(1.0)

    def bare(slot: int) -> None:
        task.train(slot, STEPS, 20.0, seed=0)

    def tutorial(slot: int) -> None:
        data, target = task.devices[slot]
        train_as_tutorial(net, trainer, zip(map(mx.nd.array, data), map(mx.nd.array, target)))

    tokens = config.k * STEPS * task.units_per_step
    speeds = [tokens / total for total in in_turns([tutorial, bare, ours], config.k, rounds=2)]
    detail = f"{speeds[1]:.0f} against {speeds[0]:.0f} tokens/s"
    yield Line("LSTM training / tutorial's loop", speeds[1] / speeds[0], detail, at_least=1.3)
    detail = f"{speeds[2]:.0f} against {speeds[1]:.0f} tokens/s, {STEPS} steps a worker"
    yield Line("LSTM epoch / bare local training", speeds[2] / speeds[1], detail, at_least=0.93)


def tutorial_network(vocab_size: int) -> tuple:
    """Return GluonNLP's model as in its tutorial, not hybridized, and its trainer."""
    net = language_model(vocab_size)
    net.initialize(mx.init.Xavier())
    options = {"learning_rate": 20, "momentum": 0, "wd": 0}
    return net, mx.gluon.Trainer(net.collect_params(), "sgd", options)


def train_as_tutorial(net, trainer, batches: Iterator) -> None:
    """Truncated backpropagation through time, with a check that the norm is finite."""
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    state: List = net.begin_state(batch_size=20)
    parameters = list(net.collect_params().values())
    for data, target in batches:
        state = [part.detach() for part in state]
        with mx.autograd.record():
            output, state = net(data, state)
            losses = loss(output.reshape(-3, -1), target.reshape(-1))
            mean = losses.sum() / data.size
        mean.backward()
        mx.gluon.utils.clip_global_norm([p.grad() for p in parameters], CLIP)
        trainer.step(1)
    mx.nd.waitall()
