"""Images partitioned among devices, a Gluon network, accuracy and cross entropy."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from slsgd_mx.attacks import AttackContext, find_attack
from slsgd_mx.config import RunConfig
from slsgd_mx.core.task import Poison, poison_samples
from slsgd_mx.data.arrays import load_arrays
from slsgd_mx.data.images import ImageData
from slsgd_mx.errors import ConfigError
from slsgd_mx.partitions import partition
from slsgd_mx.randomness import stream
from slsgd_mx.system.arrays import as_ndarray
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.devices import check_fits
from slsgd_mx.tasks.gluon import GluonTask
from slsgd_mx.tasks.images.sizes import ImageSizes
from slsgd_mx.workloads import find, find_network

EVAL_BATCH = 250


def build_images(config: RunConfig, data_dir: Optional[Path] = None) -> ImagesTask:
    """The task of arrays in a file, which ``data_dir`` names, with the configured network."""
    sizes = config.sizes
    if sizes.structure:
        raise ConfigError(
            "this run uses a network of a script: train(config, out, task=...) with its ArraysTask"
        )
    data = load_arrays(sizes, data_dir)
    chosen = find_network(sizes.network)
    net = find(chosen.entry.build)(sizes.classes, **chosen.parameters)
    check_network(net, sizes.shape, sizes.classes)
    return ImagesTask(config, data, net, sizes.classes)


def check_network(net: object, shape: Tuple[int, ...], classes: int) -> None:
    """Initialise a network; a ConfigError if it does not map images of a shape to scores."""
    if not isinstance(net, mx.gluon.HybridBlock):
        raise ConfigError(f"a network must be a Gluon HybridBlock, not {type(net).__name__}")
    net.initialize(mx.init.Xavier(), force_reinit=True)
    try:
        found = net(mx.nd.zeros((1, *shape))).shape  # determines the shapes of the parameters
    except Exception as error:
        lines = str(error).strip().splitlines()  # MXNet's may begin like a traceback
        why = lines[-1] if lines else type(error).__name__
        raise ConfigError(f"the network cannot take images of shape {shape}: {why}") from error
    if found != (1, classes):
        raise ConfigError(
            f"the network maps a batch of one image to shape {found}: needs (1, {classes}), a "
            "score for each class"
        )


class ImagesTask(GluonTask):
    """A set of images and an initialised network, which maps images to scores of classes."""

    def __init__(
        self, config: RunConfig, data: ImageData, net: mx.gluon.HybridBlock, classes: int
    ) -> None:
        sizes = config.sizes
        self.data, self.data_digest, self.classes = data, data.digest, classes
        self.batch_size = self.units_per_step = config.batch_size
        rng = stream(config.data_seed, "partition")
        self.devices = partition(sizes.partition, data.train_y, config.n, rng)
        largest = max(map(len, self.devices))
        check_fits(config.batch_size, largest, sizes.unit, "the largest device holds")
        rows = evenly_spaced(len(data.train_y), sizes.loss_images)
        self.evaluated = [
            *cut_batches("train", sizes.loss_images, rows),
            *cut_batches("test", len(data.test_y)),
        ]
        self.sets = dict(
            train=(data.train_pixels, data.train_y), test=(data.test_pixels, data.test_y)
        )
        self.classwise = config.metrics != sizes.metrics
        if self.classwise:
            self.sets["triggered"] = triggered(config, data, classes, self.largest)
            self.evaluated += cut_batches("triggered", len(self.sets["triggered"][1]))
        super().__init__(net)
        self.objective, self.scorer = _Objective(net), _Scorer(net)
        for block in (self.objective, self.scorer):
            block.hybridize(static_alloc=True, static_shape=True)

    @cached_property
    def largest(self) -> float:
        pixels = self.data.train_pixels
        return 255.0 if pixels.dtype == np.uint8 else float(pixels.max())

    def steps_per_pass(self, device: int) -> int:
        return -(-len(self.devices[device]) // self.batch_size)

    def batches(
        self, device: int, rng: np.random.Generator, poison: Optional[Poison]
    ) -> Iterator[tuple]:
        """Yield minibatches of one device endlessly, reshuffled for every pass."""
        rows = self.devices[device]
        own = self.data.train_pixels[rows], self.data.train_y[rows]
        pixels, labels = poison_samples(poison, *own)
        while True:
            for batch in shuffled_batches(len(rows), self.batch_size, rng):
                yield self._inputs(pixels[batch], labels[batch])

    def loss(self, images: mx.nd.NDArray, labels: mx.nd.NDArray) -> mx.nd.NDArray:
        return self.objective(images, labels)

    def step(self) -> None:
        self.optimizer.step(self.batch_size)  # the mean over the minibatch

    def score_sizes(self, parts: int) -> List[int]:
        return [2 * sum(b.size for b in self.evaluated[part::parts]) for part in range(parts)]

    def score(self, part: int, parts: int) -> np.ndarray:
        """Return the cross entropies, then the hits (0 or 1), of each batch of this part."""
        scores = []
        for batch in self.evaluated[part::parts]:
            pixels, y = self.sets[batch.of]
            scores += self.scorer(*self._inputs(pixels[batch.rows], y[batch.rows]))
        empty = [np.empty(0, np.float32)]
        return np.concatenate(empty + [array.asnumpy() for array in scores])

    def metrics(self, scores: Sequence[np.ndarray]) -> Dict[str, float]:
        found: Dict[str, List[np.ndarray]] = {}
        ends = [0] * len(scores)
        for number, batch in enumerate(self.evaluated):
            part = number % len(scores)
            for name in (f"{batch.of}_loss", f"{batch.of}_accuracy"):
                values = scores[part][ends[part] :][: batch.size]
                found.setdefault(name, []).append(values[batch.seen :])
                ends[part] += batch.size
        of_all = {name: np.concatenate(parts) for name, parts in found.items()}
        if self.classwise:
            of_all["attack_success"] = of_all["triggered_accuracy"]
            for label in range(self.classes):
                hits = of_all["test_accuracy"][self.data.test_y == label]
                of_all[f"accuracy_{label}"] = hits
        names = self.metric_names or ImageSizes.metrics
        return {name: float(of_all[name].mean(dtype=np.float64)) for name in names}

    def _inputs(self, pixels: np.ndarray, labels: np.ndarray) -> Tuple[mx.nd.NDArray, ...]:
        return as_ndarray(self.data.prepared(pixels)), as_ndarray(labels.astype(np.float32))


def triggered(
    config: RunConfig, data: ImageData, classes: int, largest: float
) -> Tuple[np.ndarray, np.ndarray]:
    """The test images of classes other than the attack's target, changed by its trigger.

    Their labels are the target, so that a hit is a success of the attack.
    """
    missing = sorted(set(range(classes)) - set(data.test_y.tolist()))
    if missing:
        raise ConfigError(
            f"attack {config.attack} is measured by the accuracy of each class, and the test set "
            f"has no image of class {missing[0]}: needs at least one of each"
        )
    chosen = find_attack(config.attack)
    target, scale = chosen.parameters["target"], config.attack_scale or 0.0
    others = data.test_y != target
    rng = stream(config.seed, "attack-trigger")
    context = AttackContext(
        config.k, config.q, classes, scale, rng, chosen.parameters, largest=largest
    )
    pixels = np.asarray(chosen.entry.trigger(data.test_pixels[others], context))
    shape = (int(others.sum()), *data.test_pixels.shape[1:])
    if pixels.shape != shape:
        raise ConfigError(
            f"the trigger of {config.attack} returned inputs of shape {pixels.shape}: needs {shape}"
        )
    return pixels, np.full(len(pixels), target, np.int32)


class Batch(NamedTuple):
    """Images of an evaluation; the first ``seen`` were already in the previous batch."""

    of: str  # "train", "test" or "triggered"
    rows: Union[slice, np.ndarray]
    size: int
    seen: int


def cut_batches(of: str, count: int, rows: Optional[np.ndarray] = None) -> List[Batch]:
    """Cut ``count`` images, or the given rows, into batches of one size; the last two may overlap.

    >>> [(batch.rows.start, batch.size, batch.seen) for batch in cut_batches("test", 600)]
    [(0, 250, 0), (250, 250, 0), (350, 250, 150)]
    """
    size, batches = min(EVAL_BATCH, count), []
    for start in range(0, count, size):
        begin = min(start, count - size)
        part = slice(begin, begin + size)
        batches.append(Batch(of, part if rows is None else rows[part], size, start - begin))
    return batches


class _Objective(mx.gluon.HybridBlock):
    """Images and labels -> cross entropy of each image, as one graph."""

    def __init__(self, net: mx.gluon.HybridBlock) -> None:
        super().__init__()
        self.net = net
        self.loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F, images, labels):
        return self.loss(self.net(images), labels)


class _Scorer(_Objective):
    """Images and labels -> cross entropy of each image, and whether it is classified correctly."""

    def hybrid_forward(self, F, images, labels):
        scores = self.net(images)
        return self.loss(scores, labels), F.argmax(scores, axis=1) == labels


def evenly_spaced(total: int, count: int) -> Optional[np.ndarray]:
    """Return ``count`` evenly spaced indices below ``total``; None for all of them.

    >>> evenly_spaced(10, 4)
    array([0, 2, 5, 7])
    """
    return None if count == total else np.arange(count) * total // count


def shuffled_batches(size: int, batch: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield one pass over ``size`` rows in random order; the last batch wraps around to be full.

    >>> [len(part) for part in shuffled_batches(7, 3, np.random.default_rng(0))]
    [3, 3, 3]
    """
    order = rng.permutation(size)
    for start in range(0, size, batch):
        yield np.take(order, np.arange(start, start + batch), mode="wrap")
