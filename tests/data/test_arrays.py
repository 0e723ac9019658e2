"""Arrays of users: what is accepted, and clear errors for what is not."""

import zipfile

import numpy as np
import pytest

from slsgd_mx.data.arrays import NAMES, check_arrays, load_arrays, read_arrays, sizes_in
from slsgd_mx.errors import ConfigError, DataError
from slsgd_mx.tasks.images.sizes import Images

Y = np.arange(12) % 3
GOOD = dict(x_train=np.ones((12, 1, 4, 4)), y_train=Y, x_test=np.ones((3, 1, 4, 4)), y_test=Y[:3])


def save(folder, **arrays):
    np.savez(folder / "my.npz", **arrays)
    return folder / "my.npz"


def with_nan(image):
    x = np.ones((12, 1, 4, 4))
    x[image, 0, 2, 2] = np.nan
    return x


def test_a_file_is_read(tmp_path):
    data = read_arrays(save(tmp_path, **GOOD))
    assert (data.name, data.shape, data.classes) == ("my.npz", (1, 4, 4), 3)
    assert data.train_pixels.dtype == np.float32 and data.train_y.dtype == np.int32
    np.testing.assert_array_equal(data.prepared(data.train_pixels[:2]), np.ones((2, 1, 4, 4)))


def test_bytes_are_prepared_like_the_papers():
    x = np.random.default_rng(0).integers(0, 256, (12, 5, 4), np.uint8)  # greyscale
    data = check_arrays("own", x, Y, x[:3], Y[:3])
    assert data.shape == (1, 5, 4)
    expected = (x[:, None] - x.mean(axis=0)) / 128
    np.testing.assert_allclose(data.train_x, expected, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_digest_covers_every_array(name):
    changed = {key: value.copy() for key, value in GOOD.items()}
    changed[name].reshape(-1)[1] += 1
    if name == "y_test":
        changed[name][1] = 0
    assert check_arrays("a", **changed).digest != check_arrays("a", **GOOD).digest
    assert check_arrays("a", **GOOD).digest == check_arrays("b", **GOOD).digest


@pytest.mark.parametrize(
    "changes, said",
    [
        (
            dict(x_train=np.ones((12, 1, 4, 5))),
            r"float32 \(1, 4, 5\) and x_test float32 \(1, 4, 4\)",
        ),
        (dict(x_train=np.ones((12, 1, 4, 4), np.uint8)), "needs images of one type and shape"),
        (dict(x_train=np.ones((12, 1, 4, 4), int)), "x_train is of type int64: needs uint8"),
        (dict(x_train=np.ones(12)), r"x_train has shape \(12,\): needs \(N, ...\)"),
        (dict(x_test=np.ones((0, 1, 4, 4))), r"x_test has shape \(0, 1, 4, 4\)"),
        (dict(x_train=with_nan(7)), "NaN or an infinity in 1 of 12 images, first in image 7"),
        (dict(y_train=Y[:5]), r"y_train has shape \(5,\): needs \(12,\), a label for each image"),
        (dict(y_train=Y[:, None]), r"y_train has shape \(12, 1\)"),
        (dict(y_train=Y.astype(float)), "y_train is of type float64: needs integers"),
        (dict(y_train=Y - 1), r"y_train holds label -1 \(sample 0\): needs labels >= 0"),
        (dict(y_test=np.array([0, 1, 3])), r"y_test holds label 3 \(sample 2\).*y_train holds lab"),
        (
            dict(y_train=Y.astype(np.int64) + 2**40),
            r"y_train holds label 1099511627778 \(sample 2\): needs labels 0 to 99999",
        ),
        (dict(y_train=Y * 0, y_test=Y[:3] * 0), "one label only: needs at least 2 classes"),
        (dict(classes=2), r"y_train holds label 2 \(sample 2\).*classes=2 means labels 0 to 1"),
    ],
)
def test_wrong_arrays_are_refused(changes, said):
    with pytest.raises(ConfigError, match=said):
        check_arrays("own", **{**GOOD, **changes})


def test_wrong_files_are_refused(tmp_path):
    with pytest.raises(
        ConfigError, match="lacks y_test: needs .*, and it holds x_train, y_train, "
    ):
        read_arrays(save(tmp_path, **{key: GOOD[key] for key in NAMES[:3]}))
    np.save(tmp_path / "one.npy", Y)
    objects = {**GOOD, "y_train": np.array([{}] * 12, object)}
    (tmp_path / "text.npz").write_text("not arrays")
    truncated = save(tmp_path, **GOOD).read_bytes()[:-30]
    (tmp_path / "cut.npz").write_bytes(truncated)
    for path in (tmp_path / "text.npz", tmp_path / "one.npy", tmp_path / "cut.npz", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read as arrays|lacks x_train"):
            read_arrays(path)
    with pytest.raises(ConfigError, match="it holds Python objects"):
        read_arrays(save(tmp_path, **objects))


def test_a_damaged_compressed_file_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "my.npz", **GOOD)
    raw = (tmp_path / "my.npz").read_bytes()
    refused = 0
    for place in range(len(raw)):
        damaged = bytes(byte ^ 0xFF * (i == place) for i, byte in enumerate(raw))
        (tmp_path / "my.npz").write_bytes(damaged)
        try:
            read_arrays(tmp_path / "my.npz")  # not every byte matters, such as those of times
        except ConfigError:
            refused += 1
    assert refused > len(raw) / 2


def test_a_header_that_is_no_python_is_refused(tmp_path):
    header = b"{'descr': ((("
    with zipfile.ZipFile(tmp_path / "my.npz", "w") as file:
        file.writestr("x_train.npy", b"\x93NUMPY\x01\x00" + bytes([len(header), 0]) + header)
    with pytest.raises(ConfigError, match="cannot be read as arrays"):
        read_arrays(tmp_path / "my.npz")


def test_an_array_of_false_shape_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "my.npz", "w") as file, file.open("x_train.npy", "w") as out:
        header = dict(descr="<f8", fortran_order=False, shape=(10**13, 4, 4))
        np.lib.format.write_array_header_1_0(out, header)
    with pytest.raises(ConfigError, match="cannot be read as arrays .Unable to allocate"):
        read_arrays(tmp_path / "my.npz")


def test_the_arrays_of_a_run_must_be_the_same(tmp_path):
    path = save(tmp_path, **GOOD)
    sizes = Images(data="my.npz", sha256=read_arrays(path).digest, shape=(1, 4, 4), classes=3)
    assert load_arrays(sizes, path).digest == sizes.sha256
    with pytest.raises(DataError, match="needs the arrays of my.npz: give --arrays FILE.npz"):
        load_arrays(sizes, None)
    with pytest.raises(DataError, match="holds other arrays than this run's"):
        load_arrays(sizes, save(tmp_path, **{**GOOD, "y_test": Y[1:4]}))


def test_labels_that_no_image_has_are_mentioned(tmp_path, capsys):
    sizes_in(save(tmp_path, **GOOD))
    assert capsys.readouterr().err == ""
    sizes_in(save(tmp_path, **{**GOOD, "y_train": Y + 1, "y_test": Y[:3] + 1}))
    assert "no training image has label 0: do labels start at 1?" in capsys.readouterr().err
