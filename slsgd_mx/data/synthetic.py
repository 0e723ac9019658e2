"""A synthetic stand-in for CIFAR-10: images of ten shapes that need no download.

Each image shows one shape of random position, size, tilt and colours on a mottled background with a
distracting blob and pixel noise.  The class is independent of the colours.  The data is meant to be
learned gradually (a small CNN on 2,000 images reaches a test accuracy of about 0.35 after 3 passes
and 0.8 after 20), not to resemble CIFAR-10; results on it say nothing about CIFAR-10.

Only additions, products, quotients, comparisons and square roots are used.  They round identically
on every processor, so a seed should give the same bytes on every machine; `ImageData.digest` shows
it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from slsgd_mx.data.images import CLASSES, ImageData, prepare
from slsgd_mx.validation import check_between

NOISE = 1.0  # difficulty: scales pixel noise, mottling and blob; 0 draws clean images
MOST_IMAGES = 100_000

SIDE = 24
REACH = 0.6  # largest distance from the centre; 1 reaches the border
BLOCK = 500  # images drawn from one random stream; a multiple of CLASSES


def synthetic_images(train_images: int, test_images: int, seed: int = 0) -> ImageData:
    """Draw a training and a test set of shapes.

    Parameters
    ----------
    train_images, test_images : int
        Numbers of images, 1 to 100,000.  Images 10i to 10i + 9 show each class once.  The first
        images do not depend on how many are drawn.
    seed : int
        Not negative.

    >>> data = synthetic_images(20, 10)
    >>> data.name, data.train_x.shape, sorted(data.test_y)
    ('synthetic', (20, 3, 24, 24), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    train_images = check_between("train_images", train_images, 1, MOST_IMAGES)
    test_images = check_between("test_images", test_images, 1, MOST_IMAGES)
    seed = check_between("seed", seed, 0, 2**63)
    return prepare("synthetic", *draw(train_images, seed, 0), *draw(test_images, seed, 1))


def draw(images: int, seed: int, stream: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels uint8 (images, 3, 24, 24) and labels uint8 (images,) of one stream."""
    # Blocks are always drawn whole, so the first images do not depend on `images`.
    blocks = [_draw_block(seed, stream, number) for number in range(-(-images // BLOCK))]
    pixels, labels = (np.concatenate(parts)[:images] for parts in zip(*blocks))
    return pixels, labels


@lru_cache(maxsize=8)  # 7 MB; all runs of a sweep use the same images
def _draw_block(seed: int, stream: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(np.random.SeedSequence((seed, stream, number)))
    # Each row of ten is a permutation of the classes.
    labels = rng.random((BLOCK // CLASSES, CLASSES)).argsort(axis=1).ravel()
    u, v, size = _coordinates(rng)
    inside = np.empty((BLOCK, SIDE, SIDE), dtype=np.float32)
    for label, distance in enumerate(SHAPES.values()):
        of_class = labels == label
        pixels_outside = distance(u[of_class], v[of_class]) * size[of_class]
        inside[of_class] = np.clip(0.5 - pixels_outside, 0, 1)  # edges are one pixel wide
    canvas = _background(rng)
    canvas += inside[:, None] * _contrast(rng)
    canvas += _uniform(rng, 12, 34, 1, 1, 1) * NOISE * _normal(rng, 3, SIDE, SIDE)
    return np.clip(np.rint(canvas), 0, 255).astype(np.uint8), labels.astype(np.uint8)


def _coordinates(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each image's coordinates, in which the shape spans -1..1, and its half width."""
    size = _uniform(rng, 4.5, 8.5, 1, 1)
    middle = (SIDE - 1) / 2
    reach = (middle - size) * np.float32(REACH)
    grid = np.arange(SIDE, dtype=np.float32)
    x = (grid[None, None, :] - middle - reach * _uniform(rng, -1, 1, 1, 1)) / size
    y = (grid[None, :, None] - middle - reach * _uniform(rng, -1, 1, 1, 1)) / size
    # Rotate by up to 17 degrees, without sine or cosine: the angle is given by its tangent.
    tangent = _uniform(rng, -0.3, 0.3, 1, 1)
    scale = 1 / np.sqrt(1 + tangent * tangent)
    return (x + tangent * y) * scale, (y - tangent * x) * scale, size


def _background(rng: np.random.Generator) -> np.ndarray:
    """Return a mottled background with a blob, float32 (BLOCK, 3, SIDE, SIDE)."""
    canvas = _uniform(rng, 40, 150, 3, 1, 1) + _mottle(rng)
    grid = np.arange(SIDE, dtype=np.float32)
    x = grid[None, None, :] - _uniform(rng, 0, SIDE, 1, 1)
    y = grid[None, :, None] - _uniform(rng, 0, SIDE, 1, 1)
    radius = _uniform(rng, 2, 4.5, 1, 1)
    blob = np.clip(radius + 0.5 - np.sqrt(x * x + y * y), 0, 1)
    canvas += blob[:, None] * (_uniform(rng, -70, 70, 3, 1, 1) * NOISE)
    return canvas


def _mottle(rng: np.random.Generator) -> np.ndarray:
    """Return smooth random patches: a 5 x 5 grid of random values, interpolated to the pixels."""
    coarse = _normal(rng, 3, 5, 5) * (_uniform(rng, 8, 28, 1, 1, 1) * NOISE)
    at = np.arange(SIDE, dtype=np.float32) / np.float32(6)  # 0 .. 3.83: below cell 4
    low = at.astype(int)
    weight = at - low
    rows = coarse[:, :, low] * (1 - weight)[:, None] + coarse[:, :, low + 1] * weight[:, None]
    return rows[..., low] * (1 - weight) + rows[..., low + 1] * weight


def _contrast(rng: np.random.Generator) -> np.ndarray:
    """Return the brighter colour that the shape adds to the background, (BLOCK, 3, 1, 1)."""
    direction = np.abs(_normal(rng, 3, 1, 1))
    length = np.sqrt((direction * direction).sum(axis=1, keepdims=True)) + np.float32(1e-6)
    return direction / length * _uniform(rng, 35, 130, 1, 1, 1)


def _uniform(rng: np.random.Generator, low: float, high: float, *shape: int) -> np.ndarray:
    values = rng.random((BLOCK, *shape), dtype=np.float32)
    return values * np.float32(high - low) + np.float32(low)


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal((BLOCK, *shape), dtype=np.float32)


# Approximate signed distances: negative inside the shape, in units of half the shape's width.


def _box(u: np.ndarray, v: np.ndarray, width: float, height: float) -> np.ndarray:
    return np.maximum(np.abs(u) - np.float32(width), np.abs(v) - np.float32(height))


def _disc(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.sqrt(u * u + v * v) - 1


def _ring(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.abs(_disc(u, v) + np.float32(0.2)) - np.float32(0.2)


def _square(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return _box(u, v, 0.88, 0.88)


def _frame(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.abs(_box(u, v, 0.72, 0.72)) - np.float32(0.2)


def _plus(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.minimum(_box(u, v, 1, 0.26), _box(u, v, 0.26, 1))


def _cross(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    half = np.float32(0.5**0.5)
    return _plus((u + v) * half, (v - u) * half)


def _triangle(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    # sides of slope 2 from the top (0, -1) down to the base v = 0.85
    sides = (2 * np.abs(u) - v - 1) * np.float32(0.2**0.5)
    return np.maximum(sides, v - np.float32(0.85))


def _two_bars(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return _box(u, np.abs(v) - np.float32(0.6), 1, 0.28)


def _half_disc(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.maximum(_disc(u, v + np.float32(0.4)), -v - np.float32(0.4))


def _corner(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    upright = _box(u + np.float32(0.6), v, 0.28, 0.9)
    foot = _box(u, v - np.float32(0.62), 0.88, 0.28)
    return np.minimum(upright, foot)


SHAPES = {  # by label
    "disc": _disc,
    "ring": _ring,
    "square": _square,
    "frame": _frame,
    "plus": _plus,
    "cross": _cross,
    "triangle": _triangle,
    "two bars": _two_bars,
    "half disc": _half_disc,
    "corner": _corner,
}
