"""Find, read and check data files on this machine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Iterator, List, Optional, Protocol, Sequence, Tuple, Union

import numpy as np

from slsgd_mx.data.registry import DATASETS
from slsgd_mx.errors import DataError, RunError
from slsgd_mx.system import files

ENV_HOME = "SLSGD_MX_DATA"
PIECE = 1 << 19  # bytes read at once

PathLike = Union[str, os.PathLike]
Found = Tuple[Path, Optional[str]]  # the folder of the files and its official name, or an archive


def data_home() -> Path:
    """Return the folder of downloaded data: ``$SLSGD_MX_DATA``, else the user's cache folder."""
    chosen = os.environ.get(ENV_HOME)
    if chosen:
        return Path(os.path.expanduser(chosen))
    import pooch

    return Path(pooch.os_cache("slsgd-mx"))


def find_data(name: str, data_dir: PathLike | None) -> Found:
    """Find a data set of `DATASETS`: its folder and that one's official name, or (archive, None).

    `data_dir` is a folder that contains the files, an official folder or an official archive; or
    an archive; by default the folder that ``slsgd-mx data fetch`` fills.  If nothing is found, the
    message of the DataError lists the ways to get the data.
    """
    if data_dir is None:
        places = places_in(data_home(), name)
    else:
        places = [Path(os.path.expanduser(data_dir))]
    for place in places:
        found = look_in(place, name)
        if found:
            return found
    dataset = DATASETS[name]
    title, size = dataset.title, dataset.files[0].bytes // 10**6
    archives = [file.name for file in dataset.files]
    first = next(iter(dataset.folders.values()))[0]
    raise DataError(
        f"{title} not found in {places[0]}. Three ways to get it:\n"
        f"  slsgd-mx data fetch {name:<9}   download the official archive ({size} MB)\n"
        f"  --data-dir DIR                  DIR is or contains {' or '.join(dataset.folders)}\n"
        f"                                  (with {first} and so on),\n"
        f"                                  or {' or '.join(archives)}\n"
        f"  --data synthetic                synthetic data: a stand-in, not {title}"
    )


def places_in(home: Path, name: str) -> List[Path]:
    """Where a data set may be in the folder of all data; the first is where `fetch` puts it."""
    return [home / name, home]


def look_in(place: Path, name: str) -> Optional[Found]:
    """The data set that `place` is or contains, as `find_data` returns it, or None."""
    if not place.is_dir():
        require_file(place)
    if place.is_file():
        return place, None
    for layout, names in DATASETS[name].folders.items():
        for folder in (place / layout, place):
            if any((folder / file).is_file() for file in names):
                return folder, layout
    for archive in (place / file.name for file in DATASETS[name].files):
        require_file(archive)
        if archive.is_file():
            return archive, None
    return None


@contextlib.contextmanager
def read_errors(place: object) -> Iterator[None]:
    """Turn an OSError into a DataError that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"cannot read {error.filename or place}: {reason}") from error


def require_file(path: Path) -> None:
    """Raise a DataError if something other than a file has that name; reading a pipe would hang."""
    try:
        files.require_file(path)
    except RunError as error:
        raise DataError(str(error)) from error


def read_files(folder: Path, names: Sequence[str], most: int) -> Iterator[Tuple[str, bytearray]]:
    """Yield the path and the content of each named file; all of them must exist."""
    for name in names:
        path = folder / name
        require_file(path)
        if not path.is_file():
            raise DataError(f"{path} is missing, expected {', '.join(names)} in one folder")
        with open(path, "rb") as file:
            yield str(path), read_whole(file, os.fstat(file.fileno()).st_size, most, str(path))


class Readable(Protocol):
    """What `read_whole` needs of a file: up to `size` bytes, and none only at the end."""

    def read(self, size: int) -> bytes: ...


def read_whole(file: Readable, size: int, most: int, what: str) -> bytearray:
    """Return the `size` bytes of a file, read in pieces; refuse more than `most`."""
    if size > most:
        raise DataError(f"{what} has {size:,} bytes, expected at most {most:,}")
    raw = bytearray()
    while len(raw) <= size:  # one byte more than there should be, to notice it
        piece = file.read(min(size + 1 - len(raw), PIECE))
        if not piece:
            break
        raw += piece
    if len(raw) != size:
        found = f"ends after {len(raw):,} bytes" if len(raw) < size else "has more bytes"
        raise DataError(f"{what} {found}, expected {size:,}")
    return raw


def official(name: str) -> str:
    """Name the official archives and their sizes, for messages."""
    return " or ".join(f"{file.name} of {file.bytes:,} bytes" for file in DATASETS[name].files)


def check_range(what: str, kind: str, values: np.ndarray, item: str, stop: int) -> None:
    """Raise a DataError that names the first value outside ``0..stop - 1``.

    >>> check_range("test set", "label", np.array([0, 9, 10]), "image", 10)
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.DataError: test set: label 10 of image 2, expected 0..9
    """
    if len(values) and (values.min() < 0 or values.max() >= stop):  # no array of the same length
        first = int(((values < 0) | (values >= stop)).argmax())
        raise DataError(f"{what}: {kind} {values[first]} of {item} {first}, expected 0..{stop - 1}")
