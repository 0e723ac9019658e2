"""Words and their ids equal those of GluonNLP, however the text is cut."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slsgd_mx.data import words
from slsgd_mx.data.words import SPACE, SPECIAL, Numbers, number_words, vocabulary
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
    numbers = numbers or Numbers((word, i) for i, word in enumerate(SPECIAL))
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


@pytest.mark.parametrize("slots", [1, 18])
def test_words_of_every_length_are_told_apart(monkeypatch, slots):
    """Also where many of them have the same place among the short words."""
    monkeypatch.setattr(words, "SLOTS", slots)
    monkeypatch.setattr(words, "PIECE", 100)
    kinds = [letter * length for length in range(1, 20) for letter in ("a", "b", "\u2013")]
    kinds += ["a" * length + "b" for length in range(1, 20)]
    text = "".join(f" {word}\n {word} {word[::-1]} " for word in kinds * 2) + "\n"
    found, numbers = encode(text.encode())
    names = list(numbers)
    assert [names[i] for i in found] == text.replace("\n", " <eos> ").split()
    assert len(names) == len(set(names))


def test_odd_spaces_are_found_among_all_characters():
    """Also at the end of a piece; nothing else is taken for one."""

    def found(text):
        raw = bytearray(text.encode())
        doubtful = np.flatnonzero(words.KINDS[np.frombuffer(raw, np.uint8)] == words.DOUBTFUL)
        return words._any_space(raw, doubtful)

    codes = [i for i in range(0x21, sys.maxunicode + 1) if not 0xD800 <= i < 0xE000]
    assert not found(" \n".join(chr(i) for i in codes if not chr(i).isspace()) + " \n")
    odd = {*SPACES, *map(chr, range(0x20))} - {" ", "\n"}
    for space in odd:
        assert found(space) and found(f"\u3042{space}\u3042\n"), repr(space)
