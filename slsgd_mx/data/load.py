"""Load a data set by name; missing real data is an error, never silently replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from slsgd_mx.data.cifar10 import load_cifar10
from slsgd_mx.data.images import ImageData
from slsgd_mx.data.synthetic import synthetic_images
from slsgd_mx.data.synthetic_text import synthetic_text
from slsgd_mx.data.text import TextData
from slsgd_mx.data.wikitext2 import load_wikitext2


def load_images(name: str, data_dir: Path | None, train_images: int, test_images: int) -> ImageData:
    """Return the first images of ``"cifar10"``, or as many ``"synthetic"`` ones."""
    if name == "synthetic":
        return synthetic_images(train_images, test_images)
    return load_cifar10(data_dir, train_images, test_images)


def load_text(
    name: str, data_dir: Optional[Path], vocab_size: int, train_tokens: int, test_tokens: int
) -> TextData:
    """Return all of ``"wikitext2"``, or the start of an endless ``"synthetic"`` text."""
    if name == "synthetic":
        return synthetic_text(train_tokens, test_tokens, vocab_size)
    return load_wikitext2(data_dir, vocab_size)
