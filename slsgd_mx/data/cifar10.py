"""Read CIFAR-10 from either official layout, in a folder or straight from the archive.

| layout | folder and archive member prefix | one batch file |
| --- | --- | --- |
| binary | ``cifar-10-batches-bin/`` | records of 3,073 bytes: label, then 3 x 32 x 32 pixels |
| python | ``cifar-10-batches-py/`` | pickled dict, ``data`` (N, 3072) uint8 and ``labels`` |

The official files hold 10,000 images each. A folder or archive of your own may hold fewer, any
whole number from 1, as long as all six files are there.
"""

from __future__ import annotations

import os
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Callable, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np

from slsgd_mx.data.fetch import data_home
from slsgd_mx.data.images import CROP, ImageData, first_bad_label, prepare
from slsgd_mx.data.registry import DATASETS
from slsgd_mx.data.safe_pickle import UnsafePickle, read_pickle
from slsgd_mx.errors import DataError
from slsgd_mx.validation import check_between

PIXELS = 3 * 32 * 32
RECORD = 1 + PIXELS  # label byte first
BATCH_IMAGES = 10_000
ARCHIVES = tuple(file.name for file in DATASETS["cifar10"].files)

Batch = Tuple[np.ndarray, np.ndarray]  # uint8 (N, 3, 24, 24) and uint8 (N,)


@dataclass(frozen=True)
class Layout:
    """One of the two official ways the batches are stored."""

    folder: str
    suffix: str
    most_bytes: int  # of one file: more is refused unread
    decode: Callable[[bytes, str], Batch]

    @property
    def files(self) -> List[str]:
        """Names of the batch files, the training batches in order, the test batch last."""
        stems = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
        return [stem + self.suffix for stem in stems]


def load_cifar10(
    data_dir: Optional[Union[str, os.PathLike]] = None,
    train_images: Optional[int] = None,
    test_images: Optional[int] = None,
) -> ImageData:
    """CIFAR-10, cropped to 24 x 24, centred and scaled.

    Parameters
    ----------
    data_dir : path, optional
        A folder holding ``cifar-10-batches-bin/``, ``cifar-10-batches-py/``, the batch files
        themselves or an official archive; or the path of an archive. By default the folder that
        ``slsgd-mx data fetch`` fills.
    train_images, test_images : int, optional
        Use only the first so many images of a set; all by default.

    Raises
    ------
    DataError
        If the data is missing, truncated or not what it should be.
    ConfigError
        If a number of images is out of range.
    """
    batches = _read(data_dir)
    train_pixels, train_labels = _join(batches[:-1])
    test_pixels, test_labels = batches[-1]
    del batches  # the joined copy is enough
    n_train, n_test = len(train_labels), len(test_labels)
    if train_images is not None:
        n_train = check_between("train_images", train_images, 1, n_train)
    if test_images is not None:
        n_test = check_between("test_images", test_images, 1, n_test)
    return prepare(
        "cifar10",
        train_pixels[:n_train],
        train_labels[:n_train],
        test_pixels[:n_test],
        test_labels[:n_test],
    )


def _read(data_dir: Optional[Union[str, os.PathLike]]) -> List[Batch]:
    """All six batches from wherever they are, test batch last."""
    if data_dir is None:
        home = data_home()
        places = [home / "cifar10", home]
    else:
        places = [Path(os.path.expanduser(data_dir))]  # an unknown user stays as it is
    try:
        for place in places:
            for path, layout in _candidates(place):
                return _read_archive(path) if layout is None else _read_folder(path, layout)
    except OSError as error:
        raise DataError(f"cannot read {error.filename or places[0]}: {error.strerror}") from error
    raise DataError(_missing(places[0]))


def _candidates(place: Path) -> Iterator[Tuple[Path, Optional[Layout]]]:
    """Where `place` holds the data: (folder, its layout), or (archive, None)."""
    if place.is_file():
        yield place, None
    for layout in LAYOUTS:
        for folder in (place / layout.folder, place):
            if any((folder / name).is_file() for name in layout.files):
                yield folder, layout
    for name in ARCHIVES:
        if (place / name).is_file():
            yield place / name, None


