"""WikiText-2 in every form, whole and broken."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from slsgd_mx.data import batchify_text, deal_batches, load_wikitext2
from slsgd_mx.data.text import prepare_text
from slsgd_mx.errors import ConfigError, DataError

FILES = {
    "wiki.train.tokens": " \n = Ä b = \n \n b a a <unk> c c d \n",
    "wiki.valid.tokens": " a new b \n",
    "wiki.test.tokens": " d other \n \n",
}
# <eos> for the empty lines too; = a b c twice each, then d Ä once: ties in the order of characters
TYPES = ["<unk>", "<eos>", "=", "a", "b", "c", "d", "Ä"]
TRAIN_WORDS = ["<eos>", *"=Äb=", "<eos>", "<eos>", *"baa", "<unk>", *"ccd", "<eos>"]
VALID_WORDS = ["a", "<unk>", "b", "<eos>"]
TEST_WORDS = ["d", "<unk>", "<eos>", "<eos>"]


def raw_files(**changed):
    """The three files as bytes; ``train=...`` replaces one, None leaves it out."""
    files = {name: text.encode() for name, text in FILES.items()}
    files.update({f"wiki.{part}.tokens": raw for part, raw in changed.items()})
    return {name: raw for name, raw in files.items() if raw is not None}


def write_folder(folder: Path, files) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, raw in files.items():
        (folder / name).write_bytes(raw)
    return folder


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
    expected = [np.array(ids_of(words)) for words in (TRAIN_WORDS, VALID_WORDS, TEST_WORDS)]
    assert data.digest == prepare_text("other", *expected, len(TYPES)).digest


@pytest.mark.parametrize("below", ["", "wikitext-2"])
def test_folder(tmp_path, below):
    write_folder(tmp_path / below, raw_files())
    assert_whole(load_wikitext2(tmp_path))


def test_relative_folder(tmp_path, monkeypatch):
    write_folder(tmp_path / "~odd", raw_files())
    monkeypatch.chdir(tmp_path)
    assert_whole(load_wikitext2("~odd"))


@pytest.mark.parametrize("direct", [True, False])
def test_archive(tmp_path, monkeypatch, direct):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    folder = tmp_path / "archive"
    folder.mkdir()
    path = write_archive(folder / "wikitext-2-v1.zip", raw_files())
    assert_whole(load_wikitext2(str(path) if direct else folder))
    assert os.listdir(folder) == [path.name]  # nothing is left behind
    assert os.listdir(scratch) == []
    assert not list(tmp_path.rglob("escape"))


@pytest.mark.parametrize("below", ["", "wikitext2"])
def test_data_home(tmp_path, monkeypatch, below):
    monkeypatch.setenv("SLSGD_MX_DATA", str(tmp_path))
    write_folder(tmp_path / below, raw_files())
    assert_whole(load_wikitext2())


def test_dos_line_ends_change_nothing(tmp_path):
    dos = {name: raw.replace(b"\n", b"\r\n") for name, raw in raw_files().items()}
    assert_whole(load_wikitext2(write_folder(tmp_path, dos)))


@pytest.mark.parametrize("vocab_size", range(3, len(TYPES) + 1))
def test_vocab_size_keeps_the_most_frequent(tmp_path, vocab_size):
    write_folder(tmp_path, raw_files())
    data = load_wikitext2(tmp_path, vocab_size)
    kept = TYPES[:vocab_size]
    assert data.vocab_size == vocab_size
    assert data.train.tolist() == ids_of(TRAIN_WORDS + VALID_WORDS, kept)
    assert data.test.tolist() == ids_of(TEST_WORDS, kept)
    whole = load_wikitext2(tmp_path)
    assert (data.digest == whole.digest) == (vocab_size == len(TYPES))


@pytest.mark.parametrize("wrong", [2, 0, -1, 9, 4.5, True, "5"])
def test_vocab_size_out_of_range(tmp_path, wrong):
    write_folder(tmp_path, raw_files())
    with pytest.raises(ConfigError, match=f"vocab_size={wrong} .* 3 <= vocab_size <= 8"):
        load_wikitext2(tmp_path, wrong)


@pytest.mark.parametrize("exists", [True, False])
def test_missing_names_three_ways_on(tmp_path, exists):
    place = tmp_path if exists else tmp_path / "nowhere"
    with pytest.raises(DataError) as caught:
        load_wikitext2(place)
    message = str(caught.value)
    assert str(place) in message
    for way in ("slsgd-mx data fetch wikitext2", "--data-dir DIR", "--data synthetic", "stand-in"):
        assert way in message


BROKEN = [
    (b"", "has no words in its 0 bytes"),
    (b" \n \n", "has no words in its 4 bytes"),
    (b" a b \n c", "is truncated: its last line has no end after 8 bytes"),
    (b" a \xff b \n", "is no UTF-8 text: invalid start byte at byte 3"),
    (b" caf\xc3", "is no UTF-8 text: unexpected end of data at byte 4"),
]


@pytest.mark.parametrize("part", ["train", "valid", "test"])
@pytest.mark.parametrize(("raw", "message"), [*BROKEN, (None, "is missing")])
def test_broken_file(tmp_path, part, raw, message):
    write_folder(tmp_path, raw_files(**{part: raw}))
    with pytest.raises(DataError, match=rf"wiki\.{part}\.tokens {message}"):
        load_wikitext2(tmp_path)


@pytest.mark.parametrize(("raw", "message"), BROKEN)
def test_broken_file_in_the_archive(tmp_path, raw, message):
    path = write_archive(tmp_path / "wikitext-2-v1.zip", raw_files(valid=raw))
    with pytest.raises(DataError, match=rf"v1\.zip: wikitext-2/wiki\.valid\.tokens {message}"):
        load_wikitext2(path)


def test_too_large_is_refused_unread(tmp_path):
    write_folder(tmp_path, raw_files())
    with open(tmp_path / "wiki.test.tokens", "ab") as file:
        file.truncate((1 << 28) + 1)  # sparse: takes no space
    with pytest.raises(DataError, match=r"268,435,457 bytes, expected at most 268,435,456"):
        load_wikitext2(tmp_path)


def test_archive_lacks_a_member(tmp_path):
    path = write_archive(tmp_path / "wikitext-2-v1.zip", raw_files(test=None))
    with pytest.raises(DataError, match=r"lacks wikitext-2/wiki\.test\.tokens, expected .*zip of"):
        load_wikitext2(path)
    write_archive(path, raw_files(), prefix="other/")
    with pytest.raises(DataError, match=r"lacks wikitext-2/wiki\.train\.tokens, "):
        load_wikitext2(path)


def test_every_damage_to_the_archive_is_a_data_error_or_none(tmp_path):
    path = write_archive(tmp_path / "wikitext-2-v1.zip", raw_files())
    raw = path.read_bytes()
    refused = 0
    for cut in range(0, len(raw), 7):
        path.write_bytes(raw[:cut])
        with pytest.raises(DataError, match=r"truncated or no WikiText-2 archive.*4,475,746 bytes"):
            load_wikitext2(path)
    for at in range(0, len(raw), 5):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :])
        try:
            assert_whole(load_wikitext2(path))  # a date, say: nothing that matters
        except DataError as error:
            assert "wikitext-2-v1.zip" in str(error)
            refused += 1
    assert refused > len(raw) // 20


def test_importing_the_package_imports_no_mxnet():
    code = (
        "import slsgd_mx.data, sys; sys.exit('mxnet' in sys.modules or 'gluonnlp' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_prepare_refuses_other_ids():
    good = np.array([0, 1, 2])
    with pytest.raises(DataError, match=r"test text: ids are float64 \(3,\), expected integers"):
        prepare_text("x", good, good, good / 1.0, 3)
    with pytest.raises(DataError, match=r"validation text: id 3 of token 1, expected 0\.\.2"):
        prepare_text("x", good, np.array([0, 3]), good, 3)


def test_digest_tells_texts_apart():
    a, b, none = np.array([0, 1, 2]), np.array([0, 1]), np.array([], dtype=int)
    digests = [
        prepare_text("x", a, none, b, 3).digest,
        prepare_text("x", a, none, b, 4).digest,
        prepare_text("x", b, none, a, 3).digest,
        prepare_text("x", a, b, b, 3).digest,
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
