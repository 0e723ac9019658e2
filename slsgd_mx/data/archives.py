"""Read tar and zip archives from anywhere in bounded memory and time.

Python's ``tarfile`` reads a long name or a pax header of any size into memory, and a compressed
stream in pieces that unpack to any size; ``zipfile`` unpacks a whole member before it compares the
size.  Here every read is small, and the numbers of members and of bytes are limited.
"""

from __future__ import annotations

import io
import itertools
import os
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, Iterator, Optional, Tuple

from slsgd_mx.data.reading import PIECE, read_whole
from slsgd_mx.errors import DataError

MOST_BYTES = 1 << 29  # of a tar, packed or unpacked; both layouts of CIFAR-10 have 184 MB
MOST_MEMBERS = 1000  # of a tar; the official ones have 9
BLOCK = tarfile.BLOCKSIZE
WITHOUT_CONTENT = (
    tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE,
    tarfile.FIFOTYPE,
)  # fmt: skip
# Of bzip2 and LZMA, zipfile unpacks as much as a piece yields.
BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Content:
    """The content of a tar's member, to be read from its start."""

    def __init__(self, stream: _Unpacked, size: int) -> None:
        self.stream, self.left = stream, size

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, and none only at the end."""
        if self.left == 0:
            return b""
        piece = self.stream.read(min(size, self.left))
        if not piece:
            raise EOFError("it ends within a member")
        self.left -= len(piece)
        return piece


def read_tar(
    path: Path, most_bytes: Optional[int] = None, most_members: Optional[int] = None
) -> Iterator[Tuple[tarfile.TarInfo, Content]]:
    """Yield the header and the content of each member of a ``.tar.gz``, in one pass.

    Names of more than 100 characters and pax headers are members of their own, skipped like any
    other that nobody reads.  Damage raises a TarError, an EOFError or a zlib.error.  The limits are
    those of data sets unless others are given.
    """
    most_bytes, most_members = most_bytes or MOST_BYTES, most_members or MOST_MEMBERS
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most_bytes:
            raise DataError(f"{path} has {size:,} bytes, expected at most {most_bytes:,}")
        stream = _Unpacked(file, path, most_bytes)
        for number in itertools.count():
            block = read_whole(Content(stream, BLOCK), BLOCK, BLOCK, str(path))
            if not any(block):
                return
            if number == most_members:
                raise DataError(f"{path} has more than {most_members:,} members")
            member = tarfile.TarInfo.frombuf(bytes(block), "utf-8", "surrogateescape")
            if member.size < 0:
                raise tarfile.ReadError(f"a member of {member.size} bytes")
            empty = member.type in WITHOUT_CONTENT
            content = Content(stream, 0 if empty else member.size)
            rest = Content(stream, -content.left % BLOCK)
            yield member, content
            for part in (content, rest):
                while part.read(PIECE):
                    pass


class _Unpacked:
    """A gzip stream that unpacks no more than it is asked for."""

    def __init__(self, file: IO[bytes], path: Path, most: int) -> None:
        self.file, self.path, self.most, self.total = file, path, most, 0
        self.engine = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)  # 16: a gzip header

    def read(self, size: int) -> bytes:
        """Return up to `size` > 0 bytes, and none only at the end."""
        while not self.engine.eof:
            packed = self.engine.unconsumed_tail or self.file.read(PIECE >> 4)
            if not packed:
                raise EOFError("it ends early")
            piece = self.engine.decompress(packed, min(size, PIECE))
            self.total += len(piece)
            if self.total > self.most:
                raise DataError(f"{self.path} unpacks to more than {self.most:,} bytes")
            if piece:
                return piece
        return b""


class SmallReads(io.FileIO):
    """A file for ``ZipFile`` that refuses to read much at once, such as a huge directory."""

    def read(self, size: int = -1) -> bytes:
        raw = super().read(PIECE + 1 if size < 0 else min(size, PIECE + 1))
        if len(raw) > PIECE:
            raise zipfile.BadZipFile(f"its directory has more than {PIECE:,} bytes")
        return raw


def read_zip_member(archive: zipfile.ZipFile, name: str, most: int, what: str) -> bytearray:
    """Return the content of a member; refuse more than `most` bytes."""
    member = archive.getinfo(name)
    if member.compress_type not in BOUNDED:
        kind = zipfile.compressor_names.get(member.compress_type, "unknown")
        raise DataError(
            f"{what} has the compression method {member.compress_type} ({kind}), expected "
            f"0 (store) or 8 (deflate)"
        )
    with archive.open(member) as file:
        return read_whole(file, member.file_size, most, what)
