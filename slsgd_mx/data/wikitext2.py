"""Read WikiText-2 through GluonNLP, from a folder or straight from the official archive.

A line is a sentence of words between spaces, and ends in ``<eos>``; so does an empty line, as in
the paper's released code (``skip_empty=False``). The vocabulary is the training text's: 33,278
types for the official files, whose training text has 2,088,628 tokens. Files of your own may hold
any text.
"""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np

from slsgd_mx.data.fetch import data_home
from slsgd_mx.data.registry import DATASETS
from slsgd_mx.data.text import TextData, prepare_text
from slsgd_mx.errors import DataError
from slsgd_mx.validation import check_between

FILES = tuple(f"wiki.{part}.tokens" for part in ("train", "valid", "test"))
FOLDER = "wikitext-2"  # in the archive, and where it unpacks to
ARCHIVE = DATASETS["wikitext2"].files[0]
MOST_BYTES = 1 << 28  # of one file: more is refused unread; the official ones have 11 MB at most
LEAST_TYPES = 3  # <unk>, <eos> and a word

# What zipfile raises on a file that is no archive, a broken one, or one with a password or a way
# of compression it does not know (RuntimeError).
DAMAGE = (zipfile.BadZipFile, EOFError, zlib.error, RuntimeError, ValueError, struct.error)


def load_wikitext2(
    data_dir: Optional[Union[str, os.PathLike]] = None, vocab_size: Optional[int] = None
) -> TextData:
    """WikiText-2 as token ids, the validation text folded into the training text.

    Parameters
    ----------
    data_dir : path, optional
        A folder holding ``wiki.{train,valid,test}.tokens``, or ``wikitext-2/`` with them, or the
        official archive; or the path of the archive. By default the folder that ``slsgd-mx data
        fetch`` fills.
    vocab_size : int, optional
        Keep only so many types: ``<unk>``, ``<eos>`` and the most frequent words of the training
        text, of equally frequent ones those first in the order of their characters. Every other
        word becomes ``<unk>``. All types by default.

    Raises
    ------
    DataError
        If the data is missing, truncated or no UTF-8 text.
    ConfigError
        If `vocab_size` is out of range.
    """
    try:
        place, is_archive = _find(data_dir)
        with _unpacked(place) if is_archive else _in_place(place) as folder:
            return _encode([folder / name for name in FILES], vocab_size)
    except OSError as error:
        reason = error.strerror or str(error)
        what = error.filename or data_dir or data_home()
        raise DataError(f"cannot read {what}: {reason}") from error


def _encode(paths: List[Path], vocab_size: Optional[int]) -> TextData:
    """Ids of the three texts, in the vocabulary of the first."""
    from slsgd_mx.system.mxnet import import_gluonnlp

    nlp = import_gluonnlp()
    # [:] gives the plain list, which is counted and looked up several times faster
    texts = [
        nlp.data.CorpusDataset(
            os.path.abspath(path), flatten=True, skip_empty=False, bos=None, eos="<eos>"
        )[:]
        for path in paths
    ]
    vocab = _vocabulary(nlp, nlp.data.count_tokens(texts[0]), vocab_size)
    ids = [np.array(vocab[text], dtype=np.int32) for text in texts]
    return prepare_text("wikitext2", *ids, len(vocab))


def _vocabulary(nlp: Any, counter: Dict[str, int], vocab_size: Optional[int]) -> Any:
    """GluonNLP's `Vocab`: ``<unk>``, ``<eos>``, words by frequency; it sorts ties as strings."""
    special = {"<unk>", "<eos>"}
    words = None
    if vocab_size is not None:
        most = len(special.union(counter))
        words = check_between("vocab_size", vocab_size, LEAST_TYPES, most) - len(special)
    return nlp.Vocab(counter, max_size=words, padding_token=None, bos_token=None)


def _find(data_dir: Optional[Union[str, os.PathLike]]) -> Tuple[Path, bool]:
    """Where the data is: a folder with token files, or an archive (then True)."""
    if data_dir is None:
        home = data_home()
        places = [home / "wikitext2", home]
    else:
        places = [Path(os.path.expanduser(data_dir))]  # leaves an unknown user's name as it is
    for place in places:
        if place.is_file():
            return place, True
        for folder in (place / FOLDER, place):
            if any((folder / name).is_file() for name in FILES):
                return folder, False
        if (place / ARCHIVE.name).is_file():
            return place / ARCHIVE.name, True
    raise DataError(_missing(places[0]))


def _missing(place: Path) -> str:
    return (
        f"WikiText-2 not found in {place}. Three ways on:\n"
        "  slsgd-mx data fetch wikitext2   download the official archive (4 MB)\n"
        "  --data-dir DIR                  DIR holds wiki.{train,valid,test}.tokens,\n"
        f"                                  or {FOLDER} with them, or is or holds {ARCHIVE.name}\n"
        "  --data synthetic                made-up text instead: a stand-in, not WikiText-2"
    )


@contextlib.contextmanager
def _in_place(folder: Path) -> Iterator[Path]:
    """The folder itself, its three texts checked."""
    for name in FILES:
        path = folder / name
        if not path.is_file():
            raise DataError(f"{path} is missing, expected {', '.join(FILES)} beside it")
        with open(path, "rb") as file:
            _read(file, os.path.getsize(path), str(path))
    yield folder


@contextlib.contextmanager
def _unpacked(archive: Path) -> Iterator[Path]:
    """A folder that holds the three texts for the length of a with block.

    GluonNLP reads nothing but files. They get the names expected here, whatever else the archive
    names.
    """
    with tempfile.TemporaryDirectory(prefix="slsgd-mx-") as folder:
        for name, raw in _read_archive(archive):
            (Path(folder) / name).write_bytes(raw)
        yield Path(folder)


def _read_archive(path: Path) -> Iterator[Tuple[str, bytes]]:
    """Name and content of the three texts; no other member is read."""
    expected = f"expected {ARCHIVE.name} of {ARCHIVE.bytes:,} bytes"
    try:
        with zipfile.ZipFile(path) as archive:
            there = set(archive.namelist())
            missing = [f"{FOLDER}/{name}" for name in FILES if f"{FOLDER}/{name}" not in there]
            if missing:
                raise DataError(f"{path} lacks {', '.join(missing)}, {expected}")
            for name in FILES:
                member = archive.getinfo(f"{FOLDER}/{name}")
                with archive.open(member) as file:
                    yield name, _read(file, member.file_size, f"{path}: {member.filename}")
    except DAMAGE as error:
        raise DataError(
            f"{path} is truncated or no WikiText-2 archive ({error}), {expected}"
        ) from error


def _read(file: IO[bytes], size: int, what: str) -> bytes:
    """The whole content of a file, once it has passed for UTF-8 text with a last line's end."""
    if size > MOST_BYTES:
        raise DataError(f"{what} has {size:,} bytes, expected at most {MOST_BYTES:,}")
    raw = file.read()
    if len(raw) != size:
        raise DataError(f"{what} ends after {len(raw):,} bytes, expected {size:,}")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{what} is no UTF-8 text: {error.reason} at byte {error.start}") from error
    if not text.strip():
        raise DataError(f"{what} has no words in its {size:,} bytes, expected text")
    if not text.endswith("\n"):
        raise DataError(
            f"{what} is truncated: its last line has no end after {size:,} bytes "
            "(add one if this is all there is)"
        )
    return raw
