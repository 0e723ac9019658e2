"""What Gluon workloads share: one network built once, local SGD, initialisation."""

from __future__ import annotations

import abc
from itertools import islice
from typing import Dict, Iterator, Optional

import numpy as np

from slsgd_mx.core.task import Poison, Task
from slsgd_mx.randomness import stream
from slsgd_mx.system.mxnet import mx


class GluonTask(Task):
    """A task whose worker is one Gluon network, built once; a worker is its pulled values.

    Parameters
    ----------
    net : Block with the parameters of the model, their shapes known
    """

    def __init__(self, net: mx.gluon.Block) -> None:
        self.parameters = parameters_by_place(net)
        self.values = {name: p.data() for name, p in self.parameters.items()}
        self.averaged = {name: p.grad_req != "null" for name, p in self.parameters.items()}
        self.optimizer = mx.gluon.Trainer(net.collect_params(), "sgd", kvstore=None)

    @abc.abstractmethod
    def batches(
        self, device: int, rng: np.random.Generator, poison: Optional[Poison]
    ) -> Iterator[tuple]:
        """Minibatches of one device without end, as ``loss`` takes them."""

    @abc.abstractmethod
    def loss(self, *batch) -> mx.nd.NDArray:
        """What to go downhill on; called while MXNet records."""

    @abc.abstractmethod
    def step(self) -> None:
        """Line 10, after the gradients are there."""

    def initialize(self, seed: int) -> None:
        self._draw(mx.init.Xavier(), seed)

    def start_afresh(self, seed: int) -> None:
        self._draw(mx.init.MSRAPrelu(), seed)

    def train(
        self, device: int, steps: int, gamma: float, seed: int, poison: Optional[Poison] = None
    ) -> None:
        mx.random.seed(seed)  # dropout
        self.optimizer.set_learning_rate(gamma)
        for batch in islice(self.batches(device, stream(seed, "shuffle"), poison), steps):
            with mx.autograd.record():
                loss = self.loss(*batch)
            loss.backward()
            self.step()
        # Batch normalisation's running statistics are written by the backward pass behind the
        # engine's back: whoever reads or overwrites them next must not overtake it.
        mx.nd.waitall()

    def _draw(self, initializer: mx.init.Initializer, seed: int) -> None:
        """Redraw every parameter in place, those with an initialiser of their own by that."""
        mx.random.seed(seed)
        for parameter in self.parameters.values():
            own = {"__init__": parameter.init or initializer}
            initializer(mx.init.InitDesc(parameter.name, own), parameter.data())


def parameters_by_place(net: mx.gluon.Block) -> Dict[str, mx.gluon.Parameter]:
    """Parameters named by their place in the network ("0.weight"), shared ones once.

    Gluon's own names count the networks of a process, so a second network of the same kind
    would have others.
    """
    places: Dict[int, str] = {}
    found = {}
    for place, parameter in net._collect_params_with_prefix().items():
        if places.setdefault(id(parameter), place) == place:
            found[place] = parameter
    if len(found) != len(net.collect_params().keys()):
        raise AssertionError("a parameter of the network has no place of its own")
    return found
