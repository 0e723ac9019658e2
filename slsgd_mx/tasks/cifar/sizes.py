"""Sizes of a run of the CNN on images."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Tuple

from slsgd_mx.partitions import PARTITIONS
from slsgd_mx.validation import require, require_name, require_whole

DATA = ("cifar10", "synthetic")


@dataclass(frozen=True)
class Cifar:
    """The paper's first workload, a CNN on images; the defaults are the paper's sizes."""

    task: ClassVar[str] = "cifar"
    default_attack: ClassVar[str] = "label-flip"
    metrics: ClassVar[Tuple[str, ...]] = ("train_loss", "test_loss", "test_accuracy")
    panels: ClassVar[Tuple[str, ...]] = ("test_accuracy", "train_loss")  # of the paper's figures
    unit: ClassVar[str] = "images"  # what throughput is counted in

    data: str = "cifar10"
    partition: str = "balanced"
    train_images: int = 50_000
    test_images: int = 10_000
    loss_images: int = 50_000  # training images on which the training loss is measured
    width: int = 64  # channels of the first convolution

    def validate(self, n: int) -> None:
        require_name("data", self.data, DATA)
        require_name("partition", self.partition, PARTITIONS)
        require_whole(self, train_images=1, test_images=1, loss_images=1, width=1)
        require(n <= self.train_images, "n", n, f"n <= train_images={self.train_images}")
        legal = f"1 <= loss_images <= train_images={self.train_images}"
        require(self.loss_images <= self.train_images, "loss_images", self.loss_images, legal)

    def within(self, n: int, **changes: Any) -> Cifar:
        """Return changed sizes; ``loss_images`` is reduced to ``train_images`` if necessary."""
        images = changes.get("train_images", self.train_images)
        return replace(self, **{"loss_images": min(self.loss_images, images), **changes})

    def steps_per_pass(self, n: int, batch_size: int) -> float:
        """Approximate local iterations of one pass, averaged over devices."""
        return max(1.0, self.train_images / n / batch_size + (self.partition != "balanced") / 2)

    @property
    def amount(self) -> str:
        """The amount of data, in words."""
        return f"{self.train_images:,} training and {self.test_images:,} test images"

    @property
    def evaluated(self) -> int:
        """Number of images in one evaluation."""
        return self.loss_images + self.test_images

    @property
    def network(self) -> Tuple:
        return (self.task, self.width)

    def sample(self, images: int) -> Cifar:
        """Return sizes of the same network with little synthetic data, to measure its speed."""
        few = {"train_images": max(images, 250), "test_images": 250, "loss_images": 250}
        return replace(self, data="synthetic", partition="balanced", **few)

    @property
    def data_amount(self) -> Tuple[int, ...]:
        """What the digest of the data depends on."""
        return (self.train_images, self.test_images)

    @property
    def slug(self) -> str:
        words = [self.task, self.data, self.partition, *[f"w{self.width}"] * (self.width != 64)]
        return "-".join([*words, *[f"{self.train_images}images"] * (self.train_images != 50_000)])
