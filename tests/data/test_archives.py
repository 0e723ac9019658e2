"""Archives that would use much memory or time: each is small on disk and refused cheaply."""

import gzip
import io
import struct
import tarfile
import time
import tracemalloc
import zipfile

import pytest

from slsgd_mx.data.cifar10 import load_cifar10
from slsgd_mx.data.wikitext2 import load_wikitext2
from slsgd_mx.errors import DataError
from tests.helpers.data_files import BIN, PY, cifar_files, text_files

MOST_MEMORY = 100 << 20
MOST_SECONDS = 10
LARGE = 128 << 20  # unpacked


def refused(load, path, error=DataError):
    """Load an archive that must be refused within the bounds; return the message."""
    assert path.stat().st_size < 2 << 20
    tracemalloc.start()
    begun = time.process_time()
    try:
        with pytest.raises(error) as caught:
            load(path)
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()
    assert time.process_time() - begun < MOST_SECONDS
    return str(caught.value)


def header(name, size, kind=tarfile.REGTYPE):
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


def write_tar(path, *parts):
    """Write a compressed tar of bytes and, for an int, that many zeros."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        for part in parts:
            if isinstance(part, bytes):
                file.write(part)
            else:
                for _ in range(part >> 20):
                    file.write(bytes(1 << 20))
    return path


@pytest.mark.parametrize("kind", [b"L", b"x", b"S"], ids=bytes.decode)
def test_large_header(tmp_path, kind):
    """A long name of GNU tar, a header of pax, a sparse file."""
    path = write_tar(tmp_path / "a.tar.gz", header("long", LARGE, kind), LARGE, bytes(1024))
    assert "lacks cifar-10-batches-bin/data_batch_1.bin" in refused(load_cifar10, path)


def test_large_pax_header_of_digits(tmp_path):
    """Matching it with a regular expression may take quadratic time."""
    digits = b"1" * (1 << 20)
    path = write_tar(tmp_path / "a.tar.gz", header("pax", len(digits), b"x"), digits, bytes(1024))
    assert "lacks" in refused(load_cifar10, path)


def test_nested_headers(tmp_path):
    one = header("pax", 10, b"x") + b"10 path=a\n".ljust(512, b"\0")
    path = write_tar(tmp_path / "a.tar.gz", one * 5000)
    assert "more than 1,000 members" in refused(load_cifar10, path)


def test_large_unwanted_member(tmp_path):
    path = write_tar(tmp_path / "a.tar.gz", header("zeros", LARGE), LARGE, bytes(1024))
    assert "lacks" in refused(load_cifar10, path)


def test_large_archive(tmp_path, monkeypatch):
    monkeypatch.setattr("slsgd_mx.data.archives.MOST_BYTES", 100 << 20)
    path = write_tar(tmp_path / "a.tar.gz", *[header("zeros", 60 << 20), 60 << 20] * 2)
    assert "unpacks to more than 104,857,600 bytes" in refused(load_cifar10, path)
    with open(path, "ab") as file:
        file.truncate((100 << 20) + 1)  # sparse
    with pytest.raises(DataError, match="has 104,857,601 bytes, expected at most 104,857,600"):
        load_cifar10(path)


def test_wanted_member_of_false_size(tmp_path):
    name = f"{BIN}/test_batch.bin"
    path = write_tar(tmp_path / "a.tar.gz", header(name, LARGE), LARGE)
    assert "has 134,217,728 bytes, expected at most 30,730,000" in refused(load_cifar10, path)
    path = write_tar(path, header(name, 3073), bytes(100))
    assert "truncated or not a CIFAR-10 archive" in refused(load_cifar10, path)
    negative = bytearray(header(name, 3073))
    negative[124:136] = b"\xff" * 12  # -1 in GNU's binary notation
    negative[148:156] = b"%06o\0 " % tarfile.calc_chksums(bytes(negative))[0]
    path = write_tar(path, bytes(negative), bytes(100))
    assert "truncated or not a CIFAR-10 archive" in refused(load_cifar10, path)


ENCODE = b"c_codecs\nencode\nh\x00h\x01\x86R"  # of two strings that were stored before
STRING = b"X" + struct.pack("<I", 8 << 20) + b"a" * (8 << 20) + b"q\x00X\x06\0\0\0latin1q\x01"
PICKLES = {
    "more than 400,000 operations": b"]" * (20 << 20),
    "encodes a string several times": STRING + ENCODE * 100,
    "opcode LONG at byte 2 is not allowed": b"L" + b"9" * (1 << 20) + b"\n",
    "long string at byte 2 is not latin-1": STRING.replace(b"aaaa", "\U0001f600".encode(), 1),
}


@pytest.mark.parametrize("message", PICKLES)
def test_large_pickle(tmp_path, message):
    raw = b"\x80\x02" + PICKLES[message] + b"."
    padding = bytes(-len(raw) % 512)
    path = write_tar(tmp_path / "a.tar.gz", header(f"{PY}/test_batch", len(raw)), raw, padding)
    assert message in refused(load_cifar10, path)


def test_headers_of_other_writers_are_skipped(tmp_path):
    """An archive with long names, pax headers, folders and links next to the batches."""
    path = tmp_path / "cifar-10-binary.tar.gz"
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT):
        with tarfile.open(path, "w:gz", format=form) as tar:
            for name, raw in {"x" * 90: b"1", BIN: None, **cifar_files()}.items():
                member = tarfile.TarInfo(f"{BIN}/{name}" if raw is not None else name)
                member.type = tarfile.REGTYPE if raw is not None else tarfile.DIRTYPE
                member.size, member.mtime = len(raw or b""), 1.5
                tar.addfile(member, io.BytesIO(raw or b""))
        assert len(load_cifar10(path).train_y) == 15


def write_zip(path, method=zipfile.ZIP_DEFLATED, **changed):
    with zipfile.ZipFile(path, "w", method, compresslevel=1) as archive:
        for name, raw in text_files(**changed).items():
            archive.writestr(f"wikitext-2/{name}", raw)
    return path


def test_zip_of_false_size(tmp_path):
    size = LARGE + 0x123456
    path = write_zip(tmp_path / "a.zip", train=bytes(size))
    raw, true, false = path.read_bytes(), struct.pack("<I", size), struct.pack("<I", 1000)
    assert raw.count(true) == 2  # in the member's header and in the directory
    path.write_bytes(raw.replace(true, false))
    assert "truncated or not a WikiText-2 archive (Bad CRC-32" in refused(load_wikitext2, path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_of_unbounded_compression(tmp_path, method):
    """Python's zipfile unpacks these two without a limit."""
    path = write_zip(tmp_path / "a.zip", method, train=b" a \n" * 10_000)
    assert "compression method" in refused(load_wikitext2, path)


def test_zip_of_many_members(tmp_path):
    path = write_zip(tmp_path / "a.zip")
    with zipfile.ZipFile(path, "a") as archive:
        for i in range(12_000):
            archive.writestr(f"{i:020}", b"")
    assert "its directory has more than 524,288 bytes" in refused(load_wikitext2, path)


def test_text_of_one_word(tmp_path):
    path = write_zip(tmp_path / "a.zip", train=b"a" * (32 << 20) + b"\n")
    message = refused(load_wikitext2, path)
    assert "has a word of more than 1,048,576 bytes that begins at byte 0" in message