def _missing(place: Path) -> str:
    names = " or ".join(layout.folder for layout in LAYOUTS)
    return (
        f"CIFAR-10 not found in {place}. Three ways on:\n"
        "  slsgd-mx data fetch cifar10   download the official archive (170 MB)\n"
        f"  --data-dir DIR                DIR holds {names},\n"
        f"                                or is or holds {' or '.join(ARCHIVES)}\n"
        "  --data synthetic              drawn shapes instead: a stand-in, not CIFAR-10"
    )


def _read_folder(folder: Path, layout: Layout) -> List[Batch]:
    batches = []
    for name in layout.files:
        path = folder / name
        if not path.is_file():
            raise DataError(f"{path} is missing, expected {', '.join(layout.files)} beside it")
        with open(path, "rb") as file:
            batches.append(_decode(file, os.path.getsize(path), layout, str(path)))
    return batches


def _read_archive(path: Path) -> List[Batch]:
    """Read the six named members as the archive streams by; nothing is written to disk."""
    wanted = {f"{ly.folder}/{name}": (ly, name) for ly in LAYOUTS for name in ly.files}
    found: Dict[Layout, Dict[str, Batch]] = {layout: {} for layout in LAYOUTS}
    try:
        with tarfile.open(path, "r|gz", bufsize=1 << 20) as tar:
            for member in tar:
                layout, name = wanted.get(member.name, (None, ""))
                if layout is None or name in found[layout]:
                    continue
                file = tar.extractfile(member) if member.isreg() else None
                if file is None:
                    raise DataError(f"{path}: {member.name} is not a regular file")
                what = f"{path}: {member.name}"
                found[layout][name] = _decode(file, member.size, layout, what)
                if len(found[layout]) == len(layout.files):
                    return [found[layout][name] for name in layout.files]
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path} is truncated or no CIFAR-10 archive ({error}), expected {_official()}"
        ) from error
    layout = max(LAYOUTS, key=lambda ly: len(found[ly]))
    missing = [f"{layout.folder}/{name}" for name in layout.files if name not in found[layout]]
    raise DataError(f"{path} lacks {', '.join(missing)}, expected {_official()}")


def _official() -> str:
    return " or ".join(f"{f.name} of {f.bytes:,} bytes" for f in DATASETS["cifar10"].files)


def _decode(file: IO[bytes], size: int, layout: Layout, what: str) -> Batch:
    if size > layout.most_bytes:
        raise DataError(f"{what} has {size:,} bytes, expected at most {layout.most_bytes:,}")
    raw = file.read()
    if len(raw) != size:
        raise DataError(f"{what} ends after {len(raw):,} bytes, expected {size:,}")
    pixels, labels = layout.decode(raw, what)
    wrong = first_bad_label(labels)
    if wrong is not None:
        raise DataError(f"{what}: label {labels[wrong]} of image {wrong}, expected 0..9")
    # a copy: the crop must not keep the whole file alive
    return pixels.reshape(-1, 3, 32, 32)[:, :, CROP, CROP].copy(), labels.astype(np.uint8)


def _decode_binary(raw: bytes, what: str) -> Batch:
    if not raw or len(raw) % RECORD:
        raise DataError(
            f"{what} has {len(raw):,} bytes, expected {BATCH_IMAGES * RECORD:,} (or, for data of "
            f"your own, 1 to {BATCH_IMAGES:,} whole records of {RECORD:,} bytes)"
        )
    records = np.frombuffer(raw, np.uint8).reshape(-1, RECORD)
    return records[:, 1:], records[:, 0]


def _decode_python(raw: bytes, what: str) -> Batch:
    expected = f"a pickled dict with data ({BATCH_IMAGES:,} x {PIXELS:,} uint8) and labels"
    try:
        content = read_pickle(raw)
    except UnsafePickle as error:
        raise DataError(f"{what} is no CIFAR-10 batch: {error}; expected {expected}") from error
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
    return pixels, np.array(labels, dtype=object)


def _join(batches: List[Batch]) -> Batch:
    pixels = np.concatenate([pixels for pixels, _ in batches])
    return pixels, np.concatenate([labels for _, labels in batches])


LAYOUTS = (
    Layout("cifar-10-batches-bin", ".bin", BATCH_IMAGES * RECORD, _decode_binary),
    # pixels plus labels and file names: the official files have 31,035,xxx bytes
    Layout("cifar-10-batches-py", "", 2 * BATCH_IMAGES * RECORD, _decode_python),
)
