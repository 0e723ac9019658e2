"""Different words, numbered 1, 2 and so on, in the order in which they appear."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import Dict, List, Tuple, Union

import numpy as np

from slsgd_mx.errors import DataError
from slsgd_mx.system.libraries import Library, address, find_library

VERSION = 2  # of the interface of numbers.c
PAD = 8  # bytes after a text that the library may read
PLACES = 12  # in the smallest table there are 2**12 places
GROWTH = 4  # of arrays that have no room left; memory that is not used yet costs nothing

# White space by its code, and what it means: a space, or where str.splitlines ends a line, a line
# end.  None is beyond U+3000.
SIGNS = {
    code: "\n" if len(f"a{chr(code)}b".splitlines()) == 2 else " "
    for code in range(0x3001)
    if chr(code).isspace()
}


def _tables() -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arguments of ``numbers_simplify``."""
    signs, sizes, odd = np.arange(256, dtype=np.uint8), np.zeros(256, np.uint8), []
    for code, sign in SIGNS.items():
        space = chr(code).encode()
        sizes[space[0]] = len(space)
        if len(space) == 1:
            signs[code] = ord(sign)
        else:
            odd.append(int.from_bytes(space.ljust(3, b"\0") + sign.encode(), "big"))
    return signs, sizes, np.array(odd, np.uint32)


TABLES = _tables()


class Table:
    """Words and their numbers in the hash table of ``numbers.c``."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        self.functions = functions
        self.count = 1  # 0 is no word: it marks a free place
        self.bits = PLACES
        self.places = np.zeros(1 << PLACES, np.uint64)  # half of a hash and a number each
        self.text = np.zeros(PAD, np.uint8)  # all words, one after the other
        self.ends = np.zeros(1, np.uint32)  # where each ends in the text
        # So that nobody can write a text whose words crowd together in the table.
        self.random = np.frombuffer(os.urandom(16), np.uint64)

    def simplify(self, raw: bytes) -> bytes:
        """Return text in which all white space is " " or, where a line ends, "\\n"."""
        out = np.empty(len(raw), np.uint8)
        self.functions.numbers_simplify.restype = ctypes.c_int64
        size = self.functions.numbers_simplify(
            raw,
            ctypes.c_int64(len(raw)),
            *_pointers(*TABLES),
            len(TABLES[-1]),
            *_pointers(out),
        )
        return out[:size].tobytes()

    def find(self, raw: bytes) -> np.ndarray:
        """Return the number of every word and line end, int32; new words get new ones.

        Words are separated by " " and line ends, which are "\\n".
        """
        self._reserve(len(raw) // 2 + 2, len(raw))
        found, count = np.empty(len(raw), np.int32), ctypes.c_int64(self.count)
        self.functions.numbers_find.restype = ctypes.c_int64
        size = self.functions.numbers_find(
            raw + bytes(PAD),
            ctypes.c_int64(len(raw)),
            *_pointers(self.text, self.ends),
            ctypes.byref(count),
            *_pointers(self.places),
            self.bits,
            *_pointers(self.random, found),
        )
        self.count = count.value
        return found[:size]

    def release(self) -> None:
        """Release the memory that only `find` needs, which would need time to use it again."""
        self.places = self.places[:0].copy()

    def frequencies(self, found: np.ndarray) -> np.ndarray:
        """Return how often each number occurs, int32 (self.count,)."""
        found, counts = np.ascontiguousarray(found, np.int32), np.zeros(self.count, np.int32)
        size = ctypes.c_int64(len(found))
        self.functions.numbers_count(*_pointers(found), size, *_pointers(counts))
        return counts

    def order(self, numbers: np.ndarray) -> np.ndarray:
        """Return these different numbers in the order of the characters of their words, int32."""
        numbers = np.array(numbers, np.int32)
        words = _pointers(self.text, self.ends, numbers)
        if self.functions.numbers_order(*words, ctypes.c_int64(len(numbers))):
            raise MemoryError(f"not enough memory to sort {len(numbers):,} words")
        return numbers

    def _reserve(self, words: int, size: int) -> None:
        """Make room for more words of this size; half of the places remain free."""
        used = int(self.ends[self.count - 1])
        if used + size >= 1 << 32:
            raise DataError("the different words of a text have more than 4 GB, which is the most")
        self.text = _grow(self.text, used, used + size + PAD)
        self.ends = _grow(self.ends, self.count, self.count + words)
        if len(self.places) >= 2 * (self.count + words):
            return
        while 1 << self.bits < 2 * (self.count + words):
            self.bits += 1
        self.release()  # so that there are never two
        self.places = np.empty(1 << self.bits, np.uint64)
        self.places.fill(0)  # faster than np.zeros, which touches the memory later, in any order
        self.functions.numbers_move(
            *_pointers(self.text, self.ends),
            ctypes.c_int64(self.count),
            *_pointers(self.places),
            self.bits,
            *_pointers(self.random),
        )


class Dictionary:
    """The same in Python, for a machine without a C compiler."""

    def __init__(self) -> None:
        self.numbers: Dict[bytes, int] = {}
        self.words: List[bytes] = []  # of the numbers 0 and so on; made when it is needed

    @property
    def count(self) -> int:
        return len(self.numbers) + 1

    def simplify(self, raw: bytes) -> bytes:
        """Return text in which all white space is " " or, where a line ends, "\\n".

        >>> Dictionary().simplify("a\\tb\\r\\nc\\u3000d\\u2028".encode())
        b'a b\\nc d\\n'
        """
        return raw.decode().replace("\r\n", "\n").translate(SIGNS).encode()

    def find(self, raw: bytes) -> np.ndarray:
        """Return the number of every word and line end, int32; new words get new ones."""
        known = self.numbers
        words = re.findall(rb"\n|[^ \n]+", raw)
        return np.array([known.setdefault(word, len(known) + 1) for word in words], np.int32)

    def release(self) -> None:
        """Nothing is only needed by `find`."""

    def frequencies(self, found: np.ndarray) -> np.ndarray:
        """Return how often each number occurs, int32 (self.count,)."""
        return np.bincount(found, minlength=self.count).astype(np.int32)

    def order(self, numbers: np.ndarray) -> np.ndarray:
        """Return these numbers in the order of the characters of their words, int32."""
        if len(self.words) < self.count:
            self.words = [b"", *self.numbers]
        return np.array(sorted(numbers.tolist(), key=self.words.__getitem__), np.int32)


Numbers = Union[Table, Dictionary]


def make_numbers() -> Numbers:
    """No words yet."""
    functions = _library().functions
    return Dictionary() if functions is None else Table(functions)


def describe_numbers() -> str:
    """Which code numbers the words of a text, and why not the library."""
    missing = _library().missing
    return f"{missing}; a slower one in Python is used" if missing else "used"


def _library() -> Library:
    return find_library(Path(__file__).parent, "numbers", VERSION)


def _pointers(*arrays: np.ndarray) -> list:
    return [ctypes.c_void_p(address(array)) for array in arrays]


def _grow(array: np.ndarray, used: int, size: int) -> np.ndarray:
    """Return an array of at least this size with the same values in the part that is used."""
    if size <= len(array):
        return array
    larger = np.empty(max(size, GROWTH * len(array)), array.dtype)
    larger[:used] = array[:used]
    return larger
