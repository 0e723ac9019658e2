"""Read CIFAR-10 from either official layout, in a folder or directly from the archive.

| layout | folder, also in the archive | one batch file |
| --- | --- | --- |
| binary | ``cifar-10-batches-bin/`` | records of 3,073 bytes: label, then 3 x 32 x 32 pixels |
| python | ``cifar-10-batches-py/`` | pickled dict, ``data`` (N, 3072) uint8 and ``labels`` |

The official files contain 10,000 images each.  Your own may contain 1 to 10,000, but all six files
must exist.
"""

from __future__ import annotations

import tarfile
import zlib
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from slsgd_mx.data import reading
from slsgd_mx.data.archives import read_tar
from slsgd_mx.data.images import CLASSES, CROP, ImageData, prepare
from slsgd_mx.data.registry import CIFAR10
from slsgd_mx.data.safe_pickle import UnsafePickle, read_pickle
from slsgd_mx.errors import DataError
from slsgd_mx.validation import check_between

PIXELS = 3 * 32 * 32
RECORD = 1 + PIXELS  # label byte first
BATCH_IMAGES = 10_000

PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)  # types of regular files

Batch = Tuple[np.ndarray, np.ndarray]  # uint8 (N, 3, 24, 24) and uint8 (N,)


class Layout(NamedTuple):
    """One of the two official ways to store the batches."""

    files: Tuple[str, ...]  # the test batch comes last
    most: int  # bytes of one file; a larger file is not read
    decode: Callable[[bytearray, str], Batch]


def load_cifar10(
    data_dir: Optional[reading.PathLike] = None,
    train_images: Optional[int] = None,
    test_images: Optional[int] = None,
) -> ImageData:
    """Return CIFAR-10, cropped to 24 x 24.

    Parameters
    ----------
    data_dir : path, optional
        A folder that contains ``cifar-10-batches-bin/``, ``cifar-10-batches-py/``, the batch files
        themselves or an official archive; or the path of an archive.  By default the folder that
        ``slsgd-mx data fetch`` fills.
    train_images, test_images : int, optional
        Use only this number of images from the start of a set; all by default.

    Raises a DataError if the data is missing, truncated or not what it should be.
    """
    with reading.read_errors(data_dir):
        place, folder = reading.find_data("cifar10", data_dir)
        if folder is None:
            batches = _read_archive(place)
        else:
            layout = LAYOUTS[folder]
            files = reading.read_files(place, layout.files, layout.most)
            batches = [_decode(raw, layout, what) for what, raw in files]
    train_pixels, train_labels = (np.concatenate(parts) for parts in zip(*batches[:-1]))
    test_pixels, test_labels = batches[-1]
    n_train, n_test = len(train_labels), len(test_labels)
    if train_images is not None:
        n_train = check_between("train_images", train_images, 1, n_train)
    if test_images is not None:
        n_test = check_between("test_images", test_images, 1, n_test)
    train = train_pixels[:n_train], train_labels[:n_train]
    return prepare("cifar10", *train, test_pixels[:n_test], test_labels[:n_test])


def _read_archive(path: Path) -> List[Batch]:
    """Read the six batches while the archive is decompressed; nothing is written to disk."""
    found: Dict[str, Dict[str, Batch]] = {folder: {} for folder in LAYOUTS}
    expected = f"expected {reading.official('cifar10')}"
    try:
        for member, content in read_tar(path):
            folder, _, name = member.name.partition("/")
            if folder not in LAYOUTS or name not in LAYOUTS[folder].files:
                continue
            layout, batches, what = LAYOUTS[folder], found[folder], f"{path}: {member.name}"
            if name in batches:
                continue
            if member.type not in PLAIN:
                raise DataError(f"{what} is not a regular file")
            raw = reading.read_whole(content, member.size, layout.most, what)
            batches[name] = _decode(raw, layout, what)
            if len(batches) == len(layout.files):
                return [batches[name] for name in layout.files]
    except (tarfile.TarError, EOFError, zlib.error) as error:
        message = f"{path} is truncated or not a CIFAR-10 archive ({error}), {expected}"
        raise DataError(message) from error
    folder = max(found, key=lambda folder: len(found[folder]))
    missing = [f"{folder}/{name}" for name in LAYOUTS[folder].files if name not in found[folder]]
    raise DataError(f"{path} lacks {', '.join(missing)}, {expected}")


def _decode(raw: bytearray, layout: Layout, what: str) -> Batch:
    pixels, labels = layout.decode(raw, what)
    reading.check_range(what, "label", labels, "image", CLASSES)
    # Copied, because a view of the crop would keep the whole file in memory.
    return pixels.reshape(-1, 3, 32, 32)[:, :, CROP, CROP].copy(), labels.astype(np.uint8)


def _decode_binary(raw: bytearray, what: str) -> Batch:
    if not raw or len(raw) % RECORD:
        raise DataError(
            f"{what} has {len(raw):,} bytes, expected {BATCH_IMAGES * RECORD:,} (or, for data of "
            f"your own, 1 to {BATCH_IMAGES:,} whole records of {RECORD:,} bytes)"
        )
    records = np.frombuffer(raw, np.uint8).reshape(-1, RECORD)
    return records[:, 1:], records[:, 0]


def _decode_python(raw: bytearray, what: str) -> Batch:
    expected = f"a pickled dict with data ({BATCH_IMAGES:,} x {PIXELS:,} uint8) and labels"
    try:
        content = read_pickle(raw)
    except UnsafePickle as error:
        raise DataError(f"{what} is not a CIFAR-10 batch: {error}; expected {expected}") from error
    if not isinstance(content, dict):
        raise DataError(f"{what} holds a {type(content).__name__}, expected {expected}")
    pixels, labels = (content.get(key, content.get(key.decode())) for key in (b"data", b"labels"))
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != PIXELS:
        raise DataError(f"{what} has no usable data, expected {expected}")
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise DataError(f"{what} has no usable labels, expected {expected}")
    if not 1 <= len(pixels) <= BATCH_IMAGES or len(pixels) != len(labels):
        raise DataError(
            f"{what} has {len(pixels):,} images and {len(labels):,} labels, expected "
            f"{BATCH_IMAGES:,} of each (or, for data of your own, 1 to {BATCH_IMAGES:,})"
        )
    return pixels, np.array(labels, dtype=object)  # object: a pickled int may exceed any dtype


_BINARY, _PYTHON = CIFAR10.folders
LAYOUTS = {
    _BINARY: Layout(CIFAR10.folders[_BINARY], BATCH_IMAGES * RECORD, _decode_binary),
    # Pixels, labels and file names: the official files have about 31,035,000 bytes.
    _PYTHON: Layout(CIFAR10.folders[_PYTHON], 2 * BATCH_IMAGES * RECORD, _decode_python),
}
