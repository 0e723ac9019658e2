"""Words and their ids equal those of GluonNLP, however the text is cut."""

import ctypes
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slsgd_mx.data import numbers as table
from slsgd_mx.data import words
from slsgd_mx.data.numbers import PAD, TABLES, Dictionary, Table, make_numbers
from slsgd_mx.data.words import SPACE, SPECIAL, number_words, vocabulary
from slsgd_mx.errors import DataError
from slsgd_mx.system.libraries import VARIABLE, address

SPACES = [chr(i) for i in range(sys.maxunicode + 1) if chr(i).isspace()]
WORDS = [
    "a",
    "b",
    "<unk>",
    "<eos>",
    "<eos",
    "<bos>",
    "<pad>",
    "\u00c4",
    "\u65e5\u672c",
    "\U0001f600",
]
WORDS += ["\ufeff", "\u200b", "\0"]
TEXT = st.lists(st.sampled_from([*WORDS, *SPACES, "\n", "\r\n", " ", " ", " "]), max_size=60)


@pytest.fixture(params=["compiled", "numpy"])
def kernel(request, monkeypatch):
    """The table in C, then the dictionary in Python."""
    monkeypatch.setenv(VARIABLE, request.param)
    if request.param == "compiled":
        made_table()
    return request.param


def made_table():
    """An empty table in C; the test is skipped without a compiler."""
    numbers = make_numbers()
    if isinstance(numbers, Dictionary):
        pytest.skip(f"the word table is {table.describe_numbers()}")
    return numbers


def encode(raw, numbers=None):
    numbers = numbers or make_numbers()
    return np.frombuffer(number_words(bytearray(raw), numbers, "text"), np.int32), numbers


@pytest.fixture(scope="module")
def nlp():
    from slsgd_mx.system.mxnet import import_gluonnlp

    return import_gluonnlp()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(train=TEXT, test=TEXT, piece=st.integers(1, 40), size=st.none() | st.integers(3, 6))
def test_ids_equal_gluonnlp(nlp, tmp_path_factory, kernel, train, test, piece, size):
    texts = [("".join(parts) + " x y z w\n").encode() for parts in (train, test)]
    path = tmp_path_factory.getbasetemp() / "text"
    theirs = []
    for raw in texts:
        path.write_bytes(raw)
        options = dict(flatten=True, skip_empty=False, bos=None, eos="<eos>")
        theirs.append(nlp.data.CorpusDataset(str(path), **options)[:])
    counter = nlp.data.count_tokens(theirs[0])
    most = None if size is None else size - len(SPECIAL)
    vocab = nlp.Vocab(counter, max_size=most, padding_token=None, bos_token=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "PIECE", piece)
        found, numbers = encode(texts[0])
        found_test, numbers = encode(texts[1], numbers)
    ids, types = vocabulary(numbers, found, size)
    assert types == len(vocab)
    assert ids[found].tolist() == vocab[theirs[0]]
    assert ids[found_test].tolist() == vocab[theirs[1]]
    assert ids.dtype == found.dtype == np.int32


def test_text_is_cut_at_every_white_space_and_nowhere_else():
    everything = [chr(i) for i in range(sys.maxunicode + 1) if not 0xD800 <= i < 0xE000]
    assert [c for c in everything if SPACE.fullmatch(c.encode())] == SPACES
    assert not SPACE.match(b"\r\n")


@pytest.mark.parametrize("before", [0, 1, 5, 100])
def test_the_first_byte_that_is_not_utf8_is_named(monkeypatch, before):
    monkeypatch.setattr(words, "PIECE", 3)
    with pytest.raises(DataError, match=f"invalid start byte at byte {4 * before}$"):
        encode(b"\xc3\x84 \n" * before + b"\xff\n")


@pytest.mark.parametrize("size", range(1, 10))
def test_a_line_end_of_two_bytes_is_not_cut(monkeypatch, size):
    """Not even where the search for a space ends between the two."""
    monkeypatch.setattr(words, "PIECE", 6)
    monkeypatch.setattr(words, "MOST_WORD", 4)
    assert encode(b"a" * size + b"\r\nb\r\n")[0].tolist() == [1, 2, 3, 2]


def test_too_long_a_word_is_refused(monkeypatch):
    monkeypatch.setattr(words, "MOST_WORD", 100)
    monkeypatch.setattr(words, "PIECE", 10)
    assert len(encode(b"a" * 100 + b"\n")[0]) == 2
    with pytest.raises(
        DataError, match="a word of more than 100 bytes that begins at byte 2, expected"
    ):
        encode(b"a " + b"b" * 200 + b"\n")


