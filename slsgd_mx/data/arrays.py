"""Your own images: arrays x_train, y_train, x_test, y_test, from a script or an .npz file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import numpy as np

from slsgd_mx.data.images import ImageData, mean_pixels
from slsgd_mx.data.reading import require_file
from slsgd_mx.errors import ConfigError, DataError
from slsgd_mx.randomness import stream
from slsgd_mx.system.files import warn
from slsgd_mx.validation import MOST_CLASSES

NAMES = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True, eq=False)
class ArrayData(ImageData):
    """Arrays in the form of ``ImageData``; float arrays are the network's input as they are."""

    classes: int = 2

    def prepared(self, pixels: np.ndarray) -> np.ndarray:
        if pixels.dtype == np.uint8:
            return super().prepared(pixels)
        return np.ascontiguousarray(pixels)

    @property
    def shape(self) -> Tuple[int, ...]:
        """The shape of one image."""
        return self.train_pixels.shape[1:]


def load_arrays(sizes: Any, path: Optional[Path]) -> ArrayData:
    """The arrays that the sizes of a run describe, made up or from a file."""
    if sizes.data == "synthetic":
        return synthetic_arrays(sizes.shape, sizes.classes, sizes.train_images, sizes.test_images)
    if path is None:
        raise DataError(f"this run needs the arrays of {sizes.data}: give --arrays FILE.npz")
    data = read_arrays(path)
    if data.digest != sizes.sha256:
        raise DataError(
            f"{path} holds other arrays than this run's (SHA-256 {data.digest[:12]}, not "
            f"{sizes.sha256[:12]}): give the same --arrays, or start another run"
        )
    return data


def sizes_in(path: Path) -> Dict[str, Any]:
    """What the sizes of a run on a file's arrays contain, by the names of ``Images``."""
    data = read_arrays(path)
    unused = describe_unused(data.train_y, data.classes)
    if unused:
        warn(f"{path}: {unused}")
    return dict(
        data=data.name,
        sha256=data.digest,
        shape=data.shape,
        classes=data.classes,
        train_images=len(data.train_y),
        test_images=len(data.test_y),
    )


def describe_unused(labels: np.ndarray, classes: int) -> str:
    """Which labels no training image has, in words; empty if there are none.

    >>> describe_unused(np.array([1, 2, 3, 4]), 5)
    'no training image has label 0: do labels start at 1?'
    >>> describe_unused(np.array([0, 1, 5]), 6)
    'no training image has label 2, 3, 4'
    """
    unused = np.flatnonzero(np.bincount(labels, minlength=classes) == 0)
    if not unused.size:
        return ""
    listed = ", ".join(map(str, unused[:5])) + ", ..." * (unused.size > 5)
    start = f": do labels start at {labels.min()}?" if unused[0] == 0 else ""
    return f"no training image has label {listed}{start}"


def read_arrays(path: Path) -> ArrayData:
    """Read and check an .npz file; nothing in it is unpickled."""
    if not Path(path).is_dir():  # NumPy names a folder; it would wait for a pipe
        require_file(Path(path))
    try:
        _require_numpy(Path(path))
        file = np.load(path, allow_pickle=False)
        held = list(getattr(file, "files", ()))  # an .npy file is a plain array
        arrays = [file[name] for name in NAMES if name in held]
    except Exception as error:  # whatever zipfile, zlib and the parsers of NumPy raise
        why = str(error) if "allow_pickle" not in str(error) else "it holds Python objects"
        raise ConfigError(
            f"{path} cannot be read as arrays ({why}): make it with np.savez(FILE, x_train=..., "
            "y_train=..., x_test=..., y_test=...)"
        ) from error
    missing = [name for name in NAMES if name not in held]
    if missing:
        raise ConfigError(
            f"{path} lacks {', '.join(missing)}: needs {', '.join(NAMES)}, and it holds "
            f"{', '.join(held) or 'no named arrays'}"
        )
    return check_arrays(Path(path).name, *arrays)


def _require_numpy(path: Path) -> None:
    """Raise a ValueError unless the file begins like one that NumPy saved."""
    with open(path, "rb") as file:
        if not file.read(6).startswith((b"PK", b"\x93NUMPY")):  # anything else would be a pickle
            raise ValueError("it is not an .npz file")


