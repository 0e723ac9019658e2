"""Download one file from one mirror: resume a partial download, verify it, rename it."""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import sys
from pathlib import Path
from typing import IO, Any, Callable, Optional

from slsgd_mx.data.reading import require_file
from slsgd_mx.data.registry import RemoteFile
from slsgd_mx.errors import DataError

TIMEOUT = 30  # seconds without an answer or a byte
CHUNK = 1 << 18

HEADERS = {
    # One mirror refuses Python's default agent; resuming needs the bytes without compression.
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Accept-Encoding": "identity",
}

Announce = Callable[[str], None]


class MirrorError(Exception):
    """A mirror lacks the file, has a different one, or broke the connection."""


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, read in chunks."""
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(CHUNK), b""):
            sha.update(chunk)
    return sha.hexdigest()


def part_of(path: Path) -> Path:
    """Return the name of a partial download of `path`."""
    return path.with_name(path.name + ".part")


def pull(url: str, file: RemoteFile, path: Path, progress: bool, report: Announce) -> Path:
    """Download from `url` what the partial file lacks, verify it and rename it to `path`.

    Raises a MirrorError if this mirror failed (a partial download that can be resumed is kept), a
    DataError or an OSError if the file cannot be written or another process is downloading it.
    """
    part = part_of(path)
    for file_path in (part, path):
        require_file(file_path)
    with open(part, "ab") as out:
        _lock(out)
        try:
            _complete(url, file, out, progress, report)
            os.fsync(out.fileno())
            os.replace(part, path)
        finally:
            if part.exists() and part.stat().st_size == 0:
                part.unlink()
    return path


def _complete(url: str, file: RemoteFile, out: IO[bytes], progress: bool, report: Announce) -> None:
    begun = _size(out)
    if begun < file.bytes:
        needed, free = file.bytes - begun, shutil.disk_usage(os.path.dirname(out.name)).free
        if free < needed:
            raise DataError(f"{out.name} needs {needed:,} more bytes, the disk has {free:,} free")
        report(f"{'continuing' if begun else 'downloading'} {url}")
        _download(url, file, out, progress)
    problem = _problem(out, file)
    if problem and begun and _size(out) >= file.bytes:
        # The fault may lie in the bytes of an earlier call, not in this mirror.
        report(f"the partial {file.name} was unusable; downloading {url} from the start")
        out.truncate(0)
        _download(url, file, out, progress)
        problem = _problem(out, file)
    if problem:
        if _size(out) >= file.bytes:
            out.truncate(0)
        raise MirrorError(problem)


def _problem(out: IO[bytes], file: RemoteFile) -> Optional[str]:
    """Return what is wrong with the downloaded file, or None."""
    size = _size(out)
    if size != file.bytes:
        return f"broke off after {size:,} bytes, expected {file.bytes:,}"
    found = sha256_of(out.name)
    if found != file.sha256:
        return f"wrong checksum, refused: SHA-256 {found}, expected {file.sha256}"
    return None


def _download(url: str, file: RemoteFile, out: IO[bytes], progress: bool) -> None:
    """Append what `out` lacks, or overwrite it if the server cannot resume."""
    import pooch
    import requests
    import urllib3
    from tqdm import tqdm

    begun = _size(out)
    failures = (
        requests.RequestException, urllib3.exceptions.HTTPError, ConnectionError, TimeoutError,
        ssl.SSLError,
    )  # fmt: skip
    pause = 0.1 if sys.stderr.isatty() else 30.0  # seconds between two displays
    shown = dict(desc=file.name, unit="B", unit_scale=True, ncols=79, disable=not progress)
    shown.update(mininterval=pause, maxinterval=max(10.0, pause))
    with tqdm(total=file.bytes - begun, **shown) as bar:
        downloader = pooch.HTTPDownloader(
            progressbar=bar if progress else False,
            chunk_size=CHUNK,
            headers=dict(HEADERS, Range=f"bytes={begun}-") if begun else HEADERS,
            timeout=TIMEOUT,
            hooks={"response": lambda response, **_: _check_answer(response, file, out, begun)},
        )
        try:
            downloader(url, _Bounded(out, file.bytes), None)
        except failures as error:
            raise MirrorError(_in_short(error)) from error


def _in_short(error: Exception) -> str:
    """Why a connection failed; urllib3's chain of causes only where it says more.

    >>> _in_short(OSError("... (Caused by NameResolutionError('Failed to resolve x.org'))"))
    'its name cannot be resolved: is there a network?'
    """
    if "NameResolutionError" in str(error):
        return "its name cannot be resolved: is there a network?"
    return f"{type(error).__name__}: {error}"


def _check_answer(response: Any, file: RemoteFile, out: IO[bytes], begun: int) -> None:
    """Refuse a different file before its first byte; empty `out` if the range was ignored."""
    length = response.headers.get("Content-Length", "")
    if response.status_code == 200:
        if length.isdigit() and int(length) != file.bytes:
            raise MirrorError(f"offers {int(length):,} bytes, expected {file.bytes:,}")
        if begun:
            out.truncate(0)
    elif response.status_code == 206:
        given = response.headers.get("Content-Range", "")
        expected = f"bytes {begun}-{file.bytes - 1}/{file.bytes}"
        if given != expected:
            raise MirrorError(f"offers {given or 'no range'}, expected {expected}")


class _Bounded:
    """A file of at most `most` bytes, so that an endless answer cannot fill the disk."""

    def __init__(self, out: IO[bytes], most: int) -> None:
        self.out, self.most, self.flush = out, most, out.flush

    def write(self, chunk: bytes) -> None:
        if _size(self.out) + len(chunk) > self.most:
            raise MirrorError(f"sent more than {self.most:,} bytes")
        self.out.write(chunk)


def _size(out: IO[bytes]) -> int:
    out.flush()
    return os.fstat(out.fileno()).st_size


def _lock(out: IO[bytes]) -> None:
    """Keep other processes from writing the file, if the system supports locks."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DataError(f"another process is downloading {out.name}; wait for it") from error
    except OSError:
        return  # a file system without locks: the checksum still protects the result
