"""Atomic files, and disk errors that say what to do."""

from __future__ import annotations

import contextlib
import csv
import errno
import hashlib
import io
import os
import shutil
import sys
from pathlib import Path
from typing import Dict, Iterable, Iterator, Sequence

import numpy as np

from slsgd_mx.errors import DiskError, RunError

Values = Dict[str, np.ndarray]


def save_arrays(path: Path, values: Values) -> None:
    """Write arrays atomically with ``mx.nd.save``."""
    from slsgd_mx.system.mxnet import mx

    arrays = {k: mx.nd.array(v, dtype=v.dtype) for k, v in values.items()}
    with _replacing(path, ".part.tmp") as beside:
        try:
            mx.nd.save(str(beside), arrays)
            mx.nd.load(str(beside))  # MXNet does not notice if the disk fills up at the end
        except mx.base.MXNetError as error:
            full = beside.parent.is_dir() and shutil.disk_usage(beside.parent).free < 2**20
            code = errno.ENOSPC if full else errno.EIO
            raise OSError(code, f"not written completely ({_last_line(error)})") from error
        with open(beside, "rb") as file:
            os.fsync(file.fileno())


def load_arrays(path: Path) -> Values:
    """Read arrays that ``save_arrays`` wrote."""
    from slsgd_mx.system.mxnet import mx

    try:
        return {key: value.asnumpy() for key, value in mx.nd.load(str(path)).items()}
    except mx.base.MXNetError as error:
        raise RunError(f"{path} is corrupt: {_last_line(error)}") from error


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["unknown"])[-1]


def read_text(path: Path) -> str:
    """Return the text of a file; raise a RunError if it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RunError(f"{path} is damaged: it is not text") from error


def warn(message: str) -> None:
    """Print a warning on standard error without breaking a progress bar."""
    from tqdm import tqdm

    with contextlib.suppress(OSError, ValueError):  # standard error is closed: the run continues
        tqdm.write(f"warning: {message}", file=sys.stderr)


def digest(path: Path) -> str:
    """Return the first 16 digits of the file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file, sync it, rename it: readers see the old file or the new one."""
    with _replacing(path, ".tmp") as beside, open(beside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _replacing(path: Path, suffix: str) -> Iterator[Path]:
    """Yield a temporary path; rename it to `path` at the end, or delete it after an error."""
    beside = path.with_name(path.name + suffix)
    try:
        yield beside
        os.replace(beside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn an OSError into a DiskError that says what is kept and what to do."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        remedy = "free some space" if error.errno == errno.ENOSPC else "check the folder"
        raise DiskError(
            f"cannot write to {folder}: {why}. What was saved before is kept: "
            f"{remedy} and run the same command again"
        ) from error


def to_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as text with Unix line ends; only cells that need it are quoted.

    >>> to_csv(["curve", "epoch"], [["b=2", 1], ["b=4, q=2", 1]])
    'curve,epoch\\nb=2,1\\n"b=4, q=2",1\\n'
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([columns, *rows])
    return out.getvalue()


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table whole or not at all; a missing folder is made."""
    with disk_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, to_csv(columns, rows).encode())
