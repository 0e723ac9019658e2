"""Images: uint8 pixels in memory, centred float32 for the network."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from slsgd_mx.data.reading import check_range
from slsgd_mx.errors import DataError

CLASSES = 10
CROP = slice(4, 28)  # the centre 24 of 32 rows or columns
SHAPE = (3, 24, 24)
SCALE = 128.0  # a power of two: multiplying by its inverse is exact
CHUNK = 2048  # images summed at a time


@dataclass(frozen=True, eq=False)
class ImageData:
    """A training and a test set of images.

    Pixels are uint8 (N, 3, 24, 24), a quarter of the memory of float32; `prepared` converts a
    batch.  Labels are int32 0..9, (N,).
    """

    name: str  # "cifar10" or "synthetic"
    train_pixels: np.ndarray
    train_y: np.ndarray
    test_pixels: np.ndarray
    test_y: np.ndarray
    mean: np.ndarray  # per-pixel mean of the training images, (3, 24, 24)
    digest: str  # SHA-256 of pixels and labels

    @property
    def train_x(self) -> np.ndarray:
        """All training images as the network's input, float32 (N, 3, 24, 24); not cached."""
        return self.prepared(self.train_pixels)

    @property
    def test_x(self) -> np.ndarray:
        """All test images as the network's input, float32 (N, 3, 24, 24); not cached."""
        return self.prepared(self.test_pixels)

    def prepared(self, pixels: np.ndarray) -> np.ndarray:
        """Return the network's input ``x = (pixels - mean) / 128``, float32 (N, 3, 24, 24)."""
        x = np.subtract(pixels, self.mean, dtype=np.float32)
        x *= np.float32(1 / SCALE)
        return x


def prepare(
    name: str,
    train_pixels: np.ndarray,
    train_labels: np.ndarray,
    test_pixels: np.ndarray,
    test_labels: np.ndarray,
) -> ImageData:
    """Check both sets and compute the mean of the training images.

    Pixels are uint8 (N, 3, 24, 24), labels integers 0..9 (N,); anything else raises a DataError.
    """
    _check(f"{name} training set", train_pixels, train_labels)
    _check(f"{name} test set", test_pixels, test_labels)
    train_y, test_y = (np.array(labels, dtype=np.int32) for labels in (train_labels, test_labels))
    sha = hashlib.sha256()  # of the arrays' bytes, each after its shape
    for array in (train_pixels, train_labels, test_pixels, test_labels):
        sha.update(repr(array.shape).encode())
        # Labels are below 256, so one byte each suffices for every integer type.
        sha.update(np.ascontiguousarray(array, dtype=np.uint8))
    mean = mean_pixels(train_pixels)
    return ImageData(name, train_pixels, train_y, test_pixels, test_y, mean, sha.hexdigest())


def mean_pixels(pixels: np.ndarray) -> np.ndarray:
    """Return the per-pixel mean of uint8 images (N, 3, 24, 24), float32 (3, 24, 24).

    The sum is an integer, so the result does not depend on the order of the images.
    """
    total = np.zeros(pixels.shape[1:], dtype=np.int64)
    for start in range(0, len(pixels), CHUNK):
        # 2,048 x 255 fits into uint32, which is much faster to sum than int64.
        total += pixels[start : start + CHUNK].sum(axis=0, dtype=np.uint32)
    return (total / len(pixels)).astype(np.float32)


def _check(what: str, pixels: np.ndarray, labels: np.ndarray) -> None:
    if pixels.dtype != np.uint8 or pixels.shape[1:] != SHAPE or len(pixels) == 0:
        raise DataError(
            f"{what}: pixels are {pixels.dtype} {pixels.shape}, expected uint8 (N, 3, 24, 24)"
        )
    if labels.shape != pixels.shape[:1] or labels.dtype.kind not in "iu":
        raise DataError(
            f"{what}: labels are {labels.dtype} {labels.shape}, expected {len(pixels)} integers"
        )
    check_range(what, "label", labels, "image", CLASSES)
