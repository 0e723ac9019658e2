"""Atomic files, and disk errors that say what to do."""

from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import hashlib
import io
import json
import os
import shutil
import stat
import sys
import time
from pathlib import Path
from typing import IO, Any, Dict, Iterable, Iterator, Optional, Sequence

import numpy as np

from slsgd_mx.errors import DiskError, RunError
from slsgd_mx.system import array_format

Values = Dict[str, np.ndarray]
LONGEST_WRITE = 30.0  # seconds to wait for another process that writes the same file


def save_arrays(path: Path, values: Values) -> None:
    """Write arrays atomically with ``mx.nd.save``."""
    from slsgd_mx.system.mxnet import mx

    arrays = {k: mx.nd.array(v, dtype=v.dtype) for k, v in values.items()}
    with replacing(path, ".part.tmp") as beside:
        try:
            mx.nd.save(str(beside), arrays)
            mx.nd.load(str(beside))  # MXNet does not notice if the disk fills up at the end
        except mx.base.MXNetError as error:
            full = beside.parent.is_dir() and shutil.disk_usage(beside.parent).free < 2**20
            code = errno.ENOSPC if full else errno.EIO
            raise OSError(code, f"not written completely ({_last_line(error)})") from error
        sync(beside)


def load_arrays(path: Path) -> Values:
    """Read arrays that ``save_arrays`` wrote; a RunError if the file holds something else."""
    from slsgd_mx.system.mxnet import mx

    require_file(path)
    require_utf8(path)
    try:
        array_format.check(path)
        return {key: value.asnumpy() for key, value in mx.nd.load(str(path)).items()}
    except (ValueError, mx.base.MXNetError) as error:
        raise RunError(f"{path} is corrupt: {_last_line(error)}") from error


def require_file(path: Path) -> None:
    """Raise a RunError if something other than a file has that name; reading a pipe would hang."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise RunError(f"{path} is {kind}, and a file is needed: move it away")


def require_utf8(path: Path) -> None:
    """Raise a RunError if MXNet, which spells all names in UTF-8, would look for another path."""
    if os.fsencode(path) != str(path).encode(errors="replace"):
        raise RunError(f"MXNet cannot use {path}: that name is not UTF-8. Choose another folder")


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["unknown"])[-1]


def read_text(path: Path, most: Optional[int] = None) -> str:
    """Return the text of a file; raise a RunError if it is not UTF-8, or not a file.

    Or if it has more than ``most`` bytes.
    """
    require_file(path)
    if most is not None and path.exists() and path.stat().st_size > most:
        raise RunError(f"{path} has more than {most:,} bytes: it is not one of ours")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RunError(f"{path} is damaged: it is not text") from error


def parse_json(text: str) -> Any:
    """What JSON text says; a ValueError if it is not JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def warn(message: str) -> None:
    """Print a warning on standard error without breaking a progress bar."""
    from tqdm import tqdm

    with contextlib.suppress(OSError, ValueError):  # standard error is closed: the run continues
        tqdm.write(f"warning: {message}", file=sys.stderr)


def digest(path: Path) -> str:
    """Return the first 16 digits of the file's SHA-256."""
    require_file(path)
    total = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(2**20), b""):
            total.update(piece)
    return total.hexdigest()[:16]


def open_lock(path: Path, make: bool = True) -> IO[str]:
    """Open a lock file without changing a byte."""
    flags = os.O_RDWR | os.O_CREAT if make else os.O_RDONLY
    return os.fdopen(_open_regular(path, flags), "r+" if make else "r")


def open_log(path: Path) -> IO[bytes]:
    """Open a log to write at its end; a link that has its name is removed, not followed."""
    if path.is_symlink():
        path.unlink()
    return os.fdopen(_open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")


def _open_regular(path: Path, flags: int) -> int:
    """Open a file: never through a link, and without waiting for the other end of a pipe."""
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno != errno.ENXIO:  # a pipe
            raise
        raise RunError(f"{path} is not a file: move it away") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise RunError(f"{path} is not a file: move it away")
    return handle


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file, sync it, rename it: readers see the old file or the new one."""
    with replacing(path, ".tmp") as beside, open(beside, "r+b") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def replacing(path: Path, suffix: str) -> Iterator[Path]:
    """Yield a new, empty file; rename it to `path` at the end, or delete it after an error.

    Whatever has its name, such as what a crash left or a link, is removed first, not written to;
    another process that is writing the same file ends first, unless it takes too long.
    """
    beside = path.with_name(path.name + suffix)
    handle = _create_locked(beside)
    try:
        try:
            yield beside
            if not _is_same(handle, beside):
                raise OSError(errno.EBUSY, f"another process has replaced {beside.name}")
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                beside.unlink()
            raise
        sync(path.parent)
    finally:
        os.close(handle)


def _create_locked(path: Path) -> int:
    """Create a file and lock it, once nobody else has locked a file of that name."""
    while True:
        _remove_unlocked(path)
        with contextlib.suppress(FileExistsError):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            if _lock(handle, path):
                return handle
            os.close(handle)


def _remove_unlocked(path: Path) -> None:
    """Remove what has this name; wait while it is locked."""
    handle = None
    for flags in (os.O_RDWR, os.O_RDONLY):  # network file systems lock what is open for writing
        try:
            handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
            break
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EACCES):  # a link, or not ours to open
                raise
    if handle is None:
        path.unlink()
        return
    try:
        if _lock(handle, path):
            path.unlink()
    finally:
        os.close(handle)


def _lock(handle: int, path: Path) -> bool:
    """Wait for the lock of an open file; whether the file still has that name then.

    After ``LONGEST_WRITE`` seconds, or where a file system has no locks, it does without: whoever
    has the lock may be suspended, or have lost its handle when it was interrupted.
    """
    give_up = time.monotonic() + LONGEST_WRITE
    with contextlib.suppress(OSError):
        while time.monotonic() < give_up:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
    return _is_same(handle, path)


def _is_same(handle: int, path: Path) -> bool:
    """Whether an open file has that name."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def sync(path: Path) -> None:
    """Make the content of a file, or the names in a folder, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:  # some network file systems, and shared folders, sync files only
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, durably; nothing happens if it exists."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        with contextlib.suppress(PermissionError):  # it may be written, but not read
            sync(folder.parent)


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn an OSError into a DiskError that says what is kept and what to do."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space" if full else "check the folder"
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
