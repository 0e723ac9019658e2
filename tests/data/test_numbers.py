"""Words keep their numbers, in the order of their bytes, whatever the table."""

import ctypes
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.word_tables import SPACES, made_table

from slsgd_mx.data.numbers import PAD, TABLES, Table, make_numbers
from slsgd_mx.errors import DataError
from slsgd_mx.system.libraries import address


@pytest.mark.parametrize("shared", [0, 6, 7, 8, 13, 14, 15, 100, 100_000])
def test_words_are_in_the_order_of_their_bytes(kernel, shared):
    """However many bytes they share, with any bytes, and whether they are few or many."""
    rng = np.random.default_rng(shared)
    ends = [b"", b"\0", b"\0\0", b"\xff", b"a", b"b" * 7, b"b" * 8, b"b" * 8 + b"\0"]
    ends += [rng.bytes(1 + i % 20) for i in range(20 if shared > 1000 else 2000)]
    ends = [end.replace(b" ", b"").replace(b"\n", b"") for end in ends]
    names = sorted({b"x" * shared + end for end in ends} - {b""})
    shuffled = [names[i] for i in rng.permutation(len(names))]
    numbers = make_numbers()
    found = numbers.find(b" ".join(shuffled))
    assert found.tolist() == list(range(1, len(names) + 1)) and numbers.count == len(names) + 1
    order = numbers.order(rng.permutation(found))
    assert [shuffled[i - 1] for i in order] == names
    assert numbers.order(found[:0]).tolist() == []


def test_many_pairs_of_words_with_the_same_beginning_are_sorted(kernel):
    """More groups wait than there is room for at first."""
    names = [b"%07d%s" % (i % 3000, end) for i in range(3000) for end in (b"bbbbbbbb", b"aaaaaaaa")]
    numbers = make_numbers()
    order = numbers.order(numbers.find(b" ".join(names)))
    assert [names[i - 1] for i in order] == sorted(names)


def test_words_are_found_again_behind_the_last_place():
    """Small tables that are half full: some words have their place at the beginning."""
    for seed in range(100):
        numbers = made_table()
        numbers.bits, numbers.places = 2, np.zeros(4, np.uint64)
        numbers.random = np.random.default_rng(seed).integers(0, 1 << 64, 2, np.uint64)
        for _ in range(2):
            for i in range(40):
                assert numbers.find(b"%d" % i) == i + 1
        assert numbers.count == 41 and len(numbers.places) == 128


@pytest.mark.parametrize("raw", [b"a", b"\n", b"a b", b"a\nb", b"a\nb c", b"\na b", b"abc", b""])
def test_there_is_room_for_what_the_library_writes_and_reads(raw):
    """In arrays that are as small as possible; nothing tells a write behind their end."""
    numbers = made_table()
    numbers.places = np.zeros(2, np.uint64)
    numbers.bits = 1
    find, seen = numbers.functions.numbers_find, []
    find.restype = ctypes.c_int64
    numbers.functions = SimpleNamespace(
        numbers_find=lambda *arguments: (seen.append(arguments[0]), find(*arguments))[1],
        numbers_move=numbers.functions.numbers_move,
    )
    numbers.find(raw)
    assert seen == [raw + bytes(PAD)]
    assert len(numbers.ends) >= numbers.count and len(numbers.places) >= 2 * numbers.count
    assert len(numbers.text) >= numbers.ends[numbers.count - 1] + PAD


def test_more_words_than_the_ends_can_count_are_refused():
    numbers = made_table()
    numbers.ends[0] = (1 << 32) - 10
    with pytest.raises(DataError, match="more than 4 GB"):
        numbers.find(b"a" * 10)


def test_a_table_that_could_not_grow_may_try_again(monkeypatch):
    numbers = made_table()
    raw = b" ".join(b"%d" % i for i in range(5000))

    empty = np.empty

    def refuse(size, dtype):
        if dtype == np.uint64:
            raise MemoryError
        return empty(size, dtype)

    with monkeypatch.context() as patch:
        patch.setattr(np, "empty", refuse)
        with pytest.raises(MemoryError):
            numbers.find(raw)
    assert numbers.find(raw).tolist() == list(range(1, 5001))


def test_arguments_may_be_views_and_are_not_changed(kernel):
    numbers = make_numbers()
    found = numbers.find(b"c a b")
    assert found.tolist() == [1, 2, 3]
    assert numbers.order(found).tolist() == [2, 3, 1] and found.tolist() == [1, 2, 3]
    twice = np.array([1, 3, 2, 3, 1, 3], np.int32)
    assert numbers.frequencies(twice[::2]).tolist() == [0, 2, 1, 0]
    more = numbers.find(b"0")
    assert numbers.order(np.append(found, more)).tolist() == [4, 2, 3, 1]


