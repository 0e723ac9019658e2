"""The drawn stand-in: repeatable, balanced, no image empty."""

from __future__ import annotations

import numpy as np
import pytest

from slsgd_mx.data import synthetic_images
from slsgd_mx.data.synthetic import BLOCK, SHAPES, draw
from slsgd_mx.errors import ConfigError


def test_shapes_and_types():
    data = synthetic_images(37, 12)
    assert data.name == "synthetic"
    assert data.train_x.shape == (37, 3, 24, 24)
    assert data.test_x.shape == (12, 3, 24, 24)
    assert data.train_x.dtype == np.float32
    assert data.train_x.flags.c_contiguous
    assert data.train_y.dtype == data.test_y.dtype == np.int32
    np.testing.assert_allclose(data.train_x.mean(axis=0), 0, atol=1e-6)


def test_repeatable_and_seeded():
    one, again, other = (synthetic_images(30, 10, seed=seed) for seed in (3, 3, 4))
    assert one.digest == again.digest != other.digest
    assert one.train_x.tobytes() == again.train_x.tobytes()


@pytest.mark.parametrize("images", [1, 10, 23, BLOCK - 1, BLOCK, BLOCK + 7])
def test_balanced_and_first_images_do_not_depend_on_how_many(images):
    pixels, labels = draw(images, seed=0, stream=0)
    counts = np.bincount(labels, minlength=10)
    assert counts.max() - counts.min() <= 1
    more_pixels, more_labels = draw(images + BLOCK, seed=0, stream=0)
    np.testing.assert_array_equal(pixels, more_pixels[:images])
    np.testing.assert_array_equal(labels, more_labels[:images])


def test_images_differ_and_none_is_constant():
    pixels, labels = draw(1000, seed=0, stream=0)
    assert pixels.reshape(1000, -1).std(axis=1).min() > 3
    assert len({image.tobytes() for image in pixels}) == 1000
    test_pixels, _ = draw(1000, seed=0, stream=1)
    assert not {image.tobytes() for image in pixels} & {image.tobytes() for image in test_pixels}
    assert len(SHAPES) == 10
    assert not np.array_equal(labels[:10], labels[10:20])  # shuffled


def test_hue_says_nothing_about_the_class():
    pixels, labels = draw(5000, seed=0, stream=0)
    colour = np.diff(pixels.mean(axis=(2, 3)), axis=1)  # green - red, blue - green
    by_class = np.array([colour[labels == label].mean(axis=0) for label in range(10)])
    spread = colour.std(axis=0) / np.sqrt(500)
    assert np.abs((by_class - colour.mean(axis=0)) / spread).max() < 4.5


def test_shape_is_in_the_picture(monkeypatch):
    monkeypatch.setattr("slsgd_mx.data.synthetic.NOISE", 0.0)
    pixels, labels = draw(500, seed=1, stream=0)
    background = np.median(pixels, axis=(2, 3), keepdims=True)
    covered = (np.abs(pixels - background).sum(axis=1) > 12).mean(axis=(1, 2))
    assert covered.min() > 0.02
    assert covered.max() < 0.6
    # a disc covers more than a ring, a square more than a frame
    mean = [covered[labels == label].mean() for label in range(10)]
    assert mean[0] > mean[1]
    assert mean[2] > mean[3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 10), "1 <= train_images <= 100000"),
        ((10, 100_001), "1 <= test_images <= 100000"),
        ((10, 10, -1), "seed=-1 is out of range"),
        ((10, 10, 1.5), "seed=1.5 is out of range"),
    ],
)
def test_out_of_range(arguments, message):
    with pytest.raises(ConfigError, match=message):
        synthetic_images(*arguments)