def check_arrays(
    name: str,
    x_train: np.ndarray,
    y_train: np.ndarray,
    x_test: np.ndarray,
    y_test: np.ndarray,
    classes: Optional[int] = None,
) -> ArrayData:
    """The arrays as a data set, or a ConfigError that says what is wrong with them.

    x are images, uint8 (then prepared like the paper's, ``(x - mean) / 128``) or finite floats
    (then the network's input as they are), with any shape (N, ...); a greyscale image (height,
    width) gets an axis for its one channel.  y are integers 0 .. classes - 1, (N,).
    """
    x_train, x_test = _images("x_train", x_train), _images("x_test", x_test)
    if x_train.shape[1:] != x_test.shape[1:] or x_train.dtype != x_test.dtype:
        raise ConfigError(
            f"x_train holds {x_train.dtype} {x_train.shape[1:]} and x_test {x_test.dtype} "
            f"{x_test.shape[1:]}: needs images of one type and shape"
        )
    y_train, y_test = _labels("y_train", y_train, x_train), _labels("y_test", y_test, x_test)
    most = int(y_train.max()) + 1 if classes is None else classes
    for key, labels in (("y_train", y_train), ("y_test", y_test)):
        if labels.max() >= most:
            which = int(labels.argmax())
            known = "y_train holds" if classes is None else f"classes={classes} means"
            raise ConfigError(
                f"{key} holds label {labels[which]} (sample {which}), which is out of range: "
                f"{known} labels 0 to {most - 1}"
            )
    if most < 2:
        raise ConfigError("y_train holds one label only: needs at least 2 classes")
    sha = hashlib.sha256()
    for array in (x_train, y_train, x_test, y_test):
        sha.update(f"{array.dtype} {array.shape}".encode())
        sha.update(np.ascontiguousarray(array))
    mean = mean_pixels(x_train) if x_train.dtype == np.uint8 else np.zeros(1, np.float32)
    return ArrayData(name, x_train, y_train, x_test, y_test, mean, sha.hexdigest(), most)


def _images(key: str, x: np.ndarray) -> np.ndarray:
    x = np.asarray(x)
    if x.ndim < 2 or 0 in x.shape:
        raise ConfigError(f"{key} has shape {x.shape}: needs (N, ...) with N >= 1 images")
    if x.dtype != np.uint8 and x.dtype.kind != "f":
        raise ConfigError(f"{key} is of type {x.dtype}: needs uint8 (0 to 255) or floats")
    if x.dtype.kind == "f":
        x = x.astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(x).all(axis=tuple(range(1, x.ndim))))
        if bad.size:
            raise ConfigError(
                f"{key} holds a NaN or an infinity in {bad.size} of {len(x)} images, first in "
                f"image {bad[0]}: needs finite numbers"
            )
    return x[:, None] if x.ndim == 3 else x


def _labels(key: str, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    y = np.asarray(y)
    if y.shape != x.shape[:1]:
        raise ConfigError(f"{key} has shape {y.shape}: needs ({len(x)},), a label for each image")
    if y.dtype.kind not in "iu":
        raise ConfigError(f"{key} is of type {y.dtype}: needs integers")
    if y.min() < 0:
        which = int(y.argmin())
        raise ConfigError(f"{key} holds label {y[which]} (sample {which}): needs labels >= 0")
    if y.max() >= MOST_CLASSES:
        which = int(y.argmax())
        raise ConfigError(
            f"{key} holds label {y[which]} (sample {which}): needs labels 0 to {MOST_CLASSES - 1}, "
            "because a network has a score for each"
        )
    return y.astype(np.int32)


def synthetic_arrays(
    shape: Tuple[int, ...], classes: int, train_images: int, test_images: int
) -> ArrayData:
    """Made-up images: a random pattern for each class, with noise twice as strong."""
    rng = stream(0, "synthetic-arrays")
    patterns = rng.standard_normal((classes, *shape)).astype(np.float32)
    sets = []
    for count in (train_images, test_images):
        y = rng.permutation(np.arange(count) % classes)
        noise = rng.standard_normal((count, *shape)).astype(np.float32)
        sets += [patterns[y] + np.float32(2) * noise, y]
    return check_arrays("synthetic", *sets, classes=classes)