SORT_IN_LITTLE_MEMORY = """
import resource, sys
import numpy as np
from slsgd_mx.data.numbers import make_numbers
numbers, n = make_numbers(), 1_000_000
found = numbers.find(b" ".join(b"x%07d" % i for i in range(n)))
used = 4096 * int(open("/proc/self/statm").read().split()[0])
for room in range(0, 60, 6):
    resource.setrlimit(resource.RLIMIT_AS, (used + (room << 20), resource.RLIM_INFINITY))
    try:
        numbers.order(found)
        print("sorted")
    except MemoryError:
        print("refused")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit and /proc are of Linux")
def test_too_little_memory_is_an_error():
    made_table()
    words = [sys.executable, "-c", SORT_IN_LITTLE_MEMORY]
    said = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("refused\n" * 3) and said.stdout.endswith("sorted\n")
    numbers = Table(SimpleNamespace(numbers_order=lambda *arguments: 1))
    with pytest.raises(MemoryError, match="to sort 2 words"):
        numbers.order(np.array([1, 2]))


@pytest.mark.parametrize("which", [0, 1])
def test_every_table_puts_words_into_other_places(which):
    raw = b" ".join(b"%d" % i for i in range(1000)) + b"\n"
    first, second = made_table(), made_table()
    assert first.random[which] != second.random[which]
    second.random = first.random.copy()
    second.random[which] += np.uint64(1 << 20)
    first.find(raw), second.find(raw)
    assert first.places.tolist() != second.places.tolist()


@pytest.mark.parametrize("letters", [7, 4])
def test_a_list_of_similar_words_does_not_crowd(letters):
    """Whatever the random numbers are; a search ends at the next free place."""
    digits = np.arange(8192)[:, None] // 16 ** np.arange(letters)[::-1] % 16
    raw = np.pad(digits + ord("a"), ((0, 0), (0, 1)), constant_values=ord(" "))
    for seed in range(300):
        numbers = made_table()
        numbers.random = np.random.default_rng(seed).integers(0, 1 << 64, 2, np.uint64)
        for piece in np.split(raw.astype(np.uint8), 64):
            numbers.find(piece.tobytes())
        assert numbers.count == 8193 and len(numbers.places) == 1 << 15
        assert np.diff(np.flatnonzero(numbers.places == 0)).max() < 40


def test_all_white_space_becomes_a_space_or_a_line_end(kernel):
    """Also at the beginning, at the end, and next to other signs of two, three and four bytes."""
    simplify = make_numbers().simplify
    for space in SPACES:
        sign = "\n" if len(f"a{space}b".splitlines()) == 2 else " "
        for form in (
            "{}",
            "a{}b",
            "{0}{0}",
            "\u00c4{}\u00c2",
            "\u3042{}\u3042",
            "\U0001f600{}",
            "\r{}",
        ):
            expected = form.format(sign).replace("\r", "\n")
            if form + space == "\r{}\n":
                expected = "\n"
            assert simplify(form.format(space).encode()) == expected.encode(), (form, space)
    assert simplify(b"\r\n\r\r\n\n\r") == b"\n\n\n\n\n" and simplify(b"") == b""


def test_nothing_else_becomes_white_space(kernel):
    codes = (i for i in range(sys.maxunicode + 1) if not 0xD800 <= i < 0xE000)
    text = "".join(chr(i) for i in codes if not chr(i).isspace()).encode()
    assert make_numbers().simplify(text) == text


@pytest.mark.parametrize("size", range(1, 9))
def test_a_space_that_is_cut_stays_as_it_is(size):
    """A sign that is cut at the end is no space."""
    numbers = made_table()
    for space in ("\u2028", "\x85", "\r\n"):
        raw = (b"a" * (size - 1) + space.encode())[:size]
        assert numbers.simplify(raw) == raw.replace(b"\r", b"\n"), raw


@pytest.mark.parametrize("space", ["\u2028", "\x85", "\r\n"])
def test_bytes_behind_a_text_are_not_read(space):
    raw, out = b"a" + space.encode(), np.zeros(9, np.uint8)
    pointers = [ctypes.c_void_p(address(array)) for array in (*TABLES, out)]
    for size in range(1, len(raw)):
        simplify = made_table().functions.numbers_simplify
        made = simplify(raw, ctypes.c_int64(size), *pointers[:3], len(TABLES[2]), pointers[3])
        assert out[:made].tobytes() == raw[:size].replace(b"\r", b"\n")


def test_words_are_found_after_memory_was_released(kernel):
    numbers = make_numbers()
    found = numbers.find(b"c a b a")
    numbers.release()
    assert numbers.order(found[:3]).tolist() == [2, 3, 1]
    assert numbers.find(b"a d c").tolist() == [2, 4, 1] and numbers.count == 5
