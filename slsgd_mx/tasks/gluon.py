"""What Gluon workloads share: one hybridized network, local SGD, initialisation."""

from __future__ import annotations

from itertools import islice
from typing import Iterator, List, Optional

import numpy as np

from .._mxnet import mx
from ..randomness import stream
from . import Poison, Task


class GluonTask(Task):
    """A task whose worker is one Gluon network, built once; a worker is its pulled values.

    Parameters
    ----------
    net : Block with the parameters of the model
    objective : HybridBlock from the arrays of a batch to the losses of its samples
    sample : NDArray
        One input, to settle the shapes of the parameters.
    """

    def __init__(self, net, objective, sample) -> None:
        self.net, self.objective = net, objective
        net.initialize(mx.init.Xavier())
        net(sample)
        objective.hybridize(static_alloc=True, static_shape=True)
        parameters = net._collect_params_with_prefix()  # named by place: "0.weight", "1.gamma"
        if {id(p) for p in parameters.values()} != {id(p) for p in net.collect_params().values()}:
            raise AssertionError("every parameter of the network needs a name of its own")
        self.parameters = parameters
        self.values = {name: p.data() for name, p in parameters.items()}
        self.averaged = {name: p.grad_req != "null" for name, p in parameters.items()}
        self.optimizer = mx.gluon.Trainer(net.collect_params(), "sgd", kvstore=None)

    def batches(
        self, device: int, rng: np.random.Generator, poison: Optional[Poison]
    ) -> Iterator[List[mx.nd.NDArray]]:
        """Minibatches of one device without end, in the order of ``objective``'s arguments."""
        raise NotImplementedError

    def initialize(self, seed: int) -> None:
        self._draw(mx.init.Xavier(), seed)

    def start_afresh(self, seed: int) -> None:
        self._draw(mx.init.MSRAPrelu(), seed)

    def train(
        self, device: int, steps: int, gamma: float, seed: int, poison: Optional[Poison] = None
    ) -> int:
        mx.random.seed(seed)  # dropout
        self.optimizer.set_learning_rate(gamma)
        for batch in islice(self.batches(device, stream(seed, "shuffle"), poison), steps):
            with mx.autograd.record():
                loss = self.objective(*batch)
            loss.backward()
            self.optimizer.step(self.batch_size)
        return steps * self.batch_size

    def _draw(self, initializer, seed: int) -> None:
        """Redraw every parameter in place, those with an initialiser of their own by that."""
        mx.random.seed(seed)
        for parameter in self.parameters.values():
            description = mx.init.InitDesc(
                parameter.name, {"__init__": parameter.init or initializer}
            )
            initializer(description, parameter.data())
