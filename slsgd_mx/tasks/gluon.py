"""What Gluon workloads share: one network, its initialisation, local SGD."""

from __future__ import annotations

import abc
from itertools import islice
from typing import Dict, Iterator, Optional

import numpy as np

from slsgd_mx.core.task import Poison, Task
from slsgd_mx.randomness import stream
from slsgd_mx.system.mxnet import mx
from slsgd_mx.system.precision import prepare


class GluonTask(Task):
    """A task on one Gluon network, built once; a simulated worker is the values pulled into it.

    ``net`` is initialised, with the shapes of its parameters known.
    """

    def __init__(self, net: mx.gluon.Block) -> None:
        prepare(net)
        self.parameters = parameters_by_place(net)
        self.values = {name: p.data() for name, p in self.parameters.items()}
        self.moving_average = {name: p.grad_req != "null" for name, p in self.parameters.items()}
        self.optimizer = mx.gluon.Trainer(net.collect_params(), "sgd", kvstore=None)

    @abc.abstractmethod
    def batches(
        self, device: int, rng: np.random.Generator, poison: Optional[Poison]
    ) -> Iterator[tuple]:
        """Yield minibatches of one device endlessly, each the arguments of ``loss``."""

    @abc.abstractmethod
    def loss(self, *batch) -> mx.nd.NDArray:
        """Return the loss to minimise; called while autograd records."""

    @abc.abstractmethod
    def step(self) -> None:
        """Update the parameters with the gradients of the last loss (line 10)."""

    def initialize(self, seed: int) -> None:
        self._draw(mx.init.Xavier(), seed)

    def start_fresh(self, seed: int) -> None:
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
        # The backward pass writes batch normalisation's running statistics without the engine
        # knowing, so wait before they are read or overwritten.
        mx.nd.waitall()

    def _draw(self, initializer: mx.init.Initializer, seed: int) -> None:
        """Draw every parameter in place; its own initialiser, if it has one, takes precedence."""
        mx.random.seed(seed)
        for parameter in self.parameters.values():
            own = {"__init__": parameter.init or initializer}
            initializer(mx.init.InitDesc(parameter.name, own), parameter.data())


def parameters_by_place(net: mx.gluon.Block) -> Dict[str, mx.gluon.Parameter]:
    """Return the parameters by their place in the network ("0.weight"), shared ones once.

    Gluon's own names contain a counter, so they differ between two networks of one process.
    """
    places: Dict[int, str] = {}
    found = {}
    for place, parameter in net._collect_params_with_prefix().items():
        if places.setdefault(id(parameter), place) == place:
            found[place] = parameter
    if len(found) != len(net.collect_params().keys()):
        raise AssertionError("a parameter of the network has no place name")
    return found
