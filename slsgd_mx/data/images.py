"""Images as the network sees them: from uint8 pixels to centred float32."""

from __future__ import annotations

import hashlib
import operator
from dataclasses import dataclass
from typing import Optional

import numpy as np

from slsgd_mx.errors import ConfigError, DataError

CLASSES = 10
CROP = slice(4, 28)  # the centre 24 of 32 rows or columns
SHAPE = (3, 24, 24)
SCALE = 128.0  # a power of two: dividing by it is exact
CHUNK = 2048  # images converted at a time: about 14 MB of float32


@dataclass(frozen=True, eq=False)
class ImageData:
    """A training and a test set, ready for the network.

    Attributes
    ----------
    name : str
        ``"cifar10"`` or ``"synthetic"``.
    train_x, test_x : numpy.ndarray
        float32, C-contiguous, (N, 3, 24, 24), centred and scaled.
    train_y, test_y : numpy.ndarray
        int32 labels 0..9, (N,).
    digest : str
        SHA-256 over the uint8 pixels and labels the arrays were made from.
    """

    name: str
    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    digest: str


def check_count(name: str, value: object, most: int) -> int:
    """Return `value` as an int if ``1 <= value <= most``.

    Raises
    ------
    ConfigError
        If it is no whole number or out of range; the message gives the range.
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if isinstance(value, bool) or not 1 <= count <= most:
        raise ConfigError(f"{name}={value} is out of range: it needs 1 <= {name} <= {most}")
    return count


def prepare(
    name: str,
    train_pixels: np.ndarray,
    train_labels: np.ndarray,
    test_pixels: np.ndarray,
    test_labels: np.ndarray,
) -> ImageData:
    """Centre and scale both sets: ``x = (pixels - mean of the training pixels) / 128``.

    The mean is per pixel and channel, over the training images given here.

    Parameters
    ----------
    name : str
        What the data is called in manifests and titles.
    train_pixels, test_pixels : numpy.ndarray
        uint8, (N, 3, 24, 24), left untouched.
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
    mean = mean_pixels(train_pixels)
    return ImageData(
        name=name,
        train_x=_normalize(train_pixels, mean),
        train_y=np.array(train_labels, dtype=np.int32),
        test_x=_normalize(test_pixels, mean),
        test_y=np.array(test_labels, dtype=np.int32),
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


def _normalize(pixels: np.ndarray, mean: np.ndarray) -> np.ndarray:
    # in chunks into one array: no second float copy of the whole set is ever held
    out = np.empty(pixels.shape, dtype=np.float32)
    for start in range(0, len(pixels), CHUNK):
        part = out[start : start + CHUNK]
        np.subtract(pixels[start : start + CHUNK], mean, out=part)
        part /= np.float32(SCALE)
    return out


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
