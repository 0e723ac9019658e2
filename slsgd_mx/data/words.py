"""Text to token ids, in pieces: no list of all words is ever made.

Words and lines are separated as by ``str.split`` and ``str.splitlines``, and ids are numbered as by
GluonNLP's ``CorpusDataset`` and ``Vocab``; both need a minute and many gigabytes for 256 MB.
"""

from __future__ import annotations

import re
from array import array
from typing import Iterator, Optional, Tuple

import numpy as np

from slsgd_mx.data.numbers import SIGNS, Numbers
from slsgd_mx.data.text import EOS, UNK
from slsgd_mx.errors import ConfigError, DataError
from slsgd_mx.validation import check_between

SPECIAL = ["<unk>", "<eos>"]  # the types with the ids UNK and EOS
LEAST_TYPES = 3  # <unk>, <eos> and a word
PIECE = 1 << 18  # bytes of text split at once
MOST_WORD = 1 << 20  # bytes of a word
DELAY = 2  # seconds before a progress bar appears

# All white space in UTF-8; no cut between the two of "\r\n".
SPACE = re.compile(
    b"|".join(b"\r(?!\n)" if code == ord("\r") else re.escape(chr(code).encode()) for code in SIGNS)
)


def number_words(raw: bytearray, numbers: Numbers, what: str) -> array:
    """Return the number of every word, and of a line end or ``<eos>`` for each line, 32 bits each.

    Raises a DataError unless this is UTF-8 text that ends in a line feed.
    """
    from tqdm import tqdm

    found, blank = array("i"), True
    shown = dict(desc=what[-40:], unit="B", unit_scale=True, ncols=79, leave=False, delay=DELAY)
    with tqdm(total=len(raw), disable=None, **shown) as bar:  # None: only on a terminal
        for start, stop in _cuts(raw, what):
            piece = bytes(memoryview(raw)[start:stop])
            text = _decode(piece, start, what)
            blank = blank and text.isspace()
            found.frombytes(numbers.find(numbers.simplify(piece)).view(np.uint8).data)
            bar.update(stop - start)
    if blank:
        raise DataError(f"{what} has no words in its {len(raw):,} bytes, expected text")
    if not raw.endswith(b"\n"):
        raise DataError(
            f"{what} is truncated: no line feed ends its last line after {len(raw):,} bytes "
            "(if it is complete, append one)"
        )
    return found


def _cuts(raw: bytearray, what: str) -> Iterator[Tuple[int, int]]:
    """Cut text after white space into pieces of about `PIECE` bytes."""
    start = 0
    while start < len(raw):
        # With all bytes of a space that begins before a piece is full or follows the longest word.
        limit = min(len(raw), start + PIECE + MOST_WORD + 3)
        space = SPACE.search(raw, max(start, start + PIECE - 2), limit)
        if space is None and limit < len(raw):
            before = [found.end() for found in SPACE.finditer(raw, start, start + PIECE)]
            raise DataError(
                f"{what} has a word of more than {MOST_WORD:,} bytes that begins at byte "
                f"{[start, *before][-1]:,}, expected words separated by white space"
            )
        stop = space.end() if space else limit
        stop += raw[stop - 1 : stop + 1] == b"\r\n"  # the search ended between the two
        yield start, stop
        start = stop


def _decode(piece: bytes, start: int, what: str) -> str:
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{what} is not UTF-8 text: {error.reason} at byte {start + error.start}"
        raise DataError(message) from error


def vocabulary(
    numbers: Numbers, train: np.ndarray, vocab_size: Optional[int]
) -> Tuple[np.ndarray, int]:
    """Return the id of each number, int32 (numbers.count,), and the number of types.

    ``<unk>`` is 0 and ``<eos>`` is 1, then come the words of `train`, the most frequent first and
    ties in character order; the words after the first `vocab_size` types and those that `train`
    lacks are ``<unk>``.
    """
    unk, eos, line_end = numbers.find(b"<unk> <eos>\n")
    numbers.release()
    counts = numbers.frequencies(train)
    counts[[unk, eos, line_end]] = 0  # not ordinary words
    most = len(SPECIAL) + np.count_nonzero(counts)
    if vocab_size is not None:
        if most < LEAST_TYPES:
            raise DataError("the training text has no words besides <unk> and <eos>")
        if hasattr(vocab_size, "__index__") and vocab_size > most:
            raise ConfigError(
                f"vocab_size={vocab_size} is out of range: the training text has {most} types with "
                f"<unk> and <eos>, so choose {LEAST_TYPES} to {most} (--vocab-size)"
            )
        most = check_between("vocab_size", vocab_size, LEAST_TYPES, most)
    ids = np.full(numbers.count, UNK, np.int32)
    ids[[eos, line_end]] = EOS
    first = len(SPECIAL)
    for words in _by_frequency(counts):
        if first < most:
            words = numbers.order(words)[: most - first]
            ids[words] = np.arange(first, first + len(words), dtype=np.int32)
            first += len(words)
    return ids, most


def replace_numbers(found: np.ndarray, ids: np.ndarray) -> None:
    """Write ids in the place of numbers; in pieces, because NumPy makes 64-bit copies of indices.

    >>> found = np.array([2, 1, 2])
    >>> replace_numbers(found, np.array([0, 10, 20]))
    >>> found.tolist()
    [20, 10, 20]
    """
    for start in range(0, len(found), PIECE):
        part = found[start : start + PIECE]
        part[:] = ids[part]


def _by_frequency(counts: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the words that occur equally often, the most frequent first.

    >>> [words.tolist() for words in _by_frequency(np.array([1, 0, 5, 1, 2, 5]))]
    [[2, 5], [4], [0, 3]]
    """
    words, most = np.flatnonzero(counts > 1), counts.max()
    keys = (most - counts[words]).astype(np.min_scalar_type(most))  # 16 bits are sorted faster
    words = words[np.argsort(keys, kind="stable")]
    yield from np.split(words, np.flatnonzero(np.diff(counts[words])) + 1)
    yield np.flatnonzero(counts == 1)  # often most of the words: no need to sort them
