"""Sizes of a run on images: what all image workloads share, and those of your own arrays."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Optional, Tuple

from slsgd_mx.errors import ConfigError
from slsgd_mx.partitions import find_partition
from slsgd_mx.plugins import Source
from slsgd_mx.registry import whole
from slsgd_mx.validation import MOST_CLASSES, require, require_whole
from slsgd_mx.workloads import NETWORKS, SMALL, Network, Sizes, find_network, in_a_name


class ImageSizes(Sizes):
    """What the sizes of image workloads share; ``partition`` holds the canonical text."""

    default_attack: ClassVar[str] = "label-flip"
    metrics: ClassVar[Tuple[str, ...]] = ("train_loss", "test_loss", "test_accuracy")
    panels: ClassVar[Tuple[str, ...]] = ("test_accuracy", "train_loss")  # of the paper's figures
    unit: ClassVar[str] = "images"  # what throughput is counted in
    poisons_inputs: ClassVar[bool] = True

    shape: Tuple[int, ...]  # of one image
    classes: int
    partition: str
    train_images: int
    test_images: int
    loss_images: int  # training images on which the training loss is measured

    def __post_init__(self) -> None:
        with contextlib.suppress(ConfigError):  # validate raises it
            object.__setattr__(self, "partition", find_partition(self.partition).text)

    def validate(self, n: int) -> None:
        find_partition(self.partition)
        require_whole(self, train_images=1, test_images=1, loss_images=1)
        require(n <= self.train_images, "n", n, f"n <= train_images={self.train_images}")
        legal = f"1 <= loss_images <= train_images={self.train_images}"
        require(self.loss_images <= self.train_images, "loss_images", self.loss_images, legal)

    def within(self, n: int, **changes: Any) -> ImageSizes:
        """Return changed sizes; ``loss_images`` is reduced to ``train_images`` if necessary."""
        images = changes.get("train_images", self.train_images)
        return dataclasses.replace(
            self, **{"loss_images": min(self.loss_images, images), **changes}
        )

    def sources(self) -> List[Optional[Source]]:
        return [*super().sources(), find_partition(self.partition).source]

    def steps_per_pass(self, n: int, batch_size: int) -> float:
        """Approximate local iterations of one pass, averaged over devices."""
        return max(1.0, self.train_images / n / batch_size + (self.partition != "balanced") / 2)

    @property
    def attack_metrics(self) -> Tuple[str, ...]:
        return ("attack_success", *(f"accuracy_{label}" for label in range(self.classes)))

    @property
    def amount(self) -> str:
        """The amount of data, in words."""
        return f"{self.train_images:,} training and {self.test_images:,} test images"

    @property
    def evaluated(self) -> int:
        """Number of images in one evaluation."""
        return self.loss_images + self.test_images


def _needs_images(shape: Tuple[int, ...]) -> Optional[str]:
    """What the CNN, which halves images twice, needs."""
    fine = len(shape) == 3 and min(shape[1:]) >= 4
    return None if fine else "images (channels, height, width) of at least 4 x 4 pixels"


WIDTH = {"width": whole(64)}
NETWORKS.update(
    cnn=Network(
        "slsgd_mx.tasks.cifar.network:cnn", "the paper's four convolutions", WIDTH, _needs_images
    ),
    mlp=Network("slsgd_mx.tasks.images.network:mlp", "two hidden layers of the width", WIDTH),
)


@dataclass(frozen=True)
class Images(ImageSizes):
    """Your own images: arrays x_train, y_train, x_test, y_test, whose digest is ``sha256``.

    ``slsgd-mx train images --arrays FILE.npz`` and ``ArraysTask`` fill these in from the arrays.

    Parameters
    ----------
    data : str
        The name of the file, or "synthetic".
    sha256 : str
        Digest of the arrays; empty for synthetic data.
    shape : tuple of int
        Of one image, such as (channels, height, width).
    classes : int
        Number of labels, at least 2.
    partition : str
        Which device holds which images, ``NAME:key=value,...``.
    train_images, test_images : int
        Number of images.
    loss_images : int
        Training images on which the training loss is measured, at most ``train_images``.
    network : str
        ``NAME:key=value,...``, or "own" for a network that a script passes to ``ArraysTask``.
    structure : str
        Digest of what a network of one's own computes.

    Examples
    --------
    >>> from slsgd_mx import preset
    >>> preset("images", "smoke", network="mlp:width=16").sizes.network
    'mlp:width=16'
    """

    task: ClassVar[str] = "images"

    data: str = "synthetic"  # the name of the file, or synthetic
    sha256: str = ""  # of the arrays
    shape: Tuple[int, ...] = (1, 8, 8)  # of one image
    classes: int = 10
    partition: str = "balanced"
    train_images: int = 1000
    test_images: int = 200
    loss_images: int = 200
    network: str = "cnn:width=8"
    structure: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "shape", tuple(self.shape))  # JSON has lists
        with contextlib.suppress(ConfigError):
            object.__setattr__(self, "network", find_network(self.network).text)

    def validate(self, n: int) -> None:
        super().validate(n)
        require_whole(self, classes=2)
        legal = f"2 <= classes <= {MOST_CLASSES}"
        require(self.classes <= MOST_CLASSES, "classes", self.classes, legal)
        if (self.data == "synthetic") == bool(self.sha256):
            raise ConfigError(f"data={self.data!r} needs the digest of its arrays: give --arrays")
        if not self.structure:
            chosen = find_network(self.network)
            needs = chosen.entry.legal and chosen.entry.legal(self.shape)
            if needs:
                raise ConfigError(f"network {chosen.name!r} needs {needs}, not {self.shape}")

    def sources(self) -> List[Optional[Source]]:
        network = None if self.structure else find_network(self.network).source
        return [*super().sources(), network]

    def sample(self, images: int) -> Images:
        """Return sizes of the same network with little synthetic data, to measure its speed."""
        few = {"train_images": max(images, 250), "test_images": 250, "loss_images": 250}
        return dataclasses.replace(self, data="synthetic", sha256="", partition="balanced", **few)

    @property
    def title(self) -> str:
        return f"{self.task}, network {self.network}"

    @property
    def cost_key(self) -> Tuple:
        return (self.task, self.network, self.structure, self.shape, self.classes)

    @property
    def slug(self) -> str:
        words = [self.task, self.data, self.network, self.partition, f"{self.train_images}images"]
        return "-".join(in_a_name(word) for word in words)


# For a few thousand images; smoke is made of synthetic ones.
PRESETS: Dict[str, Dict[str, Any]] = {
    "laptop": {**SMALL, "network": "cnn:width=32"},
    "smoke": SMALL,
}