@pytest.mark.parametrize("space", [" ", "\n", "\r\n", "\x85", "\u3000"])
def test_a_word_of_the_legal_length_is_accepted_wherever_it_begins(monkeypatch, space):
    monkeypatch.setattr(words, "MOST_WORD", 8)
    monkeypatch.setattr(words, "PIECE", 4)
    for before in range(12):
        for size in range(1, 9):
            text = "a" * min(before, 7) + space * max(1, before - 6) + "b" * size + space + "c\n"
            found, numbers = encode(text.encode())
            ids, _ = vocabulary(numbers, found, None)
            assert ids[found].tolist() == plain_ids(text, text, None)[0][0], text


def test_a_word_that_is_too_long_is_found_behind_any_space(monkeypatch):
    monkeypatch.setattr(words, "MOST_WORD", 8)
    monkeypatch.setattr(words, "PIECE", 4)
    for before in range(6):
        begin = "a" * before + "\u3000"
        with pytest.raises(DataError, match=f"begins at byte {len(begin.encode())}, expected"):
            encode(f"{begin}{'b' * 30}\n".encode())


def test_a_progress_bar_appears_on_a_terminal(monkeypatch, capsys):
    raw = b"a b \n" * 10
    encode(raw)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(words, "DELAY", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    encode(raw)
    assert "text:" in capsys.readouterr().err


def plain_words(text):
    """The words of a text and an <eos> for each line, without NumPy."""
    return [word for line in text.splitlines() for word in [*line.split(), "<eos>"]]


def plain_ids(train, other, size):
    """The ids of two texts and the number of types, without NumPy."""
    counts = Counter(plain_words(train))
    names = sorted(set(counts) - set(SPECIAL), key=lambda word: (-counts[word], word))
    names = [*SPECIAL, *names][:size]
    ids = {word: i for i, word in enumerate(names)}
    return [[ids.get(word, 0) for word in plain_words(text)] for text in (train, other)], len(names)


def random_texts(seed):
    """Two texts of words of all lengths, most of them rare and many with the same beginning."""
    rng = np.random.default_rng(seed)
    odd = seed % 2 == 1  # with control characters and white space other than " " and line ends
    letters = ["a", "\0" if odd else "b", "\x01" if odd else "c", *"\u00c4\u3042\ufeff\U0001f600"]

    def draw(choices, count):
        return [choices[i] for i in rng.integers(0, len(choices), count)]

    kinds = ["".join(draw(letters[: 1 + i % 7], 1 + i % 11)) for i in range(300)]
    kinds += [*SPECIAL, *("a" * i for i in range(1, 40)), *("a" * i + "b" for i in range(40))]
    kinds += ["a" * i + "\0" * j for i in (1, 7, 8, 22, 23, 24) for j in (1, 2) if odd]
    spaces = [" ", " ", "  ", "\n", " \n", "\n\n", "\r\n", *(SPACES if odd else [])]
    for size in (800, 300):
        yield "".join(map("".join, zip(draw(kinds, size), draw(spaces, size)))) + "\n"


@pytest.mark.parametrize("kind", ["table", "table with words in one place", "dictionary"])
@pytest.mark.parametrize("seed", range(6))
def test_ids_equal_a_plain_implementation(monkeypatch, seed, kind):
    """Also where the table grows, and where nearly all words have the same place in it."""
    monkeypatch.setattr(words, "PIECE", [200, 2000, 1 << 18][seed % 3])
    monkeypatch.setattr(table, "PLACES", 2)
    numbers = Dictionary() if kind == "dictionary" else made_table()
    if kind == "table with words in one place":
        numbers.random = np.zeros(2, np.uint64)
    train, other = random_texts(seed)
    found, numbers = encode(train.encode(), numbers)
    found_other, numbers = encode(other.encode(), numbers)
    for size in (None, 100, 3):
        ids, types = vocabulary(numbers, found, size)
        expected = [ids[found].tolist(), ids[found_other].tolist()], types
        assert expected == plain_ids(train, other, size)


@pytest.mark.parametrize("most", [255, 65_535])
def test_frequent_words_come_first(kernel, most):
    """Also where a word occurs 256 or 65,536 times more often than another."""
    names = [f"w{i}" for i in range(4)]
    text = " ".join(" ".join([name] * (most + i)) for i, name in enumerate(names)) + " z z y\n"
    found, numbers = encode(text.encode())
    ids, types = vocabulary(numbers, found, None)
    assert types == len(SPECIAL) + 6
    assert ids[found].tolist() == plain_ids(text, text, None)[0][0]


@pytest.mark.parametrize("text", ["x\n", "<unk>\n", "x y\n", "longword1 longword2\n"])
def test_ids_of_few_words_equal_a_plain_implementation(kernel, text):
    found, numbers = encode(text.encode())
    ids, types = vocabulary(numbers, found, None)
    expected, expected_types = plain_ids(text, text, None)
    assert (ids[found].tolist(), types) == (expected[0], expected_types)


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
    with pytest.raises(MemoryError, match="more than 4 GB of different words"):
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
    encode(raw, first), encode(raw, second)
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
