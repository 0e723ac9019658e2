"""The workloads' sizes: what presets cut down and configurations carry."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Sequence, Tuple, Type

from .errors import ConfigError
from .partition import PARTITIONS


def require(condition: bool, name: str, value: object, legal: str) -> None:
    """Raise a ConfigError with the value and the legal range unless the condition holds."""
    if not condition:
        raise ConfigError(f"{name}={value} is out of range: needs {legal}")


def require_name(name: str, value: str, legal: Sequence[str]) -> None:
    if value not in legal:
        raise ConfigError(f"{name}={value!r} is unknown: choose one of {', '.join(legal)}")


def require_whole(config: object, **lowest: int) -> None:
    for name, least in lowest.items():
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{name}={value!r} must be a whole number, {name} >= {least}")
        require(value >= least, name, value, f"{name} >= {least}")


@dataclass(frozen=True)
class Cifar:
    """The paper's first workload: a CNN on images, and the sizes that presets cut down."""

    kind: ClassVar[str] = "cifar"
    default_attack: ClassVar[str] = "label-flip"
    metrics: ClassVar[Tuple[str, ...]] = ("train_loss", "test_loss", "test_accuracy")
    panels: ClassVar[Tuple[str, ...]] = ("test_accuracy", "train_loss")  # of the paper's figures
    unit: ClassVar[str] = "images"  # what throughput is counted in

    data: str = "cifar10"
    partition: str = "balanced"
    train_images: int = 50_000
    test_images: int = 10_000
    loss_images: int = 50_000  # training images the training loss is measured on
    width: int = 64  # channels of the first convolution; the paper's network has 64

    def validate(self, n: int) -> None:
        require_name("data", self.data, ("cifar10", "synthetic"))
        require_name("partition", self.partition, tuple(PARTITIONS))
        require_whole(self, train_images=1, test_images=1, loss_images=1, width=1)
        require(n <= self.train_images, "n", n, f"n <= train_images={self.train_images}")
        legal = f"1 <= loss_images <= train_images={self.train_images}"
        require(self.loss_images <= self.train_images, "loss_images", self.loss_images, legal)

    def within(self, n: int, **changes: Any) -> Cifar:
        """Changed sizes; the training loss is measured on no more images than there are."""
        images = changes.get("train_images", self.train_images)
        return dataclasses.replace(
            self, **{"loss_images": min(self.loss_images, images), **changes}
        )

    def steps_per_pass(self, n: int, batch_size: int) -> float:
        """Local iterations of one pass, about, averaged over devices."""
        return max(1.0, self.train_images / n / batch_size + (self.partition != "balanced") / 2)

    @property
    def amount(self) -> str:
        """How much of the data is used."""
        return f"{self.train_images:,} training and {self.test_images:,} test images"

    @property
    def evaluated(self) -> int:
        """Images of one evaluation."""
        return self.loss_images + self.test_images

    @property
    def network(self) -> Tuple:
        return (self.kind, self.width)

    def sample(self, images: int) -> Cifar:
        """The same network on a little synthetic data, to measure its speed."""
        few = {"train_images": max(images, 250), "test_images": 250, "loss_images": 250}
        return dataclasses.replace(self, data="synthetic", partition="balanced", **few)

    @property
    def slug(self) -> str:
        return f"{self.kind}-{self.data}-{self.partition}"


