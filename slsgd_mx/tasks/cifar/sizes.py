"""How large a run of the CNN on images is, and on which data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Tuple

from slsgd_mx.partitions import PARTITIONS
from slsgd_mx.validation import require, require_name, require_whole


@dataclass(frozen=True)
class Cifar:
    """The paper's first workload: a CNN on images, and the sizes that presets cut down."""

    task: ClassVar[str] = "cifar"
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
        return (self.task, self.width)

    def sample(self, images: int) -> Cifar:
        """The same network on a little synthetic data, to measure its speed."""
        few = {"train_images": max(images, 250), "test_images": 250, "loss_images": 250}
        return dataclasses.replace(self, data="synthetic", partition="balanced", **few)

    @property
    def slug(self) -> str:
        return f"{self.task}-{self.data}-{self.partition}"
