"""Images as the network sees them: from uint8 pixels to centred float32."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Optional

import numpy as np

from slsgd_mx.errors import DataError

CLASSES = 10
CROP = slice(4, 28)  # the centre 24 of 32 rows or columns
SHAPE = (3, 24, 24)
SCALE = 128.0  # a power of two: multiplying by its inverse is exact
CHUNK = 2048  # images summed at a time


@dataclass(frozen=True, eq=False)
class ImageData:
    """A training and a test set; pixels become the network's input batch by batch.

    Attributes
    ----------
    name : str
        ``"cifar10"`` or ``"synthetic"``.
    train_pixels, test_pixels : numpy.ndarray
        uint8, (N, 3, 24, 24): a quarter of the memory that float32 takes.
    train_y, test_y : numpy.ndarray
        int32 labels 0..9, (N,).
    mean : numpy.ndarray
        Per-pixel mean of the training images, (3, 24, 24).
    digest : str
        SHA-256 over pixels and labels.
    """

    name: str
    train_pixels: np.ndarray
    train_y: np.ndarray
    test_pixels: np.ndarray
    test_y: np.ndarray
    mean: np.ndarray
    digest: str

    @property
    def train_x(self) -> np.ndarray:
        """All training images as the network sees them, computed anew."""
        return self.prepared(self.train_pixels)

    @property
    def test_x(self) -> np.ndarray:
        """All test images as the network sees them, computed anew."""
        return self.prepared(self.test_pixels)

    def prepared(self, pixels: np.ndarray) -> np.ndarray:
        """``x = (pixels - mean of the training pixels) / 128``, float32."""
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
    """Check both sets and put them together; the mean is over the training images given here.

    Parameters
    ----------
    name : str
        What the data is called in manifests and titles.
    train_pixels, test_pixels : numpy.ndarray
        uint8, (N, 3, 24, 24).
    train_labels, test_labels : numpy.ndarray
        Integers 0..9, (N,).

    Raises
    ------
    DataError
        If shapes, types or labels are not as above.
    """
    for part, pixels, labels in (
        ("training", train_pixels, train_labels),
        ("test", test_pixels, test_labels),
    ):
        _check(f"{name} {part} set", pixels, labels)
    return ImageData(
        name=name,
        train_pixels=train_pixels,
        train_y=np.array(train_labels, dtype=np.int32),
        test_pixels=test_pixels,
        test_y=np.array(test_labels, dtype=np.int32),
        mean=mean_pixels(train_pixels),
        digest=_digest(train_pixels, train_labels, test_pixels, test_labels),
    )


def mean_pixels(pixels: np.ndarray) -> np.ndarray:
    """Per-pixel mean of (N, 3, 24, 24) uint8 images, as (3, 24, 24) float32.

    The sum is an integer, so the result does not depend on the order of the images.
    """
    total = np.zeros(pixels.shape[1:], dtype=np.int64)
    for start in range(0, len(pixels), CHUNK):
        # 2,048 x 255 fits a uint32, which sums much faster than int64
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
    wrong = first_bad_label(labels)
    if wrong is not None:
        raise DataError(f"{what}: label {labels[wrong]} of image {wrong}, expected 0..9")


def first_bad_label(labels: np.ndarray) -> Optional[int]:
    """Position of the first label outside 0..9, or None.

    >>> first_bad_label(np.array([0, 9, 10]))
    2
    """
    bad = (labels < 0) | (labels >= CLASSES)
    return int(bad.argmax()) if bad.any() else None


def _digest(*arrays: np.ndarray) -> str:
    """SHA-256 of pixels and labels as bytes, each led by its shape."""
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(repr(array.shape).encode())
        # labels are below 256, so one byte each whatever integer type they came in
        sha.update(np.ascontiguousarray(array, dtype=np.uint8))
    return sha.hexdigest()
