"""Read WikiText-2 through GluonNLP, from a folder or directly from the official archive.

Words are separated by spaces, and every line ends in ``<eos>``, empty lines too, as in the paper's
released code (``skip_empty=False``).  The vocabulary is that of the training text: 33,278 types for
the official files, whose training text has 2,088,628 tokens.  Your own files may contain any text.
"""

from __future__ import annotations

import struct
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

import numpy as np

from slsgd_mx.data import reading
from slsgd_mx.data.text import TextData, prepare_text
from slsgd_mx.errors import DataError
from slsgd_mx.validation import check_between

FILES = tuple(f"wiki.{part}.tokens" for part in ("train", "valid", "test"))
FOLDER = "wikitext-2"  # of the files in the archive
LAYOUTS = {FOLDER: FILES}
MOST_BYTES = 1 << 28  # a larger file is not read; the official ones have 11 MB at most
LEAST_TYPES = 3  # <unk>, <eos> and a word

# What zipfile raises for a file that is not an archive, a damaged one, or one with a password or
# an unknown compression method (RuntimeError).
DAMAGE = (zipfile.BadZipFile, EOFError, zlib.error, RuntimeError, ValueError, struct.error)


def load_wikitext2(
    data_dir: Optional[reading.PathLike] = None, vocab_size: Optional[int] = None
) -> TextData:
    """Return WikiText-2 as token ids, the validation text appended to the training text.

    Parameters
    ----------
    data_dir : path, optional
        A folder that contains ``wiki.{train,valid,test}.tokens``, or ``wikitext-2/`` with them, or
        the official archive; or the path of the archive.  By default the folder that ``slsgd-mx
        data fetch`` fills.
    vocab_size : int, optional
        Number of types to keep: ``<unk>``, ``<eos>`` and the most frequent words of the training
        text, ties in character order.  Every other word becomes ``<unk>``.  All types by default.

    Raises a DataError if the data is missing, truncated or not UTF-8 text.
    """
    with reading.read_errors(data_dir):
        place, folder = reading.find_data("wikitext2", data_dir, LAYOUTS)
        if folder is None:
            texts = _read_archive(place)
        else:
            texts = reading.read_files(place, FILES, MOST_BYTES)
        with tempfile.TemporaryDirectory(prefix="slsgd-mx-") as scratch:
            paths = [Path(scratch) / name for name in FILES]  # GluonNLP reads only files
            for path, (what, raw) in zip(paths, texts):
                _check_text(raw, what)
                path.write_bytes(raw)
            return _encode(paths, vocab_size)


def _read_archive(path: Path) -> Iterator[Tuple[str, bytes]]:
    """Yield a description and the content of each text; no other member is read."""
    expected = f"expected {reading.official('wikitext2')}"
    members = [f"{FOLDER}/{name}" for name in FILES]
    try:
        with zipfile.ZipFile(path) as archive:
            missing = sorted(set(members) - set(archive.namelist()), key=members.index)
            if missing:
                raise DataError(f"{path} lacks {', '.join(missing)}, {expected}")
            for name in members:
                what, size = f"{path}: {name}", archive.getinfo(name).file_size
                with archive.open(name) as file:
                    yield what, reading.read_whole(file, size, MOST_BYTES, what)
    except DAMAGE as error:
        message = f"{path} is truncated or not a WikiText-2 archive ({error}), {expected}"
        raise DataError(message) from error


def _check_text(raw: bytes, what: str) -> None:
    """Raise a DataError unless this is UTF-8 text that ends in a line end."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{what} is not UTF-8 text: {error.reason} at byte {error.start}"
        raise DataError(message) from error
    if not text.strip():
        raise DataError(f"{what} has no words in its {len(raw):,} bytes, expected text")
    if not text.endswith("\n"):
        raise DataError(
            f"{what} is truncated: its last line has no end after {len(raw):,} bytes "
            "(if it is complete, append a line end)"
        )


def _encode(paths: List[Path], vocab_size: Optional[int]) -> TextData:
    """Return the ids of the three texts in the vocabulary of the first."""
    from slsgd_mx.system.mxnet import import_gluonnlp

    nlp = import_gluonnlp()
    # [:] returns a plain list, which is several times faster to count and to look up.
    texts = [
        nlp.data.CorpusDataset(str(path), flatten=True, skip_empty=False, bos=None, eos="<eos>")[:]
        for path in paths
    ]
    counter, special, words = nlp.data.count_tokens(texts[0]), {"<unk>", "<eos>"}, None
    if vocab_size is not None:
        most = len(special.union(counter))
        words = check_between("vocab_size", vocab_size, LEAST_TYPES, most) - len(special)
    vocab = nlp.Vocab(counter, max_size=words, padding_token=None, bos_token=None)
    ids = [np.array(vocab[text], dtype=np.int32) for text in texts]
    return prepare_text("wikitext2", *ids, len(vocab))