@dataclass(frozen=True)
class Lstm:
    """The paper's second workload: a language model on text, in batches of bptt tokens."""

    kind: ClassVar[str] = "lstm"
    default_attack: ClassVar[str] = "label-permute"
    metrics: ClassVar[Tuple[str, ...]] = ("train_loss", "test_loss", "test_perplexity")
    panels: ClassVar[Tuple[str, ...]] = ("test_perplexity", "train_loss")
    unit: ClassVar[str] = "tokens"

    data: str = "wikitext2"
    partition: str = "shuffled"
    vocab_size: int = 33_278
    bptt: int = 35
    device_batches: int = 32  # batches of bptt tokens that each device holds
    loss_batches: int = 3_200  # training batches the training loss is measured on
    test_batches: int = 350
    width: int = 200  # of embedding and state

    def validate(self, n: int) -> None:
        require_name("data", self.data, ("wikitext2", "synthetic"))
        require_name("partition", self.partition, ("shuffled", "consecutive"))
        require_whole(self, vocab_size=3, bptt=1, device_batches=1, loss_batches=1)
        require_whole(self, test_batches=1, width=1)
        if self.data == "synthetic":
            legal = "20 <= vocab_size <= 100000 for synthetic text"
            require(20 <= self.vocab_size <= 100_000, "vocab_size", self.vocab_size, legal)
        most = n * self.device_batches
        legal = f"1 <= loss_batches <= n * device_batches = {most}"
        require(self.loss_batches <= most, "loss_batches", self.loss_batches, legal)

    def within(self, n: int, **changes: Any) -> Lstm:
        """Changed sizes; the training loss is measured on no more batches than there are."""
        batches = n * changes.get("device_batches", self.device_batches)
        return dataclasses.replace(
            self, **{"loss_batches": min(self.loss_batches, batches), **changes}
        )

    def steps_per_pass(self, n: int, batch_size: int) -> float:
        """Local iterations of one pass."""
        return float(self.device_batches)

    @property
    def amount(self) -> str:
        """How much of the data is used."""
        return f"{self.vocab_size:,} types, {self.device_batches} batches a device"

    @property
    def evaluated(self) -> int:
        """Batches of one evaluation."""
        return self.loss_batches + self.test_batches

    @property
    def network(self) -> Tuple:
        return (self.kind, self.width, self.vocab_size, self.bptt)

    def sample(self, images: int) -> Lstm:
        """The same network on a little synthetic text, to measure its speed."""
        few = {"device_batches": 3, "loss_batches": 3, "test_batches": 3}
        return dataclasses.replace(
            self, data="synthetic", vocab_size=max(20, self.vocab_size), **few
        )

    @property
    def slug(self) -> str:
        return f"{self.kind}-{self.data}-v{self.vocab_size}"


@dataclass(frozen=True)
class Problem:
    """A small problem whose constants are known, to see the theorems at work.

    ``mu`` and ``L`` bound the curvatures that are drawn for a quadratic; ``L`` is what the samples
    of the other objectives are scaled to.  What a problem really has is computed from its data
    (``slsgd_mx.objectives``), never taken from here.
    """

    kind: ClassVar[str] = "problem"
    default_attack: ClassVar[str] = "negation"
    metrics: ClassVar[Tuple[str, ...]] = ("train_loss", "error", "distance")
    panels: ClassVar[Tuple[str, ...]] = ("error", "distance")
    unit: ClassVar[str] = "samples"
    data: ClassVar[str] = "synthetic"

    objective: str = "quadratic"
    population: str = "symmetric"  # how the devices' own optima lie around the common one
    dimension: int = 10
    samples: int = 20  # of each device
    heterogeneity: float = 1.0  # standard deviation of the devices' optima, a coordinate
    curvature: float = 0.0  # share by which curvature differs between devices (quadratics)
    noise: float = 1.0  # standard deviation of samples around their device's optimum
    mu: float = 1.0
    L: float = 4.0
    waves: float = 0.5  # height of the cosines of "waves"
    radius: float = 5.0  # distance of x_0 from x_*
    instance: int = 0  # seed of the data; a run's own seed leaves the problem as it is

    def validate(self, n: int) -> None:
        from .objectives import OBJECTIVES, POPULATIONS

        require_name("objective", self.objective, tuple(OBJECTIVES))
        require_name("population", self.population, tuple(POPULATIONS))
        require_whole(self, dimension=1, samples=1, instance=0)
        for name in ("heterogeneity", "noise", "mu", "waves", "radius"):
            value = getattr(self, name)
            require(0 <= value <= 1e6, name, value, f"0 <= {name} <= 1e6")
        require(0 <= self.curvature < 1, "curvature", self.curvature, "0 <= curvature < 1")
        require(0 < self.L <= 1e6, "L", self.L, "0 < L <= 1e6")
        require(self.mu <= self.L, "mu", self.mu, f"0 <= mu <= L={self.L}")

    def within(self, n: int, **changes: Any) -> Problem:
        return dataclasses.replace(self, **changes)

    def steps_per_pass(self, n: int, batch_size: int) -> float:
        """Local iterations of one pass."""
        return float(max(1, self.samples // batch_size))

    @property
    def partition(self) -> str:
        return self.population

    @property
    def amount(self) -> str:
        """How much data there is."""
        return f"{self.samples} samples a device"

    @property
    def evaluated(self) -> int:
        """Samples of one evaluation, on each device."""
        return self.samples

    @property
    def network(self) -> Tuple:
        return (self.kind, self.objective, self.dimension)

    def sample(self, images: int) -> Problem:
        """The same: it is small already."""
        return self

    @property
    def slug(self) -> str:
        return f"{self.objective}-{self.population}"


TASKS: Dict[str, Type] = {Cifar.kind: Cifar, Lstm.kind: Lstm, Problem.kind: Problem}
