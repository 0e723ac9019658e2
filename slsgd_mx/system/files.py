"""Files written whole or not at all, and errors of the disk that say what to do."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import Dict, Iterator

import numpy as np

from slsgd_mx.errors import DiskError, RunError

Values = Dict[str, np.ndarray]


def save_arrays(path: Path, values: Values) -> None:
    """Write arrays with ``mx.nd.save``, whole or not at all."""
    from slsgd_mx.system.mxnet import mx

    beside = path.with_name(path.name + ".part.tmp")
    arrays = {k: mx.nd.array(v, dtype=v.dtype) for k, v in values.items()}
    try:
        try:
            mx.nd.save(str(beside), arrays)
            mx.nd.load(str(beside))  # MXNet does not notice a disk that fills up at the end
        except mx.base.MXNetError as error:
            full = beside.parent.is_dir() and shutil.disk_usage(beside.parent).free < 2**20
            code = errno.ENOSPC if full else errno.EIO
            raise OSError(code, f"not written whole ({_first_line(error)})") from error
        with open(beside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def load_arrays(path: Path) -> Values:
    """Read arrays written by ``save_arrays``."""
    from slsgd_mx.system.mxnet import mx

    try:
        return {key: value.asnumpy() for key, value in mx.nd.load(str(path)).items()}
    except mx.base.MXNetError as error:
        raise RunError(f"{path} is corrupt: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["unknown"])[-1]


def read_text(path: Path) -> str:
    """The text of a file; a RunError if it is none."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RunError(f"{path} is damaged: it is no text") from error


def warn(message: str) -> None:
    """Tell the user on standard error, between the lines of a progress bar if there is one."""
    from tqdm import tqdm

    with contextlib.suppress(OSError, ValueError):  # nobody reads it: the run goes on
        tqdm.write(f"warning: {message}", file=sys.stderr)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside, sync, rename: readers see the old file or the new one."""
    beside = path.with_name(path.name + ".tmp")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn an error of the disk into one that says what is kept and what to do."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        way = "free some space" if error.errno == errno.ENOSPC else "check the folder"
        raise DiskError(
            f"cannot write to {folder}: {why}. What was saved before is kept: "
            f"{way} and run the same command again"
        ) from error
