"""WikiText-2 in a folder and in the archive, intact and damaged."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from slsgd_mx.data import words
from slsgd_mx.data.text import batchify_text, deal_batches, prepare_text
from slsgd_mx.data.wikitext2 import load_wikitext2
from slsgd_mx.errors import ConfigError, DataError
from tests.helpers.data_files import text_files, write_folder

# = a b c occur twice each, d Ä once; ties are in character order. Empty lines are <eos> too.
TYPES = ["<unk>", "<eos>", "=", "a", "b", "c", "d", "Ä"]
TRAIN_WORDS = ["<eos>", *"=Äb=", "<eos>", "<eos>", *"baa", "<unk>", *"ccd", "<eos>"]
VALID_WORDS = ["a", "<unk>", "b", "<eos>"]
TEST_WORDS = ["d", "<unk>", "<eos>", "<eos>"]


def write_archive(path: Path, files, prefix="wikitext-2/") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../escape", "no")
        for name, raw in files.items():
            archive.writestr(prefix + name, raw)
    return path


def ids_of(words, types=TYPES):
    return [types.index(word) if word in types else 0 for word in words]


def assert_whole(data):
    assert data.name == "wikitext2"
    assert data.train.dtype == data.test.dtype == np.int32
    assert data.train.tolist() == ids_of(TRAIN_WORDS + VALID_WORDS)
    assert data.test.tolist() == ids_of(TEST_WORDS)
    assert (data.vocab_size, data.train_tokens) == (len(TYPES), len(TRAIN_WORDS))
    expected = [np.array(ids_of(words)) for words in (TRAIN_WORDS + VALID_WORDS, TEST_WORDS)]
    assert data.digest == prepare_text("other", *expected, len(TYPES), 1).digest


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_folder(tmp_path, line_end):
    files = {name: raw.replace(b"\n", line_end) for name, raw in text_files().items()}
    assert_whole(load_wikitext2(write_folder(tmp_path, files)))


def test_archive(tmp_path, monkeypatch):
    scratch, folder = tmp_path / "scratch", tmp_path / "archive"
    scratch.mkdir()
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    path = write_archive(folder / "wikitext-2-v1.zip", text_files())
    for place in (str(path), folder):
        assert_whole(load_wikitext2(place))
    assert os.listdir(folder) == [path.name] and os.listdir(scratch) == []  # nothing remains
    assert not list(tmp_path.rglob("escape"))


def test_vocab_size_keeps_the_most_frequent(tmp_path):
    write_folder(tmp_path, text_files())
    digests = []
    for vocab_size in range(3, len(TYPES) + 1):
        data, kept = load_wikitext2(tmp_path, vocab_size), TYPES[:vocab_size]
        assert data.vocab_size == vocab_size
        assert data.train.tolist() == ids_of(TRAIN_WORDS + VALID_WORDS, kept)
        assert data.test.tolist() == ids_of(TEST_WORDS, kept)
        digests.append(data.digest)
    assert len(set(digests)) == len(digests) and digests[-1] == load_wikitext2(tmp_path).digest


def test_wrong_sizes_of_the_vocabulary(tmp_path):
    write_folder(tmp_path, text_files())
    for size in (2, "100", 3.0, True):
        with pytest.raises(ConfigError, match=f"vocab_size={size} is out of range: needs 3 <= "):
            load_wikitext2(tmp_path, size)
    with pytest.raises(ConfigError, match=f"so choose 3 to {len(TYPES)} "):
        load_wikitext2(tmp_path, len(TYPES) + 1)
    write_folder(tmp_path, text_files(train=b"<unk> <eos>\n"))
    with pytest.raises(DataError, match="has no words besides <unk> and <eos>"):
        load_wikitext2(tmp_path, 3)


def test_a_text_of_several_pieces_equals_one_of_one_piece(tmp_path, monkeypatch):
    write_folder(tmp_path, text_files())
    monkeypatch.setattr(words, "PIECE", 3)
    assert_whole(load_wikitext2(tmp_path))


DAMAGED = [
    (b"", "has no words in its 0 bytes"),
    (b" \n \n", "has no words in its 4 bytes"),
    (b" a b \n c", "is truncated: no line feed ends its last line after 8 bytes"),
    (b" a \xff b \n", "is not UTF-8 text: invalid start byte at byte 3"),
    (b" caf\xc3", "is not UTF-8 text: unexpected end of data at byte 4"),
]


@pytest.mark.parametrize("part", ["train", "valid", "test"])
@pytest.mark.parametrize(("raw", "message"), DAMAGED)
def test_damaged_file(tmp_path, part, raw, message):
    write_folder(tmp_path, text_files(**{part: raw}))
    with pytest.raises(DataError, match=rf"wiki\.{part}\.tokens {message}"):
        load_wikitext2(tmp_path)


@pytest.mark.parametrize(("raw", "message"), DAMAGED)
def test_damaged_file_in_the_archive(tmp_path, raw, message):
    path = write_archive(tmp_path / "wikitext-2-v1.zip", text_files(valid=raw))
    with pytest.raises(DataError, match=rf"v1\.zip: wikitext-2/wiki\.valid\.tokens {message}"):
        load_wikitext2(path)


def test_archive_lacks_a_member(tmp_path):
    path = write_archive(tmp_path / "wikitext-2-v1.zip", text_files(test=None))
    with pytest.raises(DataError, match=r"lacks wikitext-2/wiki\.test\.tokens, expected .*zip of"):
        load_wikitext2(path)
    write_archive(path, text_files(), prefix="other/")
    with pytest.raises(DataError, match=r"lacks wikitext-2/wiki\.train\.tokens, "):
        load_wikitext2(path)


def test_damage_to_the_archive_is_a_data_error_or_harmless(tmp_path):
    path = write_archive(tmp_path / "wikitext-2-v1.zip", text_files())
    raw = path.read_bytes()
    refused = 0
    for cut in range(0, len(raw), 29):
        path.write_bytes(raw[:cut])
        with pytest.raises(
            DataError, match=r"truncated or not a WikiText-2 archive.*4,475,746 bytes"
        ):
            load_wikitext2(path)
    for at in range(0, len(raw), 11):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :])
        try:
            assert_whole(load_wikitext2(path))  # the byte did not matter, such as a date
        except DataError as error:
            assert "wikitext-2-v1.zip" in str(error)
            refused += 1
    assert refused > len(raw) // 44


def test_prepare_refuses_other_ids():
    good = np.array([0, 1, 2])
    with pytest.raises(DataError, match=r"test text: ids are float64 \(3,\), expected integers"):
        prepare_text("x", good, good / 1.0, 3, 3)
    with pytest.raises(DataError, match=r"training text: id 3 of token 1, expected 0\.\.2"):
        prepare_text("x", np.array([0, 3]), good, 3, 2)


def test_digest_tells_texts_apart():
    a, b = np.array([0, 1, 2]), np.array([0, 1])
    digests = [
        prepare_text("x", a, b, 3, 3).digest,
        prepare_text("x", a, b, 4, 3).digest,
        prepare_text("x", b, a, 3, 2).digest,
        prepare_text("x", np.append(a, b), b, 3, 3).digest,
    ]
    assert len(set(digests)) == 4


def test_real_wikitext2():
    folder = os.environ.get("SLSGD_MX_REAL_DATA")
    if not folder or not (Path(folder) / "wikitext-2").is_dir():
        pytest.skip("needs real data: set SLSGD_MX_REAL_DATA to a folder that holds wikitext-2/")
    data = load_wikitext2(folder)
    assert (data.vocab_size, data.train_tokens) == (33_278, 2_088_628)
    assert (len(data.train), len(data.test)) == (2_088_628 + 217_646, 245_569)
    assert np.bincount(data.train, minlength=33_278).min() > 0
    shares = deal_batches(batchify_text(data.train, 20, 35), 100, 32)
    assert {array.shape for share in shares for array in share} == {(32, 35, 20)}
    small = load_wikitext2(folder, vocab_size=2000)
    assert small.train.max() == small.test.max() == 1999
    np.testing.assert_array_equal(small.train, np.where(data.train < 2000, data.train, 0))
