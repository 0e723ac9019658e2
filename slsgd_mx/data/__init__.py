"""Images and text: CIFAR-10 and WikiText-2 in any official form, stand-ins for both, the download.

Importing this package is cheap: NumPy only. The download library and GluonNLP are imported where
they are used.
"""

from pathlib import Path
from typing import Optional

from slsgd_mx.data.cifar10 import load_cifar10
from slsgd_mx.data.fetch import data_home, fetch, verify, where
from slsgd_mx.data.images import ImageData
from slsgd_mx.data.synthetic import synthetic_images
from slsgd_mx.data.synthetic_text import synthetic_text
from slsgd_mx.data.text import TextData, batchify_text, deal_batches
from slsgd_mx.data.wikitext2 import load_wikitext2

__all__ = [
    "ImageData",
    "TextData",
    "batchify_text",
    "data_home",
    "deal_batches",
    "fetch",
    "load_cifar10",
    "load_images",
    "load_text",
    "load_wikitext2",
    "synthetic_images",
    "synthetic_text",
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


def load_text(
    name: str, data_dir: Optional[Path], vocab_size: int, train_tokens: int, test_tokens: int
) -> TextData:
    """The text of that name: WikiText-2 whole, or as much synthetic text as is asked for."""
    if name == "synthetic":
        return synthetic_text(train_tokens, test_tokens, vocab_size)
    return load_wikitext2(data_dir, vocab_size)
