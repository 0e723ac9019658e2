"""A Gluon network and arrays of a script as a workload: ``train(config, out, task=...)``."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, List, Optional

import numpy as np

from slsgd_mx.config import RunConfig
from slsgd_mx.data.arrays import check_arrays
from slsgd_mx.errors import ConfigError
from slsgd_mx.tasks.images.sizes import Images

if TYPE_CHECKING:
    from slsgd_mx.system.mxnet import mx
    from slsgd_mx.tasks.images.task import ImagesTask


class ArraysTask:
    """Your network and your arrays, for ``RunConfig(sizes=task.sizes)`` and ``train(task=task)``.

    Parameters
    ----------
    net : mx.gluon.HybridBlock
        Maps images to scores of the classes.  Its values are overwritten.
    x_train, y_train, x_test, y_test : arrays
        See ``slsgd_mx.data.arrays.check_arrays``.
    partition : str
        Which device holds what, ``NAME:key=value,...``.
    classes : int, optional
        Default: the largest label of ``y_train``, plus 1.
    loss_images : int, optional
        Training images on which the training loss is measured.  Default: all, at most 10,000.

    Attributes
    ----------
    sizes : Images
        Contains the digests of the arrays and of the network's structure, so that another network
        or other data make another run.

    Raises
    ------
    ConfigError
        If the arrays do not fit each other or the network.

    Examples
    --------
    >>> import tempfile
    >>> from slsgd_mx import ArraysTask, RunConfig, train
    >>> from slsgd_mx.system.mxnet import mx
    >>> y = np.arange(60) % 3
    >>> x = np.random.default_rng(0).normal(y[:, None], 0.1, (60, 2))
    >>> net = mx.gluon.nn.Dense(3)
    >>> task = ArraysTask(net, x[:48], y[:48], x[48:], y[48:])
    >>> config = RunConfig(sizes=task.sizes, n=6, k=4, b=1, epochs=1, batch_size=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = train(config, folder + "/run", task=task)
    >>> sorted(set(result.rows[0]) & {"test_accuracy", "train_loss"})
    ['test_accuracy', 'train_loss']
    """

    def __init__(
        self,
        net: mx.gluon.HybridBlock,
        x_train: np.ndarray,
        y_train: np.ndarray,
        x_test: np.ndarray,
        y_test: np.ndarray,
        partition: str = "balanced",
        classes: Optional[int] = None,
        loss_images: Optional[int] = None,
    ) -> None:
        from slsgd_mx.tasks.images.task import check_network

        data = check_arrays("arrays", x_train, y_train, x_test, y_test, classes)
        check_network(net, data.shape, data.classes)
        self.net, self.data = net, data
        self.sizes = Images(
            data=data.name,
            sha256=data.digest,
            shape=data.shape,
            classes=data.classes,
            partition=partition,
            train_images=len(data.train_y),
            test_images=len(data.test_y),
            loss_images=loss_images or min(10_000, len(data.train_y)),
            network="own",
            structure=structure_of(net),
        )

    def build(self, config: RunConfig) -> ImagesTask:
        """The task of a configuration, which must have this object's sizes."""
        from slsgd_mx.tasks.images.task import ImagesTask

        if config.sizes != self.sizes:
            raise ConfigError("the configuration has other sizes: RunConfig(sizes=task.sizes, ...)")
        return ImagesTask(config, self.data, self.net, self.sizes.classes)


def structure_of(net: mx.gluon.HybridBlock) -> str:
    """SHA-256 of what a network computes: its graph as JSON, and its parameters' shapes.

    The names of layers are left out, because Gluon numbers them within a process.
    """
    from slsgd_mx.system.mxnet import mx
    from slsgd_mx.tasks.gluon import parameters_by_place

    graph = json.loads(net(mx.sym.var("data")).tojson())
    nodes = [[node["op"], node.get("attrs", {}), _edges(node["inputs"])] for node in graph["nodes"]]
    for operator, attributes, _ in nodes:
        if operator == "null":
            attributes.pop("__init__", None)
    parameters = [
        [place, list(p.shape), p.grad_req, _initial(p)]
        for place, p in parameters_by_place(net).items()
    ]
    text = json.dumps([nodes, _edges(graph["heads"]), parameters], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _edges(entries: List[List[int]]) -> List[List[int]]:
    """Entries of a graph (node, output, version), all with version 0.

    The version counts how often operators took a variable that they write to, such as a running
    mean: it grows whenever the network is traced.
    """
    return [[node, output, 0] for node, output, *_ in entries]


def _initial(parameter: mx.gluon.Parameter) -> str:
    """How a parameter is initialised, the same text in every process."""
    from slsgd_mx.system.mxnet import mx

    if isinstance(parameter, mx.gluon.Constant):  # the name of its initialiser is its address
        return hashlib.sha256(parameter.value.asnumpy().tobytes()).hexdigest()
    if isinstance(parameter.init, mx.init.Initializer):
        return parameter.init.dumps()
    return str(parameter.init)
