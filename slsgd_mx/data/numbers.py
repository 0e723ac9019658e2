"""Different words, numbered: a hash table that NumPy searches for many words at once.

A word of up to 23 bytes is three integers, made of its length, in the last byte of the first one,
and of its bytes, padded with zeros.  Equal integers mean equal words, whatever their bytes.  Only
longer words become Python objects.
"""

from __future__ import annotations

import os
from typing import Dict, List

import numpy as np

MOST = 23  # bytes of a short word
LENGTH = np.uint64(56)  # position of the length in the first integer
WIDE, LONG = np.uint64(8 << 56), np.uint64(24 << 56)  # first integers of longer words are larger
MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], np.uint64)
LOW, HALF = np.uint64((1 << 32) - 1), np.uint64(32)
# Random, so that nobody can write a text whose words share a place: with 64-bit factors of 32-bit
# values, two words do so with a probability of about one in the number of places.
FACTORS = np.frombuffer(os.urandom(48), np.uint64).reshape(3, 2)
PLACES = 1 << 12  # in the smallest table
BLOCK = 1 << 15  # words that move to a larger table at once


class Numbers:
    """Words and their numbers: 1, 2 and so on, in no particular order."""

    def __init__(self) -> None:
        self.count = 1  # 0 is no word: it marks a free place
        self.parts = np.zeros((3, PLACES // 2), np.uint64)  # the integers of each word
        self.parts[0, 0] = LONG  # not in the table
        self.places = np.zeros(PLACES, np.int32)  # the number of the word in each place
        self.long: Dict[bytes, int] = {}

    def find(self, raw: bytes, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """Return the numbers of the words ``raw[start:stop]``, int32; new words get new ones."""
        self._reserve(len(starts))
        words, found = _pack(raw, starts, stops - starts), np.empty(len(starts), np.int32)
        long, todo = np.flatnonzero(words[0] >= LONG), np.arange(len(starts))
        if len(long):
            bounds = zip(starts[long].tolist(), stops[long].tolist())
            found[long] = self._find_long([raw[i:j] for i, j in bounds], words[:, long])
            todo = np.flatnonzero(words[0] < LONG)
            words = words[:, todo]
        place = self._place(words)
        while len(todo):
            number = self.places[place]
            free = np.flatnonzero(number == 0)
            if len(free):
                number[free] = self._claim(place[free], words[:, free])
            found[todo] = number
            other = self.parts[0][number] != words[0]
            wide = np.flatnonzero(words[0] >= WIDE)
            for i in (1, 2):
                other[wide] |= self.parts[i][number[wide]] != words[i][wide]
            other = np.flatnonzero(other)  # try the next place
            todo, words = todo[other], words[:, other]
            place = (place[other] + 1) & (len(self.places) - 1)
        return found

    def order(self, numbers: np.ndarray) -> np.ndarray:
        """Return these numbers in the order of the characters of their words."""
        order = numbers[np.argsort(_beginning(self.parts[0][numbers]))]
        tied = _tied(_beginning(self.parts[0][order]))  # words of the same 7 bytes and more
        words = self.parts[:, order[tied]].byteswap()
        lengths = words[0].astype(np.uint8)
        sort = np.lexsort([lengths, words[2], words[1], words[0] >> np.uint64(8)])
        order[tied] = order[tied][sort]
        words = words[:, sort]
        tied = tied[_tied(*words)]  # long words that begin with the same 23 bytes
        if len(tied):
            names = {number: name for name, number in self.long.items()}
            order[tied] = sorted(order[tied].tolist(), key=names.__getitem__)
        return order

    def _find_long(self, names: List[bytes], words: np.ndarray) -> List[int]:
        """The same for long words; their integers are kept for `order`."""
        found = list(map(self.long.get, names))
        new = []
        for i in [i for i, number in enumerate(found) if number is None]:
            found[i] = self.long.setdefault(names[i], self.count + len(new))
            if found[i] == self.count + len(new):
                new.append(i)
        self._append(words[:, new])
        return found

    def _place(self, words: np.ndarray) -> np.ndarray:
        """Return where to look for each word first, int64."""
        mixed = np.zeros(words.shape[1], np.uint64)
        for part, (low, high) in zip(words, FACTORS):
            if part.any():  # most words have one part
                mixed += (part & LOW) * low + (part >> HALF) * high
        return (mixed >> np.uint64(65 - len(self.places).bit_length())).astype(np.int64)

    def _claim(self, place: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Put one word into each of these free places; return the numbers that are there now."""
        claims = np.arange(self.count, self.count + len(place), dtype=np.int32)
        self.places[place] = claims
        one = np.flatnonzero(self.places[place] == claims)  # of those that want the same place
        self.places[place[one]] = claims[: len(one)]
        self._append(words[:, one])
        return self.places[place]

    def _append(self, words: np.ndarray) -> None:
        stop = self.count + words.shape[1]
        self.parts[:, self.count : stop] = words
        self.count = stop

    def _reserve(self, more: int) -> None:
        """Make room for more words; half of the places remain free."""
        size = len(self.places)
        while size < 2 * (self.count + more):
            size *= 2
        if size == len(self.places):
            return
        parts, self.places = self.parts, np.zeros(size, np.int32)
        self.parts = np.zeros((3, size // 2), np.uint64)
        self.parts[:, : self.count] = parts[:, : self.count]
        for start in range(0, self.count, BLOCK):
            words = self.parts[:, start : min(start + BLOCK, self.count)]
            todo = np.flatnonzero(words[0] < LONG)
            place, todo = self._place(words)[todo], (start + todo).astype(np.int32)
            while len(todo):
                free = np.flatnonzero(self.places[place] == 0)
                self.places[place[free]] = todo[free]
                other = np.flatnonzero(self.places[place] != todo)
                todo, place = todo[other], (place[other] + 1) & (size - 1)


def _beginning(first: np.ndarray) -> np.ndarray:
    """Return integers in the order of the words' first 7 bytes; longer words may be equal."""
    swapped = first.byteswap()  # the bytes, then the length
    lengths = swapped.astype(np.uint8)
    return swapped - (lengths - np.minimum(lengths, np.uint8(8)))


def _tied(*keys: np.ndarray) -> np.ndarray:
    """Return where a column of these sorted keys is the same as one of its neighbours."""
    same = np.ones(max(0, len(keys[0]) - 1), bool)
    for key in keys:
        same &= key[1:] == key[:-1]
    return np.flatnonzero(np.append(same, False) | np.append(False, same))


def _pack(raw: bytes, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the integers of words, uint64 (3, N); of a long word, of its first bytes."""
    windows = np.ndarray(len(raw) + 16, "<u8", raw + bytes(24), strides=(1,))  # at every byte
    words = np.zeros((3, len(starts)), np.uint64)
    words[0] = windows[starts] & MASKS[np.minimum(lengths, 7)]
    words[0] |= np.minimum(lengths, MOST + 1).astype(np.uint64) << LENGTH
    wide = np.flatnonzero(lengths > 7)
    for i, offset in ((1, 7), (2, 15)):
        mask = MASKS[np.clip(lengths[wide] - offset, 0, 8)]
        words[i, wide] = windows[starts[wide] + offset] & mask
    return words
