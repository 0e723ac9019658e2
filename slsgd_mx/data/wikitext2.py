"""Read WikiText-2 from a folder or directly from the official archive.

Words are separated by spaces, and every line ends in ``<eos>``, empty lines too, as in the paper's
released code (``skip_empty=False``).  The vocabulary is that of the training text: 33,278 types for
the official files, whose training text has 2,088,628 tokens.  Your own files may contain any text.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Iterator, Optional, Tuple

import numpy as np

from slsgd_mx.data import reading
from slsgd_mx.data.archives import SmallReads, read_zip_member
from slsgd_mx.data.numbers import make_numbers
from slsgd_mx.data.registry import WIKITEXT2
from slsgd_mx.data.text import TextData, prepare_text
from slsgd_mx.data.words import number_words, replace_numbers, vocabulary
from slsgd_mx.errors import DataError

((FOLDER, FILES),) = WIKITEXT2.folders.items()
MOST_BYTES = 1 << 28  # a larger file is not read; the official ones have 11 MB at most

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
    numbers = make_numbers()
    with reading.read_errors(data_dir):
        place, folder = reading.find_data("wikitext2", data_dir)
        if folder is None:
            texts = _read_archive(place)
        else:
            texts = reading.read_files(place, FILES, MOST_BYTES)
        train, valid, test = (number_words(raw, numbers, what) for what, raw in texts)
    train_tokens = len(train)
    train.extend(valid)
    texts = [np.frombuffer(found, np.int32) for found in (train, test)]
    ids, types = vocabulary(numbers, texts[0][:train_tokens], vocab_size)
    for found in texts:
        replace_numbers(found, ids)
    return prepare_text("wikitext2", *texts, types, train_tokens)


def _read_archive(path: Path) -> Iterator[Tuple[str, bytearray]]:
    """Yield a description and the content of each text; no other member is read."""
    expected = f"expected {reading.official('wikitext2')}"
    members = [f"{FOLDER}/{name}" for name in FILES]
    try:
        with SmallReads(path) as file, zipfile.ZipFile(file) as archive:
            missing = sorted(set(members) - set(archive.namelist()), key=members.index)
            if missing:
                raise DataError(f"{path} lacks {', '.join(missing)}, {expected}")
            for name in members:
                what = f"{path}: {name}"
                yield what, read_zip_member(archive, name, MOST_BYTES, what)
    except DAMAGE as error:
        message = f"{path} is truncated or not a WikiText-2 archive ({error}), {expected}"
        raise DataError(message) from error
