"""Text to token ids, in pieces: no list of all words is ever made.

Short words that were seen before are found with NumPy, a piece at a time; only the others become
Python strings.

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
PIECE = 1 << 18  # bytes of text split at once
MOST_WORD = 1 << 20  # bytes of a word
DELAY = 2  # seconds before a progress bar appears

# Every character for which str.isspace() is true, in UTF-8; no cut between the two of "\r\n".
SPACE = re.compile(
    rb"[\t\n\x0b\x0c\x1c-\x20]|\r(?!\n)|\xc2[\x85\xa0]|\xe1\x9a\x80"
    rb"|\xe2(?:\x80[\x80-\x8a\xa8\xa9\xaf]|\x81\x9f)|\xe3\x80\x80"
)

# What a byte is in the middle of a text: part of a word, a space, a line end, or the first byte of
# what may be other white space. A zero byte would be lost where words are padded with zeros.
WORD, BLANK, LINE_END, DOUBTFUL = range(4)
KINDS = np.full(256, WORD, np.uint8)
KINDS[[*range(0x20), 0xC2, 0xE1, 0xE2, 0xE3]] = DOUBTFUL
KINDS[0x20], KINDS[0x0A] = BLANK, LINE_END
# Spaces outside ASCII: their UTF-8, with a zero after two bytes.
ODD_SPACES = [
    int.from_bytes(chr(code).encode("utf-8").ljust(3, b"\0"), "big")
    for code in range(0x80, 0x3001)
    if chr(code).isspace()
]
SLOTS = 18  # bits of the place where a short word is kept
HALF = 8  # bytes of half a short word
MASKS = np.array([(1 << 8 * length) - 1 for length in range(HALF + 1)], np.uint64)
FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))  # odd, to mix the bits


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

    found, blank, seen = array("i"), True, ShortWords(numbers)
    shown = dict(desc=what[-40:], unit="B", unit_scale=True, ncols=79, leave=False, delay=DELAY)
    with tqdm(total=len(raw), disable=None, **shown) as bar:  # None: only on a terminal
        for start, stop in _cuts(raw, what):
            text = _decode(raw, start, stop, what)
            blank = blank and text.isspace()
            found.frombytes(_number_piece(raw[start:stop], text, seen))
            bar.update(stop - start)
    if blank:
        raise DataError(f"{what} has no words in its {len(raw):,} bytes, expected text")
    if not raw.endswith(b"\n"):
        raise DataError(
            f"{what} is truncated: its last line has no end after {len(raw):,} bytes "
            "(if it is complete, append a line end)"
        )
    return np.frombuffer(found, np.int32)


class ShortWords:
    """The numbers of words of up to 16 bytes, each in the place that its bytes determine.

    Of two words with the same place, the first is kept; the other is looked up every time.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.halves = np.zeros((2, 1 << SLOTS), np.uint64)  # zero: the place is free
        self.known = np.zeros(1 << SLOTS, np.int32)

    def find(self, raw: bytearray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """Return the numbers of the words ``raw[start:stop]``; a line end is ``<eos>``."""
        lengths = stops - starts
        padded = bytes(raw) + bytes(2 * HALF)
        windows = np.ndarray(len(raw) + HALF + 1, "<u8", padded, strides=(1,))  # at every byte
        first = windows[starts] & MASKS[np.minimum(lengths, HALF)]
        second = windows[starts + HALF] & MASKS[np.clip(lengths - HALF, 0, HALF)]
        places = (first * FACTORS[0] ^ second * FACTORS[1]) >> np.uint64(64 - SLOTS)
        places = places.astype(np.int64)
        hit = (self.halves[0, places] == first) & (self.halves[1, places] == second)
        found, short = self.known[places], lengths <= 2 * HALF
        others = np.flatnonzero(~(hit & short))
        bounds = zip(starts[others].tolist(), stops[others].tolist())
        joined = b" ".join([padded[i:j] for i, j in bounds]).decode("utf-8")
        words = joined.replace("\n", "<eos>").split(" ") if joined else []
        found[others] = list(map(self.numbers.__getitem__, words))
        new = others[short[others] & (self.halves[0, places[others]] == 0)]
        new = new[np.unique(places[new], return_index=True)[1]]  # one for each place
        self.halves[:, places[new]] = first[new], second[new]
        self.known[places[new]] = found[new]
        return found


def _number_piece(raw: bytearray, text: str, seen: ShortWords) -> bytes:
    """The numbers of the words of a piece, as bytes of int32."""
    kinds = KINDS[np.frombuffer(raw, np.uint8)]
    doubtful = np.flatnonzero(kinds == DOUBTFUL)
    if _any_space(raw, doubtful):
        return array("i", map(seen.numbers.__getitem__, _split(text))).tobytes()
    kinds[doubtful] = WORD
    around = np.pad(kinds, 1, constant_values=BLANK)
    alone = kinds == LINE_END
    starts = np.flatnonzero((kinds != BLANK) & (alone | (kinds != around[:-2])))
    stops = np.flatnonzero((kinds != BLANK) & (alone | (kinds != around[2:]))) + 1
    return seen.find(raw, starts, stops).tobytes()


def _any_space(raw: bytearray, doubtful: np.ndarray) -> bool:
    """Whether a control character or a space other than " " begins at one of these bytes."""
    data = np.frombuffer(raw + bytes(2), np.uint8)
    first, second, third = (data[doubtful + i].astype(np.int32) for i in range(3))
    codes = first << 16 | second << 8 | np.where(first == 0xC2, 0, third)
    return bool((first < 0x20).any() or np.isin(codes, ODD_SPACES).any())


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
