"""The synthetic images: repeatable, balanced, and what they are meant to show."""

import numpy as np
import pytest

from slsgd_mx.data import synthetic
from slsgd_mx.data.synthetic import BLOCK, SHAPES, draw, synthetic_images


@pytest.fixture(scope="module")
def drawn():
    """2,500 images of the training stream: pixels and labels."""
    return draw(2500, seed=0, stream=0)


def test_shapes_types_and_seeds():
    one, again, other = (synthetic_images(37, 12, seed=seed) for seed in (3, 3, 4))
    assert one.name == "synthetic"
    assert one.train_x.shape == (37, 3, 24, 24) and one.test_x.shape == (12, 3, 24, 24)
    assert one.train_x.dtype == np.float32 and one.train_x.flags.c_contiguous
    assert one.train_y.dtype == one.test_y.dtype == np.int32
    np.testing.assert_allclose(one.train_x.mean(axis=0), 0, atol=1e-6)
    assert one.digest == again.digest != other.digest
    assert one.train_x.tobytes() == again.train_x.tobytes()
    digest = "97f49adc8f25881e3b62f4907a609581dd5677806c89bd4b18567d6077980b1a"
    assert synthetic_images(1203, 507).digest == digest


@pytest.mark.parametrize("images", [1, 10, 23, BLOCK - 1, BLOCK, BLOCK + 7])
def test_classes_are_balanced_and_first_images_do_not_depend_on_the_number(drawn, images):
    pixels, labels = draw(images, seed=0, stream=0)
    counts = np.bincount(labels, minlength=10)
    assert counts.max() - counts.min() <= 1
    np.testing.assert_array_equal(pixels, drawn[0][:images])
    np.testing.assert_array_equal(labels, drawn[1][:images])


def test_images_differ_and_none_is_constant(drawn):
    pixels, labels = (array[:1000] for array in drawn)
    assert pixels.reshape(1000, -1).std(axis=1).min() > 3
    assert len({image.tobytes() for image in pixels}) == 1000
    test_pixels, _ = draw(1000, seed=0, stream=1)
    assert not {image.tobytes() for image in pixels} & {image.tobytes() for image in test_pixels}
    assert len(SHAPES) == 10
    assert not np.array_equal(labels[:10], labels[10:20])  # shuffled


def test_hue_is_independent_of_the_class(drawn):
    pixels, labels = drawn
    colour = np.diff(pixels.mean(axis=(2, 3)), axis=1)  # green - red, blue - green
    by_class = np.array([colour[labels == label].mean(axis=0) for label in range(10)])
    spread = colour.std(axis=0) / np.sqrt(len(labels) / 10)
    assert np.abs((by_class - colour.mean(axis=0)) / spread).max() < 4.5


def test_shape_is_visible(monkeypatch):
    monkeypatch.setattr(synthetic, "NOISE", 0.0)
    monkeypatch.setattr(synthetic, "_draw_block", synthetic._draw_block.__wrapped__)  # no cache
    pixels, labels = draw(500, seed=1, stream=0)
    background = np.median(pixels, axis=(2, 3), keepdims=True)
    covered = (np.abs(pixels - background).sum(axis=1) > 12).mean(axis=(1, 2))
    assert covered.min() > 0.02
    assert covered.max() < 0.6
    # A disc covers more than a ring, a square more than a frame.
    mean = [covered[labels == label].mean() for label in range(10)]
    assert mean[0] > mean[1]
    assert mean[2] > mean[3]
