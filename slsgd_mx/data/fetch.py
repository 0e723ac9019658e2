"""Download the official archives: several mirrors, SHA-256, resumed by running again.

A file is written as ``NAME.part`` and renamed once its checksum is right, so whatever bears the
final name is complete. An interrupted ``.part`` is continued by the next run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

from slsgd_mx.data.download import MirrorError, part_of, pull, sha256_of
from slsgd_mx.data.registry import DATASETS, Dataset, RemoteFile
from slsgd_mx.errors import ConfigError, DataError

ENV_HOME = "SLSGD_MX_DATA"

PathLike = Union[str, os.PathLike]


class Location(NamedTuple):
    """Where a dataset is kept: its folder, its files, and whether any of them is there."""

    folder: Path
    files: List[Tuple[Path, bool]]
    present: bool


def data_home() -> Path:
    """Folder of downloaded data: ``$SLSGD_MX_DATA``, else the user's cache folder."""
    chosen = os.environ.get(ENV_HOME)
    if chosen:
        return Path(os.path.expanduser(chosen))
    import pooch

    return Path(pooch.os_cache("slsgd-mx"))


def where(name: str, home: Optional[PathLike] = None) -> Location:
    """Where `name` is or would be kept, and which of its files are there (not checked)."""
    folder = _home(home) / name
    files = [(folder / file.name, (folder / file.name).is_file()) for file in _dataset(name).files]
    return Location(folder, files, any(there for _, there in files))


def verify(name: str, home: Optional[PathLike] = None) -> List[Tuple[str, str, str]]:
    """Check what is on disk: a row (file, status, detail) for each file that holds the data.

    The status is ``"ok"``, ``"wrong"``, ``"partial"`` (fetch continues it) or ``"missing"``; one
    ``"ok"`` is enough.
    """
    folder = where(name, home).folder
    return [(file.name,) + _status(file, folder) for file in _dataset(name).files]


def fetch(
    name: str,
    home: Optional[PathLike] = None,
    progress: bool = True,
    mirrors: Optional[Sequence[str]] = None,
) -> Path:
    """Download the archive of `name` unless a verified one is there; return its path.

    Parameters
    ----------
    name : str
        ``"cifar10"`` or ``"wikitext2"``.
    home : path, optional
        Folder for all data; `data_home` by default. The archive goes to ``home/name/``.
    progress : bool
        Show a progress bar and a line for each mirror that fails, on standard error.
    mirrors : sequence of str, optional
        Addresses of folders to download from instead of the known ones.

    Raises
    ------
    DataError
        If no mirror had the right file (the message says why for each), or on a full disk or a
        folder that cannot be written.
    """
    dataset, folder = _dataset(name), where(name, home).folder
    report = _print_line if progress else _silent
    try:
        for file in dataset.files:
            status, detail = _status(file, folder)
            if status == "ok":
                return folder / file.name
            if status == "wrong":
                report(f"{folder / file.name} is not the official file and is replaced: {detail}")
        folder.mkdir(parents=True, exist_ok=True)
        failures: List[str] = []
        for file in dataset.files:
            for url in _urls(file, mirrors):
                try:
                    return pull(url, file, folder / file.name, progress, report)
                except MirrorError as error:
                    failures.append(f"{url}: {error}")
                    report(f"failed: {failures[-1]}")
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"cannot write {error.filename or folder}: {reason}") from error
    lines = "\n  ".join(failures)
    raise DataError(f"no mirror had {name}; running again continues what was begun:\n  {lines}")


def _dataset(name: str) -> Dataset:
    if name not in DATASETS:
        raise ConfigError(f"unknown data {name!r}: it needs one of {', '.join(DATASETS)}")
    return DATASETS[name]


def _home(home: Optional[PathLike]) -> Path:
    return data_home() if home is None else Path(os.path.expanduser(home))


def _urls(file: RemoteFile, mirrors: Optional[Sequence[str]]) -> Sequence[str]:
    if mirrors is None:
        return file.urls
    return [f"{mirror.rstrip('/')}/{file.name}" for mirror in mirrors]


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


def _print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _silent(line: str) -> None:
    pass
