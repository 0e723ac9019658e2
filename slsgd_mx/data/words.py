"""Text to token ids, in pieces: no list of all words is ever made.

Words and lines are separated as by ``str.split`` and ``str.splitlines``, and ids are numbered as by
GluonNLP's ``CorpusDataset`` and ``Vocab``; both need a minute and many gigabytes for 256 MB.
"""

from __future__ import annotations

import re
from array import array
from typing import Dict, Iterator, List, Optional, Tuple

import numpy as np

from slsgd_mx.data.text import EOS, UNK
from slsgd_mx.errors import DataError
from slsgd_mx.validation import check_between

SPECIAL = ["<unk>", "<eos>"]  # the types with the ids UNK and EOS
LEAST_TYPES = 3  # <unk>, <eos> and a word
PIECE = 1 << 14  # bytes of text split at once; its words fit into the processor's cache
MOST_WORD = 1 << 20  # bytes of a word
DELAY = 2  # seconds before a progress bar appears

# Every character for which str.isspace() is true, in UTF-8; no cut between the two of "\r\n".
SPACE = re.compile(
    rb"[\t\n\x0b\x0c\x1c-\x20]|\r(?!\n)|\xc2[\x85\xa0]|\xe1\x9a\x80"
    rb"|\xe2(?:\x80[\x80-\x8a\xa8\xa9\xaf]|\x81\x9f)|\xe3\x80\x80"
)


class Numbers(Dict[str, int]):
    """Words numbered in the order in which they are first looked up."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


def number_words(raw: bytearray, numbers: Numbers, what: str) -> np.ndarray:
    """Return the number of every word, and of ``<eos>`` at every line end; int32, (N,).

    Raises a DataError unless this is UTF-8 text that ends in a line end.
    """
    from tqdm import tqdm

    found, blank, find = array("i"), True, numbers.__getitem__
    shown = dict(desc=what[-40:], unit="B", unit_scale=True, ncols=79, leave=False, delay=DELAY)
    with tqdm(total=len(raw), disable=None, **shown) as bar:  # None: only on a terminal
        for start, stop in _cuts(raw, what):
            text = _decode(raw, start, stop, what)
            blank = blank and text.isspace()
            found.fromlist(list(map(find, _split(text))))
            bar.update(stop - start)
    if blank:
        raise DataError(f"{what} has no words in its {len(raw):,} bytes, expected text")
    if not raw.endswith(b"\n"):
        raise DataError(
            f"{what} is truncated: its last line has no end after {len(raw):,} bytes "
            "(if it is complete, append a line end)"
        )
    return np.frombuffer(found, np.int32)


def _cuts(raw: bytearray, what: str) -> Iterator[Tuple[int, int]]:
    """Cut text after white space into pieces of about `PIECE` bytes."""
    start = 0
    while start < len(raw):
        limit = min(len(raw), start + PIECE + MOST_WORD)
        space = SPACE.search(raw, start + PIECE, limit)
        if space is None and limit < len(raw):
            raise DataError(
                f"{what} has a word of more than {MOST_WORD:,} bytes at byte {start + PIECE:,}, "
                "expected words separated by white space"
            )
        stop = space.end() if space else limit
        yield start, stop
        start = stop


def _decode(raw: bytearray, start: int, stop: int, what: str) -> str:
    try:
        return raw[start:stop].decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{what} is not UTF-8 text: {error.reason} at byte {start + error.start}"
        raise DataError(message) from error


def _split(text: str) -> List[str]:
    """Return the words of a piece of text, with ``<eos>`` at each of its line ends.

    >>> _split(" a b \\n\\n c")
    ['a', 'b', '<eos>', '<eos>', 'c']
    """
    lines = (text + ".").splitlines()  # so that the last one is not a whole line
    lines[-1] = lines[-1][:-1]
    return " <eos> ".join(lines).split()


def vocabulary(
    numbers: Numbers, train: np.ndarray, vocab_size: Optional[int]
) -> Tuple[np.ndarray, int]:
    """Return the id of each number, int32 (len(numbers),), and the number of types.

    ``<unk>`` is 0 and ``<eos>`` is 1, then come the words of `train`, the most frequent first and
    ties in character order; the words after the first `vocab_size` types and those that `train`
    lacks are ``<unk>``.
    """
    counts = np.bincount(train, minlength=len(numbers))
    for word in SPECIAL:
        counts[numbers[word]] = 0  # not ordinary words
    names = [word for word, count in zip(numbers, counts.tolist()) if count]
    most = len(SPECIAL) + len(names)
    if vocab_size is not None:
        most = check_between("vocab_size", vocab_size, LEAST_TYPES, most)
    names.sort()
    order = np.fromiter(map(numbers.__getitem__, names), np.int64, len(names))
    order = order[np.argsort(-counts[order], kind="stable")][: most - len(SPECIAL)]
    ids = np.full(len(numbers), UNK, np.int32)
    ids[numbers["<eos>"]] = EOS
    ids[order] = np.arange(len(SPECIAL), most)
    return ids, most
