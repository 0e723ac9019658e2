"""Image data: CIFAR-10 in any official form, a drawn stand-in, and the download of both sets.

Importing this package is cheap: NumPy only, the download library is imported where it is used.
"""

from pathlib import Path
from typing import Optional

from slsgd_mx.data.cifar10 import load_cifar10
from slsgd_mx.data.fetch import data_home, fetch, verify, where
from slsgd_mx.data.images import ImageData
from slsgd_mx.data.synthetic import synthetic_images

__all__ = [
    "ImageData",
    "data_home",
    "fetch",
    "load_cifar10",
    "load_images",
    "synthetic_images",
    "verify",
    "where",
]


def load_images(
    name: str, data_dir: Optional[Path], train_images: int, test_images: int
) -> ImageData:
    """The images of that name; missing real data is an error, never a silent stand-in."""
    if name == "synthetic":
        return synthetic_images(train_images, test_images)
    return load_cifar10(data_dir, train_images, test_images)
