"""The made-up text."""

from __future__ import annotations

import numpy as np
import pytest

from slsgd_mx.data import synthetic_text
from slsgd_mx.data.synthetic_text import ARTICLES, LENGTH, TEST, TRAIN, draw_text, make_language
from slsgd_mx.data.text import EOS
from slsgd_mx.errors import ConfigError


def entropy(counts):
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log(p)).sum())


def test_synthetic_shapes_and_repeatable():
    one, again, other = (synthetic_text(5000, 700, 60, seed=seed) for seed in (3, 3, 4))
    assert one.name == "synthetic"
    assert (len(one.train), len(one.test), one.vocab_size) == (5000, 700, 60)
    assert one.train_tokens == 5000
    assert one.train.dtype == one.test.dtype == np.int32
    assert one.train.tobytes() == again.train.tobytes()
    assert one.test.tobytes() == again.test.tobytes()
    assert one.digest == again.digest != other.digest
    assert one.train[:700].tobytes() != one.test.tobytes()


def test_synthetic_bytes_are_these():
    digest = "f864310d650f4b96e567bad24e743c02bf40f2d1c0f6c105902b54de8313f4b1"
    assert synthetic_text(40_000, 5000, 200).digest == digest


@pytest.mark.parametrize("tokens", [1, 499, ARTICLES * LENGTH, ARTICLES * LENGTH + 1])
def test_synthetic_first_tokens_do_not_depend_on_how_many(tokens):
    language = make_language(50, seed=0)
    some = draw_text(language, tokens, seed=0, stream=TRAIN)
    more = draw_text(language, tokens + ARTICLES * LENGTH, seed=0, stream=TRAIN)
    np.testing.assert_array_equal(some, more[:tokens])
    assert some.shape == (tokens,)


@pytest.mark.parametrize("vocab_size", [200, 1000])
def test_synthetic_is_zipf_like(vocab_size):
    data = synthetic_text(200_000, 1000, vocab_size)
    counts = np.bincount(data.train, minlength=vocab_size)
    assert counts.min() > 0
    ranks, ordered = np.log(np.arange(1, 101)), np.log(np.sort(counts)[::-1][:100])
    assert -1.3 < np.polyfit(ranks, ordered, 1)[0] < -0.7
    assert np.corrcoef(ranks, ordered)[0, 1] < -0.97
    assert entropy(counts) < np.log(vocab_size / 2)  # perplexity below half the vocabulary's size


def test_synthetic_words_depend_on_the_last_one():
    train = synthetic_text(300_000, 1000, 200).train
    unigram = entropy(np.bincount(train))
    pairs = np.bincount(train[:-1].astype(np.int64) * 200 + train[1:])
    assert np.exp(entropy(pairs) - unigram) < 0.5 * np.exp(unigram)


def test_synthetic_words_depend_on_words_further_back():
    """Word t says something about word t+8, which lies beyond what followers explain; t+300 not."""
    train = synthetic_text(300_000, 1000, 50).train

    def information(distance):
        a, b = train[:-distance].astype(np.int64), train[distance:]
        return entropy(np.bincount(a)) + entropy(np.bincount(b)) - entropy(np.bincount(a * 50 + b))

    assert information(8) > 3 * information(300)


def test_synthetic_sentences():
    train = synthetic_text(100_000, 1000, 200).train
    ends = np.flatnonzero(train == EOS)
    assert np.diff(ends).min() > 1  # no empty sentence
    assert 14 < np.diff(ends).mean() < 20
    test = draw_text(make_language(200, seed=0), 50_000, seed=0, stream=TEST)
    assert abs((test == EOS).mean() - (train == EOS).mean()) < 0.005


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 10, 50), "1 <= train_tokens <= 10000000"),
        ((10, 10_000_001, 50), "1 <= test_tokens <= 10000000"),
        ((10, 10, 19), "20 <= vocab_size <= 100000"),
        ((10, 10, 50.0), "vocab_size=50.0 is out of range"),
        ((10, 10, 50, -1), "seed=-1 is out of range"),
        ((10, 10, 50, 1.5), "seed=1.5 is out of range"),
    ],
)
def test_synthetic_out_of_range(arguments, message):
    with pytest.raises(ConfigError, match=message):
        synthetic_text(*arguments)
