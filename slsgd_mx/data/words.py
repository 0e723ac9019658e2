"""Text to token ids, in pieces: no list of all words is ever made.

Words and lines are separated as by ``str.split`` and ``str.splitlines``, and ids are numbered as by
GluonNLP's ``CorpusDataset`` and ``Vocab``; both need a minute and many gigabytes for 256 MB.
"""

from __future__ import annotations

import re
from array import array
from typing import Iterator, List, Optional, Tuple

import numpy as np

from slsgd_mx.data.numbers import Numbers
from slsgd_mx.data.text import EOS, UNK
from slsgd_mx.errors import ConfigError, DataError
from slsgd_mx.validation import check_between

SPECIAL = ["<unk>", "<eos>"]  # the types with the ids UNK and EOS
LEAST_TYPES = 3  # <unk>, <eos> and a word
PIECE = 1 << 18  # bytes of text split at once
MOST_WORD = 1 << 20  # bytes of a word
DELAY = 2  # seconds before a progress bar appears

# Every character for which str.isspace() is true, in UTF-8; no cut between the two of "\r\n".
SPACE = re.compile(
    rb"[\t\n\x0b\x0c\x1c-\x20]|\r(?!\n)|\xc2[\x85\xa0]|\xe1\x9a\x80"
    rb"|\xe2(?:\x80[\x80-\x8a\xa8\xa9\xaf]|\x81\x9f)|\xe3\x80\x80"
)

# White space in ASCII becomes " ", or "\n" where str.splitlines ends a line.
PLAIN = bytes.maketrans(b"\t\x1f\x0b\x0c\r\x1c\x1d\x1e", b"  \n\n\n\n\n\n")

ODD_SPACES = [chr(code).encode("utf-8") for code in range(0x80, 0x3001) if chr(code).isspace()]
ODD_LINE_ENDS = ["\x85".encode(), "\u2028".encode(), "\u2029".encode()]
MAY_BE_SPACE = np.isin(np.arange(256), [space[0] for space in ODD_SPACES])  # by the first byte


def number_words(raw: bytearray, numbers: Numbers, what: str) -> np.ndarray:
    """Return the number of every word, and of a line end or ``<eos>`` for each line; int32, (N,).

    Raises a DataError unless this is UTF-8 text that ends in a line end.
    """
    from tqdm import tqdm

    found, blank = array("i"), True
    shown = dict(desc=what[-40:], unit="B", unit_scale=True, ncols=79, leave=False, delay=DELAY)
    with tqdm(total=len(raw), disable=None, **shown) as bar:  # None: only on a terminal
        for start, stop in _cuts(raw, what):
            text = _decode(raw, start, stop, what)
            blank = blank and text.isspace()
            found.frombytes(numbers.find(_simplify(bytes(raw[start:stop]))).tobytes())
            bar.update(stop - start)
    if blank:
        raise DataError(f"{what} has no words in its {len(raw):,} bytes, expected text")
    if not raw.endswith(b"\n"):
        raise DataError(
            f"{what} is truncated: its last line has no end after {len(raw):,} bytes "
            "(if it is complete, append a line end)"
        )
    return np.frombuffer(found, np.int32)


def _simplify(raw: bytes) -> bytes:
    """Text in which all white space is " " or, where str.splitlines ends a line, "\\n".

    >>> _simplify("a\\tb\\r\\nc\\u3000d\\u2028".encode())
    b'a b\\nc d\\n'
    """
    raw = raw.replace(b"\r\n", b"\n").translate(PLAIN)
    for space in _odd_spaces(raw):
        raw = raw.replace(space, b"\n" if space in ODD_LINE_ENDS else b" ")
    return raw


def _odd_spaces(raw: bytes) -> List[bytes]:
    """The white space outside ASCII in a text."""
    data = np.frombuffer(raw + bytes(2), np.uint8)
    starts = np.flatnonzero(MAY_BE_SPACE[data])
    first, second, third = (data[starts + i].astype(np.int32) for i in range(3))
    codes = first << 16 | second << 8 | np.where(first == 0xC2, 0, third)
    known = ((space, int.from_bytes(space.ljust(3, b"\0"), "big")) for space in ODD_SPACES)
    return [space for space, code in known if (codes == code).any()]


def _cuts(raw: bytearray, what: str) -> Iterator[Tuple[int, int]]:
    """Cut text after white space into pieces of about `PIECE` bytes."""
    start = 0
    while start < len(raw):
        limit = min(len(raw), start + PIECE + MOST_WORD)
        space = SPACE.search(raw, start + PIECE, limit)
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


def _decode(raw: bytearray, start: int, stop: int, what: str) -> str:
    try:
        return raw[start:stop].decode("utf-8")
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
    counts = numbers.frequencies(train)
    counts[[unk, eos, line_end]] = 0  # not ordinary words
    most = len(SPECIAL) + np.count_nonzero(counts)
    if vocab_size is not None:
        if vocab_size > most:
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


def _by_frequency(counts: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the words that occur equally often, the most frequent first.

    >>> [words.tolist() for words in _by_frequency(np.array([1, 0, 5, 1, 2, 5]))]
    [[2, 5], [4], [0, 3]]
    """
    words = np.flatnonzero(counts > 1)
    words = words[np.argsort(-counts[words], kind="stable")]
    yield from np.split(words, np.flatnonzero(np.diff(counts[words])) + 1)
    yield np.flatnonzero(counts == 1)  # often most of the words: no need to sort them
