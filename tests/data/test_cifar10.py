"""CIFAR-10 in both layouts and both archives, intact and damaged."""

import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from slsgd_mx.data.cifar10 import load_cifar10
from slsgd_mx.data.images import prepare
from slsgd_mx.data.safe_pickle import UnsafePickle, read_pickle
from slsgd_mx.errors import DataError
from tests.helpers.data_files import BIN, PY, cifar_batches, cifar_files, write_folder


def write_archive(path: Path, prefix: str, files) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, raw in files.items():
            member = tarfile.TarInfo(f"{prefix}/{name}")
            member.size = len(raw)
            tar.addfile(member, io.BytesIO(raw))
    return path


@pytest.fixture
def expected():
    """The same images, prepared by hand."""
    pixels, labels = [], []
    for _, x, y in cifar_batches():
        pixels.append(x.reshape(-1, 3, 32, 32)[:, :, 4:28, 4:28])
        labels.append(y)
    return prepare(
        "cifar10", np.concatenate(pixels[:5]), np.concatenate(labels[:5]), pixels[5], labels[5]
    )


def assert_same(data, expected):
    assert data.digest == expected.digest
    assert data.name == "cifar10"
    for field in ("train_x", "train_y", "test_x", "test_y"):
        np.testing.assert_array_equal(getattr(data, field), getattr(expected, field))


def test_prepare_is_the_crop_minus_mean_over_128(expected):
    pixels = np.concatenate([x for _, x, _ in cifar_batches()][:5]).reshape(-1, 3, 32, 32)
    cropped = pixels[:, :, 4:28, 4:28].astype(np.float64)
    np.testing.assert_allclose(expected.train_x, (cropped - cropped.mean(axis=0)) / 128, atol=1e-6)
    assert expected.train_x.dtype == np.float32
    assert expected.train_x.flags.c_contiguous
    assert expected.train_y.dtype == np.int32
    assert expected.test_x.shape == (6, 3, 24, 24)


def test_prepare_refuses_other_pixels():
    good, labels = np.zeros((2, 3, 24, 24), np.uint8), np.array([0, 1])
    with pytest.raises(DataError, match=r"expected uint8 \(N, 3, 24, 24\)"):
        prepare("x", good.astype(np.float32), labels, good, labels)
    with pytest.raises(DataError, match="expected 2 integers"):
        prepare("x", good, labels, good, labels[:1])
    with pytest.raises(DataError, match=r"label 10 of image 1, expected 0\.\.9"):
        prepare("x", good, labels, good, np.array([3, 10]))


def test_the_digest_covers_pixels_and_labels_of_both_sets():
    pixels, labels = np.zeros((2, 3, 24, 24), np.uint8), np.array([0, 1])
    sets = [pixels, labels, pixels, labels]
    digests = {prepare("x", *sets).digest}
    for place in range(4):
        changed = [array.copy() for array in sets]
        changed[place].flat[-1] += 1
        digests.add(prepare("x", *changed).digest)
    assert len(digests) == 5


@pytest.mark.parametrize("layout, kind", [(BIN, "binary"), (PY, "python")])
def test_folder_and_archive(tmp_path, expected, layout, kind):
    files = cifar_files(layout)
    assert_same(load_cifar10(write_folder(tmp_path / "folder" / layout, files)), expected)
    (tmp_path / "archive").mkdir()
    # The official archives are not in order either.
    shuffled = dict(sorted(files.items(), reverse=True))
    path = write_archive(tmp_path / "archive" / f"cifar-10-{kind}.tar.gz", layout, shuffled)
    for place in (str(path), path.parent):
        assert_same(load_cifar10(place), expected)
    assert os.listdir(path.parent) == [path.name]  # nothing is unpacked


def test_first_images_only(tmp_path, expected):
    write_folder(tmp_path / BIN, cifar_files())
    data = load_cifar10(tmp_path, train_images=6, test_images=2)
    np.testing.assert_array_equal(data.train_y, expected.train_y[:6])
    # the mean is over the images used
    np.testing.assert_allclose(data.train_x.mean(axis=0), 0, atol=1e-6)
    assert data.test_x.shape == (2, 3, 24, 24)
    assert data.digest != expected.digest


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\0" * 1234, r"data_batch_3\.bin has 1,234 bytes, expected 30,730,000"),
        (b"", r"data_batch_3\.bin has 0 bytes, expected 30,730,000"),
        (b"\0" * 3073 + b"\x0a" + b"\0" * 3072, r"data_batch_3\.bin: label 10 of image 1"),
    ],
)
def test_damaged_binary_file(tmp_path, raw, message):
    write_folder(tmp_path, {**cifar_files(), "data_batch_3.bin": raw})
    with pytest.raises(DataError, match=message):
        load_cifar10(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "holds a list"),
        ({b"labels": [0]}, "no usable data"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, None]}, "no usable labels"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0]}, "2 images and 1 labels"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 10]}, "label 10 of image 1"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 2**70]}, "of image 1"),
        ({b"data": np.zeros((2, 3071), np.uint8), b"labels": [0, 1]}, "no usable data"),
        ({b"data": np.zeros((2, 3072), np.int16), b"labels": [0, 1]}, "not allowed here"),
        ({b"data": np.zeros((2, 3072), np.uint8, "F"), b"labels": [0, 1]}, "not in C order"),
    ],
)
def test_damaged_python_file(tmp_path, content, message):
    write_folder(tmp_path, {**cifar_files(PY), "data_batch_2": pickle.dumps(content, protocol=2)})
    with pytest.raises(DataError, match=f"data_batch_2.*{message}"):
        load_cifar10(tmp_path)


