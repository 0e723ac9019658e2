"""Download the official archives from several mirrors, verified by SHA-256, and find them.

A file is downloaded as ``NAME.part`` and renamed once its checksum is right, so a file with the
final name is complete.  An interrupted download is continued by the next call.
"""

from __future__ import annotations

import contextlib
import os
import sys
from functools import partial
from pathlib import Path
from typing import List, NamedTuple, Optional, Sequence, Tuple

from slsgd_mx.data.download import MirrorError, part_of, pull, sha256_of
from slsgd_mx.data.reading import PathLike, data_home, look_in, places_in
from slsgd_mx.data.registry import DATASETS, RemoteFile
from slsgd_mx.errors import DataError
from slsgd_mx.validation import require_name


class Location(NamedTuple):
    """The folder of a data set, and whether it is there (unverified)."""

    folder: Path
    present: bool


def where(name: str, home: Optional[PathLike] = None) -> Location:
    """Return where runs find `name`, its files or an archive; if nowhere, where `fetch` puts it."""
    places = _places(name, home)
    for place in places:
        with contextlib.suppress(DataError):  # something that cannot be read has its name
            found = look_in(place, name)
            if found:
                path, layout = found
                return Location(path if layout else path.parent, True)
    return Location(places[0], False)


def verify(name: str, home: Optional[PathLike] = None) -> List[Tuple[str, str, str]]:
    """Verify the archives of `name`: return (file, status, detail) for each.

    The status is ``"ok"``, ``"wrong"``, ``"partial"`` (`fetch` continues it) or ``"missing"``; one
    ``"ok"`` is enough, because each archive contains the whole data set.
    """
    folder = _places(name, home)[0]
    return [(file.name, *_status(file, folder)) for file in DATASETS[name].files]


def fetch(
    name: str,
    home: Optional[PathLike] = None,
    progress: bool = True,
    mirrors: Optional[Sequence[str]] = None,
) -> Path:
    """Download an archive of `name` unless a verified one exists; return its path.

    Parameters
    ----------
    name : str
        ``"cifar10"`` or ``"wikitext2"``.
    home : path, optional
        Folder of all data; `data_home` by default.  The archive is stored in ``home/name/``.
    progress : bool
        Show a progress bar and a line for each mirror that fails, on standard error.
    mirrors : sequence of str, optional
        Addresses of folders to download from instead of the known mirrors.

    Raises a DataError if every mirror failed (the message gives each reason), or if the disk is
    full or the folder cannot be written.
    """
    folder = _places(name, home)[0]
    files = DATASETS[name].files
    report = partial(print, file=sys.stderr, flush=True) if progress else (lambda line: None)
    failures: List[str] = []
    try:
        for file in files:
            status, detail = _status(file, folder)
            if status == "ok":
                return folder / file.name
            if status == "wrong":
                report(f"{folder / file.name} is not the official file: {detail}; replacing it")
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            urls = [f"{mirror.rstrip('/')}/{file.name}" for mirror in mirrors or ()]
            for url in file.urls if mirrors is None else urls:
                try:
                    return pull(url, file, folder / file.name, progress, report)
                except MirrorError as error:
                    failures.append(f"{url}: {error}")
                    report(f"failed: {failures[-1]}")
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"cannot write {error.filename or folder}: {reason}") from error
    lines = "\n  ".join(failures)
    raise DataError(
        f"every mirror of {name} failed; a rerun continues the download, --data-dir DIR of the "
        f"other commands uses a copy that you have:\n  {lines}"
    )


def _places(name: str, home: Optional[PathLike]) -> List[Path]:
    require_name("data", name, DATASETS)
    return places_in(data_home() if home is None else Path(os.path.expanduser(home)), name)


def _status(file: RemoteFile, folder: Path) -> Tuple[str, str]:
    path, part = folder / file.name, part_of(folder / file.name)
    if path.is_file():
        size = path.stat().st_size
        if size != file.bytes:
            return "wrong", f"{size:,} bytes, expected {file.bytes:,}"
        found = sha256_of(path)
        if found != file.sha256:
            return "wrong", f"SHA-256 {found}, expected {file.sha256}"
        return "ok", f"{size:,} bytes, SHA-256 {found}"
    if part.is_file():
        return "partial", f"{part.stat().st_size:,} of {file.bytes:,} bytes"
    return "missing", f"{file.bytes:,} bytes to download"
