"""The synthetic text: repeatable, and with dependencies at every distance."""

from functools import lru_cache

import numpy as np
import pytest

from slsgd_mx.data.synthetic_text import (
    ARTICLES,
    LENGTH,
    TEST,
    TRAIN,
    draw_text,
    make_language,
    synthetic_text,
)
from slsgd_mx.data.text import EOS

BLOCK = ARTICLES * LENGTH


@lru_cache(maxsize=None)
def train_text(vocab_size):
    """192,000 tokens of the training stream."""
    return draw_text(make_language(vocab_size, seed=0), 6 * BLOCK, seed=0, stream=TRAIN)


def entropy(ids):
    counts = np.bincount(ids)
    p = counts[counts > 0] / len(ids)
    return float(-(p * np.log(p)).sum())


def test_sizes_types_and_seeds():
    one, again, other = (synthetic_text(5000, 700, 60, seed=seed) for seed in (3, 3, 4))
    assert one.name == "synthetic"
    assert (len(one.train), len(one.test), one.vocab_size) == (5000, 700, 60)
    assert one.train_tokens == 5000
    assert one.train.dtype == one.test.dtype == np.int32
    assert one.train.tobytes() == again.train.tobytes()
    assert one.test.tobytes() == again.test.tobytes()
    assert one.digest == again.digest != other.digest
    assert one.train[:700].tobytes() != one.test.tobytes()
    digest = "f864310d650f4b96e567bad24e743c02bf40f2d1c0f6c105902b54de8313f4b1"
    assert synthetic_text(40_000, 5000, 200).digest == digest


@pytest.mark.parametrize("tokens", [1, 499, BLOCK, BLOCK + 1])
def test_first_tokens_do_not_depend_on_the_number(tokens):
    some = draw_text(make_language(50, seed=0), tokens, seed=0, stream=TRAIN)
    np.testing.assert_array_equal(some, train_text(50)[:tokens])
    assert some.shape == (tokens,)


@pytest.mark.parametrize("vocab_size", [200, 1000])
def test_frequencies_are_similar_to_zipfs_law(vocab_size):
    train = train_text(vocab_size)
    counts = np.bincount(train, minlength=vocab_size)
    assert counts.min() > 0
    ranks, ordered = np.log(np.arange(1, 101)), np.log(np.sort(counts)[::-1][:100])
    assert -1.3 < np.polyfit(ranks, ordered, 1)[0] < -0.7
    assert np.corrcoef(ranks, ordered)[0, 1] < -0.97
    assert entropy(train) < np.log(vocab_size / 2)  # perplexity below half the vocabulary


def test_a_word_depends_on_the_previous_one():
    train = train_text(200).astype(np.int64)
    unigram = entropy(train)
    assert np.exp(entropy(train[:-1] * 200 + train[1:]) - unigram) < 0.5 * np.exp(unigram)


def test_a_word_depends_on_distant_ones():
    """Word t has information about word t+8, beyond what followers explain, but not about t+300."""
    train = train_text(50).astype(np.int64)

    def information(distance):
        a, b = train[:-distance], train[distance:]
        return entropy(a) + entropy(b) - entropy(a * 50 + b)

    assert information(8) > 3 * information(300)


def test_sentences():
    train = train_text(200)
    ends = np.flatnonzero(train == EOS)
    assert np.diff(ends).min() > 1  # no empty sentence
    assert 14 < np.diff(ends).mean() < 20
    test = draw_text(make_language(200, seed=0), BLOCK, seed=0, stream=TEST)
    assert abs((test == EOS).mean() - (train == EOS).mean()) < 0.005