def test_every_truncation_of_a_pickle_is_refused():
    raw = cifar_files(PY)["data_batch_4"]
    for length in [*range(0, len(raw), 97), len(raw) - 1]:
        with pytest.raises(UnsafePickle):
            read_pickle(raw[:length])


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_reader_agrees_with_pickle(protocol):
    raw = cifar_files(PY, protocol)["data_batch_1"]
    ours, theirs = read_pickle(raw), pickle.loads(raw)
    np.testing.assert_array_equal(ours.pop(b"data"), theirs.pop(b"data"))
    assert ours == theirs


def test_reader_accepts_python_2_strings():
    # {'data': array([[1, 2]], dtype=uint8)} as Python 2 writes it, with bytes for every string
    raw = (
        b"\x80\x02}U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
        b"U\x01b\x87R(K\x01K\x01K\x02\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x02\x01\x02tbs."
    )
    np.testing.assert_array_equal(read_pickle(raw)[b"data"], [[1, 2]])


@pytest.mark.parametrize("opcode", [b"U\x03", b"T\x03\x00\x00\x00"], ids=["short", "long"])
def test_bytes_of_python_2_strings_are_not_changed(opcode):
    """Pixels are such strings, and most of them are not ASCII."""
    assert read_pickle(b"\x80\x02" + opcode + b"\x7f\x80\xff.") == b"\x7f\x80\xff"


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("where", ["data", "labels"])
def test_malicious_pickle_is_not_run(tmp_path, protocol, where):
    mark = tmp_path / "run"
    files = cifar_files(PY)
    content = pickle.loads(files["data_batch_1"])
    content[where.encode()] = Evil(os.system, f"touch '{mark}'")
    files["data_batch_1"] = pickle.dumps(content, protocol=protocol)
    write_folder(tmp_path / PY, files)
    with pytest.raises(DataError, match="data_batch_1.*not allowed here"):
        load_cifar10(tmp_path)
    assert not mark.exists()


@pytest.mark.parametrize(
    "raw",
    [
        pickle.dumps(Evil(eval, "1"), protocol=2),
        b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
        b"\x80\x02cnumpy\nndarray\nK\x01\x85R.",  # an allowed name, called
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00hex\x86R.",
        b"(i__builtin__\neval\n.",
        b"\x80\x02R.",
        b"\x80\x02}(K\x01\x86K\x02u.",
        b"",
        # 200 nested pairs of the same tuple, then used as a key: 2**200 steps if it were hashed
        b"\x80\x02})" + b"".join(b"q%ch%c\x86" % (i, i) for i in range(200)) + b"K\x01s.",
    ],
)
def test_reader_refuses(raw):
    with pytest.raises(UnsafePickle):
        read_pickle(raw)


def test_damaged_archive(tmp_path):
    path = write_archive(tmp_path / "cifar-10-binary.tar.gz", BIN, cifar_files())
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(DataError, match=r"binary\.tar\.gz.*truncated.*170,052,171 bytes"):
        load_cifar10(tmp_path)
    path.write_bytes(b"<html>not here</html>")
    with pytest.raises(DataError, match="not a CIFAR-10 archive"):
        load_cifar10(path)
    files = cifar_files()
    del files["data_batch_5.bin"]
    write_archive(path, BIN, files)
    with pytest.raises(DataError, match="lacks cifar-10-batches-bin/data_batch_5.bin"):
        load_cifar10(tmp_path)


def test_archive_reads_only_named_regular_members(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"\0" * 3073)
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, kind in (("../escape", tarfile.REGTYPE), (f"{BIN}/test_batch.bin", b"2")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, str(secret)
            tar.addfile(member)
    with pytest.raises(DataError, match=r"test_batch\.bin is not a regular file"):
        load_cifar10(path)
    assert not (tmp_path.parent / "escape").exists()


def test_real_cifar10():
    folder = os.environ.get("SLSGD_MX_REAL_DATA")
    if not folder:
        pytest.skip("needs real data: set SLSGD_MX_REAL_DATA to a folder that holds CIFAR-10")
    data = load_cifar10(folder)
    assert data.train_x.shape == (50_000, 3, 24, 24)
    assert np.bincount(data.train_y).tolist() == [5000] * 10
    assert np.bincount(data.test_y).tolist() == [1000] * 10
    assert abs(float(data.train_x.mean())) < 1e-3
    assert 0.4 < float(data.test_x.std()) < 0.6
