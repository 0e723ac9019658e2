"""Words and their ids equal those of GluonNLP, however the text is cut."""

import sys
from collections import Counter

import numpy as np
import pytest
from helpers.word_tables import SPACES, made_table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slsgd_mx.data import numbers as table
from slsgd_mx.data import words
from slsgd_mx.data.numbers import Dictionary, make_numbers
from slsgd_mx.data.words import SPACE, SPECIAL, number_words, vocabulary
from slsgd_mx.errors import DataError

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
