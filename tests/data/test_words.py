"""Words and their ids equal those of GluonNLP, however the text is cut."""

import importlib.util
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slsgd_mx.data import numbers as table
from slsgd_mx.data import words
from slsgd_mx.data.numbers import Numbers
from slsgd_mx.data.words import SPACE, SPECIAL, number_words, vocabulary
from slsgd_mx.errors import DataError

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


def encode(raw, numbers=None):
    numbers = numbers or Numbers()
    return number_words(bytearray(raw), numbers, "text"), numbers


@pytest.fixture(scope="module")
def nlp():
    from slsgd_mx.system.mxnet import import_gluonnlp

    return import_gluonnlp()


@settings(deadline=None)
@given(train=TEXT, test=TEXT, piece=st.integers(1, 40), size=st.none() | st.integers(3, 6))
def test_ids_equal_gluonnlp(nlp, tmp_path_factory, train, test, piece, size):
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


def test_too_long_a_word_is_refused(monkeypatch):
    monkeypatch.setattr(words, "MOST_WORD", 100)
    monkeypatch.setattr(words, "PIECE", 10)
    assert len(encode(b"a" * 100 + b"\n")[0]) == 2
    with pytest.raises(DataError, match="a word of more than 100 bytes at byte 10, expected words"):
        encode(b"a " + b"b" * 200 + b"\n")


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


@pytest.mark.parametrize("factor", [None, 0], ids=["spread", "all in one place"])
@pytest.mark.parametrize("seed", range(6))
def test_ids_equal_a_plain_implementation(monkeypatch, seed, factor):
    """Also where the table grows, and where all words have the same place in it."""
    monkeypatch.setattr(words, "PIECE", [200, 2000, 1 << 18][seed % 3])
    monkeypatch.setattr(table, "PLACES", 4)
    monkeypatch.setattr(table, "BLOCK", 10)
    if factor is not None:
        monkeypatch.setattr(table, "FACTORS", np.zeros((3, 2), np.uint64))
    train, other = random_texts(seed)
    found, numbers = encode(train.encode())
    found_other, numbers = encode(other.encode(), numbers)
    for size in (None, 100, 3):
        ids, types = vocabulary(numbers, found, size)
        expected = [ids[found].tolist(), ids[found_other].tolist()], types
        assert expected == plain_ids(train, other, size)


@pytest.mark.parametrize("text", ["x\n", "<unk>\n", "x y\n", "longword1 longword2\n"])
def test_ids_of_few_words_equal_a_plain_implementation(text):
    found, numbers = encode(text.encode())
    ids, types = vocabulary(numbers, found, None)
    expected, expected_types = plain_ids(text, text, None)
    assert (ids[found].tolist(), types) == (expected[0], expected_types)


def test_long_words_with_the_same_beginning_do_not_fill_the_table(monkeypatch):
    """Each would be compared with all others: with a million of them, loading would not end."""
    monkeypatch.setattr(words, "PIECE", 10000)
    names = [b"https://example.org/pages/%d" % i for i in range(5000)]
    _, numbers = encode(b" ".join(names) + b" a b\n")
    assert numbers.count > 5000
    assert np.count_nonzero(numbers.places) == 3  # a, b and the line end


def test_every_process_puts_words_into_other_places():
    """So that no text can be written whose words all have the same place."""
    another = importlib.util.module_from_spec(table.__spec__)
    table.__spec__.loader.exec_module(another)
    assert not (another.FACTORS == table.FACTORS).any()


@pytest.mark.parametrize("bytes_that_differ", [(6, 14), (14, 22), (10, 18), (0, 4), (3, 7)])
def test_words_that_differ_in_two_bytes_are_spread(monkeypatch, bytes_that_differ):
    factors = np.random.default_rng(1).integers(0, 1 << 64, (3, 2), np.uint64)
    monkeypatch.setattr(table, "FACTORS", factors)
    kinds = np.full((32, 32, 24), ord("@"), np.uint8)
    kinds[..., 23] = ord("\n")
    kinds[..., bytes_that_differ[0]] += np.arange(32, dtype=np.uint8)[:, None]
    kinds[..., bytes_that_differ[1]] += np.arange(32, dtype=np.uint8)
    _, numbers = encode(kinds.tobytes())
    numbers.places = np.zeros(4096, np.int32)
    places = numbers._place(numbers.parts[:, : numbers.count])
    assert len(places) > 1024 and np.bincount(places).max() < 10


def test_odd_spaces_are_found_among_all_characters():
    """Also at the end of a piece; nothing else is taken for one."""

    def found(text):
        raw = bytearray(text.encode())
        doubtful = np.flatnonzero(words.KINDS[np.frombuffer(raw, np.uint8)] == words.DOUBTFUL)
        return words._any_space(bytes(raw), doubtful)

    codes = [i for i in range(0x21, sys.maxunicode + 1) if not 0xD800 <= i < 0xE000]
    assert not found(" \n".join(chr(i) for i in codes if not chr(i).isspace()) + " \n")
    odd = {*SPACES, *map(chr, range(0x20))} - {" ", "\n"}
    for space in odd:
        assert found(space) and found(f"\u3042{space}\u3042\n"), repr(space)
