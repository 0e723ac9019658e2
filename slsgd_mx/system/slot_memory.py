"""Memory for pushes: in this process up to a limit, beyond it in a file that is mapped.

The file has no name, or loses it before anything is in it, so that it is gone when the process
ends, however it ends.  Its space is reserved at once: a full disk is an error before anything is
computed, and not a crash while a page is written.
"""

from __future__ import annotations

import mmap
import os
import re
import tempfile
from pathlib import Path
from typing import IO, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.system.files import disk_errors, warn
from slsgd_mx.system.libraries import address
from slsgd_mx.system.machine import total_memory

VARIABLE = "SLSGD_MX_SLOT_MEMORY"
SHARE = 0.25  # of the machine's memory, if the variable is not set
SHARERS = "SLSGD_MX_SLOT_PROCESSES"  # set for children: how many processes divide that share
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
LEFTOVERS = "slots.*.tmp"  # an empty file, if a crash hits the instant in which it has a name
IN_MEMORY = ("tmpfs", "ramfs")  # file systems
PIECE = 1 << 24  # bytes
MOUNTS = Path("/proc/self/mountinfo")


def read_size(text: str) -> float:
    """The number of bytes that a text means.

    >>> read_size("2GB"), read_size("0.5 MB"), read_size("0")
    (2000000000.0, 500000.0, 0.0)
    """
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([KMGT]?B|)", text.strip().upper())
    if found is None:
        raise ConfigError(
            f"slot memory {text!r} is not a size: needs a number of bytes, at least 0, "
            "such as 2GB or 500MB"
        )
    return float(found[1]) * UNITS[found[2]]


def slot_limit() -> float:
    """Bytes of pushes that a process keeps in memory; a ConfigError if the variable is illegal."""
    text = os.environ.get(VARIABLE)
    return SHARE * total_memory() / _sharers() if text is None else read_size(text)


def sharing(processes: int) -> Dict[str, str]:
    """The variable of child processes, so many of which divide this process's default limit."""
    return {SHARERS: str(_sharers() * processes)}


def _sharers() -> int:
    text = os.environ.get(SHARERS, "1")
    if not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise ConfigError(f"{SHARERS}={text!r} must be a whole number of processes, at least 1")
    return int(text)


class SlotMemory:
    """Arrays of zeros, in memory as long as they fit into the limit, else in files in a folder.

    Without a folder everything is in memory.
    """

    def __init__(self, folder: Optional[Union[str, Path]] = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._held = 0  # bytes in memory
        self._maps: List[Tuple[np.ndarray, mmap.mmap]] = []

    @property
    def mapped(self) -> bool:
        """Whether something is in a file."""
        return bool(self._maps)

    @property
    def mapped_bytes(self) -> int:
        """How much is in files."""
        return sum(len(mapped) for _, mapped in self._maps)

    def zeros(self, rows: int, size: int) -> np.ndarray:
        """A new array, (rows, size) float32."""
        count = 4 * rows * size
        if self.folder is None or not count or self._held + count <= slot_limit():
            self._held += count
            return np.zeros((rows, size), np.float32)
        mapped = map_file(self.folder, count, f"{rows} pushes of {size} values")
        _advise(mapped, "MADV_RANDOM")  # else one value may bring megabytes around it into memory
        array = np.frombuffer(mapped, np.float32).reshape(rows, size)
        self._maps.append((array, mapped))
        return array

    def read_ahead(self, parts: Sequence[np.ndarray]) -> None:
        """Read contiguous parts of arrays from their files with few large requests."""
        for array, mapped in self._maps:
            for part in parts:
                start = address(part) - address(array)
                if 0 <= start < len(mapped):
                    first = start - start % mmap.PAGESIZE
                    _advise(mapped, "MADV_WILLNEED", first, start + part.nbytes - first)

    def release(self) -> None:
        """Take the pages of the files out of this process's memory; nothing written is lost."""
        for _, mapped in self._maps:
            _advise(mapped, "MADV_DONTNEED")


def _advise(mapped: mmap.mmap, advice: str, *span: int) -> None:
    """Tell the system how a file is used; some systems do not know all kinds of advice."""
    if hasattr(mmap, advice):
        mapped.madvise(getattr(mmap, advice), *span)


def map_file(folder: Path, count: int, what: str) -> mmap.mmap:
    """Map a new file of zeros that nobody else sees; a DiskError if there is no space for it."""
    prefix, _, suffix = LEFTOVERS.partition("*")
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        kind = file_system(folder)
        if kind in IN_MEMORY:
            warn(
                f"{what} need {count / 1e9:.1f} GB in {folder}, which is in memory, too ({kind}): "
                "choose a folder on a disk (--slot-folder of dist server, --out of a run, --runs "
                "of figures)"
            )
        try:
            with tempfile.TemporaryFile(dir=folder, prefix=prefix, suffix=suffix) as file:
                _reserve(file, count)
                return mmap.mmap(file.fileno(), count)
        except OSError as error:
            why = f"{error.strerror or error} ({what} need {count / 1e9:.1f} GB there)"
            raise OSError(error.errno, why) from error


def file_system(folder: Path) -> str:
    """The kind of file system that a folder is on, such as "ext4"; "" if the system does not say.

    Linux lists for every mount its device, and after a dash the kind (``man proc_pid_mountinfo``).
    """
    try:
        device = os.stat(folder).st_dev
        mounts = MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    number = f"{os.major(device)}:{os.minor(device)}"
    kinds = (line.partition(" - ")[2].split() for line in mounts if line.split()[2:3] == [number])
    return next((kind[0] for kind in kinds if kind), "")


def _reserve(file: IO[bytes], count: int) -> None:
    """Let a file have ``count`` bytes of disk space."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, count)
        return
    for start in range(0, count, PIECE):  # macOS
        file.write(bytes(min(PIECE, count - start)))
    file.flush()
