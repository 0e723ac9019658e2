"""Sizes of a run of the CNN on CIFAR-10."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Tuple

from slsgd_mx.tasks.images.sizes import ImageSizes
from slsgd_mx.validation import require_name, require_whole
from slsgd_mx.workloads import in_a_name

DATA = ("cifar10", "synthetic")
MOST_WIDTH = 1930  # the largest layer has 576 width**2 weights, and an MXNet array less than 2**31


@dataclass(frozen=True)
class Cifar(ImageSizes):
    """The paper's first workload, a CNN on images; the defaults are the paper's sizes.

    Parameters
    ----------
    data : str
        "cifar10", or "synthetic" images of the same shape, which are embedded.
    partition : str
        Which device holds which images: "balanced", "unbalanced" or another, with parameters.
    train_images, test_images : int
        Images used.  Paper: 50,000 and 10,000.
    loss_images : int
        Training images on which the training loss is measured, at most ``train_images``.
    width : int
        Channels of the first convolution.  Paper: 64.

    Examples
    --------
    >>> from slsgd_mx import Cifar, RunConfig
    >>> RunConfig(sizes=Cifar(partition="unbalanced"), b=2).sizes.train_images
    50000
    """

    task: ClassVar[str] = "cifar"
    shape: ClassVar[Tuple[int, ...]] = (3, 24, 24)
    classes: ClassVar[int] = 10

    data: str = "cifar10"
    partition: str = "balanced"
    train_images: int = 50_000
    test_images: int = 10_000
    loss_images: int = 50_000  # training images on which the training loss is measured
    width: int = 64  # channels of the first convolution

    def validate(self, n: int) -> None:
        require_name("data", self.data, DATA)
        require_whole(self, most=MOST_WIDTH, width=1)
        super().validate(n)

    def sample(self, images: int) -> Cifar:
        """Return sizes of the same network with little synthetic data, to measure its speed."""
        few = {"train_images": max(images, 250), "test_images": 250, "loss_images": 250}
        return replace(self, data="synthetic", partition="balanced", **few)

    @property
    def cost_key(self) -> Tuple:
        return (self.task, self.width)

    @property
    def data_amount(self) -> Tuple[int, ...]:
        """What the digest of the data depends on."""
        return (self.train_images, self.test_images)

    @property
    def slug(self) -> str:
        words = [self.task, self.data, in_a_name(self.partition)]
        words += [f"w{self.width}"] * (self.width != 64)
        return "-".join([*words, *[f"{self.train_images}images"] * (self.train_images != 50_000)])
