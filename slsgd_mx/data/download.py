"""One file from one mirror: continue what is there, check it, then give it its final name."""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
from pathlib import Path
from typing import IO, Any, Callable, Optional, Union

from slsgd_mx.data.registry import RemoteFile
from slsgd_mx.errors import DataError

TIMEOUT = 30  # seconds without an answer or a byte
CHUNK = 1 << 18

HEADERS = {
    # a mirror refuses Python's default agent; and bytes must come as they are to be continued
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Accept-Encoding": "identity",
}

Report = Callable[[str], None]


class MirrorError(Exception):
    """A mirror that does not have the file, breaks off, or has another one."""


def sha256_of(path: Union[str, os.PathLike]) -> str:
    """SHA-256 of a file, read in pieces."""
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(CHUNK), b""):
            sha.update(piece)
    return sha.hexdigest()


def part_of(path: Path) -> Path:
    """Name of the unfinished `path`."""
    return path.with_name(path.name + ".part")


def pull(url: str, file: RemoteFile, path: Path, progress: bool, report: Report) -> Path:
    """Complete the unfinished file from `url`, check it and rename it to `path`.

    Raises
    ------
    MirrorError
        If this mirror failed. What is worth continuing is kept.
    DataError, OSError
        If the disk is at fault, or another process is at the same file.
    """
    part = part_of(path)
    try:
        with open(part, "ab") as out:
            _lock(out)
            _complete(url, file, out, progress, report)
            os.fsync(out.fileno())
        os.replace(part, path)
    finally:
        if part.exists() and part.stat().st_size == 0:
            part.unlink()
    return path


def _complete(url: str, file: RemoteFile, out: IO[bytes], progress: bool, report: Report) -> None:
    begun = _size(out)
    if begun < file.bytes:
        _check_space(out.name, file.bytes - begun)
        report(f"{'continuing' if begun else 'downloading'} {url}")
        _download(url, file, out, progress)
    problem = _problem(out, file)
    if problem and begun and _size(out) >= file.bytes:
        # what an earlier run left behind may be at fault, not this mirror
        report(f"the unfinished {file.name} was unusable; downloading {url} afresh")
        out.truncate(0)
        _download(url, file, out, progress)
        problem = _problem(out, file)
    if problem:
        if _size(out) >= file.bytes:
            out.truncate(0)
        raise MirrorError(problem)


def _problem(out: IO[bytes], file: RemoteFile) -> Optional[str]:
    """What is wrong with the finished download, or None."""
    size = _size(out)
    if size != file.bytes:
        return f"broke off after {size:,} bytes, expected {file.bytes:,}"
    found = sha256_of(out.name)
    if found != file.sha256:
        return f"wrong checksum, refused: SHA-256 {found}, expected {file.sha256}"
    return None


def _download(url: str, file: RemoteFile, out: IO[bytes], progress: bool) -> None:
    """Append to `out` what it lacks, or fill it anew if the server cannot continue."""
    import pooch
    import requests
    import urllib3

    begun = _size(out)
    headers = dict(HEADERS, Range=f"bytes={begun}-") if begun else HEADERS
    bar = _bar(file, begun) if progress else None
    downloader = pooch.HTTPDownloader(
        progressbar=bar or False,
        chunk_size=CHUNK,
        headers=headers,
        timeout=TIMEOUT,
        hooks={"response": lambda response, **_: _check_answer(response, file, out, begun)},
    )
    network = (requests.RequestException, urllib3.exceptions.HTTPError, ConnectionError)
    try:
        downloader(url, _Bounded(out, file.bytes), None)
    except network + (TimeoutError, ssl.SSLError) as error:
        raise MirrorError(f"{type(error).__name__}: {error}") from error
    finally:
        if bar is not None:
            bar.close()


def _check_answer(response: Any, file: RemoteFile, out: IO[bytes], begun: int) -> None:
    """Refuse another file before its first byte; start anew if the server ignored the range."""
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
    """A file that refuses to grow beyond `most` bytes: an endless answer must not fill the disk."""

    def __init__(self, out: IO[bytes], most: int) -> None:
        self.out, self.most = out, most

    def write(self, piece: bytes) -> None:
        if _size(self.out) + len(piece) > self.most:
            raise MirrorError(f"sent more than {self.most:,} bytes")
        self.out.write(piece)

    def flush(self) -> None:
        self.out.flush()


def _bar(file: RemoteFile, begun: int) -> Any:
    from tqdm import tqdm

    return tqdm(total=file.bytes - begun, desc=file.name, unit="B", unit_scale=True, ncols=79)


def _size(out: IO[bytes]) -> int:
    out.flush()
    return os.fstat(out.fileno()).st_size


def _check_space(path: str, needed: int) -> None:
    free = shutil.disk_usage(os.path.dirname(path)).free
    if free < needed:
        raise DataError(f"{path} needs {needed:,} more bytes, the disk has {free:,} free")


def _lock(out: IO[bytes]) -> None:
    """Let one process at a time write the file, where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DataError(f"another process is downloading {out.name}; wait for it") from error
    except OSError:
        return  # a file system without locks: the checksum still guards the result
