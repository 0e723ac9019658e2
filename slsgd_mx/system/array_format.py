"""The headers of a file that ``mx.nd.save`` wrote, checked before MXNet trusts them.

MXNet allocates whatever size a file claims: one of 200 bytes can take gigabytes.  All numbers are
little-endian.  A file is a magic number, a reserved number, the number of arrays, the arrays, the
number of names and the names.
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import BinaryIO

FILE = 0x112
ARRAYS = (0xF993FAC9, 0xF993FACA)  # of MXNet 1.x, without and with shapes like NumPy's
DENSE = 0
BYTES = {0: 4, 1: 8, 2: 2, 3: 1, 4: 4, 5: 1, 6: 8, 7: 1, 8: 2, 9: 2, 10: 4, 11: 8, 12: 2}  # by type
MOST_AXES = 32


def check(path: Path) -> None:
    """Raise a ValueError unless all sizes that a file claims are those of what it holds."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        magic, _, count = _read(file, "<QQQ")
        _require(magic == FILE, "it is not a file of arrays")
        _require(count >= 1, "it holds no arrays")
        for _ in range(count):
            _skip_array(file, size)
        (names,) = _read(file, "<Q")
        _require(names == count, f"{count} arrays have {names} names")
        for _ in range(names):
            (length,) = _read(file, "<Q")
            _require(length <= size - file.tell(), "a name is longer than the file")
            file.read(length).decode("utf-8")  # a UnicodeDecodeError is a ValueError
        _require(file.tell() == size, "something follows the arrays")


def _skip_array(file: BinaryIO, size: int) -> None:
    magic, storage, axes = _read(file, "<IiI")
    _require(magic in ARRAYS and storage == DENSE, "an array is not dense, or of another version")
    _require(1 <= axes <= MOST_AXES, f"an array has {axes} axes")
    shape = _read(file, f"<{axes}q")
    _, _, kind = _read(file, "<iii")  # device, its number, the type of the values
    _require(min(shape) >= 0 and kind in BYTES, f"an array has the shape {shape} and type {kind}")
    length = math.prod(shape) * BYTES[kind]
    _require(length <= size - file.tell(), "an array is longer than the file")
    file.seek(length, os.SEEK_CUR)


def _read(file: BinaryIO, kinds: str) -> tuple:
    found = file.read(struct.calcsize(kinds))
    _require(len(found) == struct.calcsize(kinds), "it ends too early")
    return struct.unpack(kinds, found)


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)
