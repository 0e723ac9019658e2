"""A synthetic stand-in for WikiText-2: an artificial language that needs no download.

Word frequencies are roughly ``1 / (rank + 3)``, which is Zipf's law except for the first few.  The
next token is

- the end of the sentence, with probability 1/16 and never twice in a row;
- otherwise, with probability 0.5, one of the four usual followers of the last word;
- with probability 0.4, a word of the current topic, one of five; the topic is redrawn at two of
  five sentence ends, so it lasts about 40 tokens;
- with probability 0.1, any word.

So there are dependencies at every distance.  Perplexities at 200 types and seed 0: 200 for a
uniform guess, 77 with the word frequencies, 32 with the last word too, 22 with the language and the
inferred topic.  Results on it say nothing about WikiText-2.

Only additions, products, quotients and comparisons are used.  They round identically on every
processor, so a seed should give the same ids on every machine; `TextData.digest` shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slsgd_mx.data.text import EOS, TextData, prepare_text
from slsgd_mx.validation import check_between

MOST_TOKENS = 10_000_000
LEAST_TYPES, MOST_TYPES = 20, 100_000

TOPICS = 5
FOLLOWERS = 4  # usual followers of a word
END = 1 / 16  # probability that a sentence ends here
FOLLOW = 0.5  # probability of a follower
TOPICAL = 0.4  # probability of a word of the topic; otherwise any word
CHANGE = 0.4  # probability that the topic is redrawn at the end of a sentence

ARTICLES, LENGTH = 64, 500  # texts drawn together from one random stream, and tokens of each
TRAIN, TEST, LANGUAGE = 0, 1, 2  # numbers of the random streams


@dataclass(frozen=True, eq=False)
class Language:
    """The distribution of the words, drawn by `make_language`."""

    words: np.ndarray  # ids of all types except <eos>, the most frequent first, (W,)
    any_cdf: np.ndarray  # cumulative frequencies of `words`, (W,)
    followers: np.ndarray  # usual ones of each id, likely ones first, (vocab_size, FOLLOWERS)
    topic_words: np.ndarray  # `words` ordered by topic, (W,)
    topic_cdf: np.ndarray  # z + cumulative frequencies of the words of topic z, ascending, (W,)
    topic_stop: np.ndarray  # end of each topic in these two, (TOPICS,)


def synthetic_text(train_tokens: int, test_tokens: int, vocab_size: int, seed: int = 0) -> TextData:
    """Draw a training and a test text in one artificial language.

    Parameters
    ----------
    train_tokens, test_tokens : int
        Numbers of tokens, 1 to 10,000,000.  The first tokens do not depend on how many are drawn.
    vocab_size : int
        Number of types, 20 to 100,000: ``<unk>`` (0, an ordinary word here), ``<eos>`` (1), and
        words, roughly the most frequent first.
    seed : int
        Not negative; it determines the language too.

    >>> data = synthetic_text(1000, 300, vocab_size=50)
    >>> data.name, data.train.shape, data.test.shape, int(data.train.max()) < 50
    ('synthetic', (1000,), (300,), True)
    """
    train_tokens = check_between("train_tokens", train_tokens, 1, MOST_TOKENS)
    test_tokens = check_between("test_tokens", test_tokens, 1, MOST_TOKENS)
    vocab_size = check_between("vocab_size", vocab_size, LEAST_TYPES, MOST_TYPES)
    seed = check_between("seed", seed, 0, 2**63)
    language = make_language(vocab_size, seed)
    train = draw_text(language, train_tokens, seed, TRAIN)
    test = draw_text(language, test_tokens, seed, TEST)
    return prepare_text("synthetic", train, test, vocab_size, train_tokens)


def make_language(vocab_size: int, seed: int) -> Language:
    """Draw the topic and the usual followers of each word."""
    rng = _rng(seed, LANGUAGE, 0)
    words = np.delete(np.arange(vocab_size), EOS)
    weights = 1 / (np.arange(len(words)) + 3.0)
    any_cdf = _cdf(weights)
    drawn = rng.random((vocab_size, FOLLOWERS))
    followers = words[np.searchsorted(any_cdf, drawn, side="right")]
    # Each topic gets one of every TOPICS words of consecutive rank, so topics are equally frequent.
    rounds = -(-len(words) // TOPICS)
    topic_of = rng.random((rounds, TOPICS)).argsort(axis=1).ravel()[: len(words)]
    by_topic = topic_of.argsort(kind="stable")  # ranks ordered by topic
    stop = np.searchsorted(topic_of[by_topic], np.arange(TOPICS), side="right")
    start = np.concatenate([[0], stop[:-1]])
    parts = [z + _cdf(weights[by_topic[start[z] : stop[z]]]) for z in range(TOPICS)]
    return Language(words, any_cdf, followers, words[by_topic], np.concatenate(parts), stop)


def draw_text(language: Language, tokens: int, seed: int, stream: int) -> np.ndarray:
    """Return the first `tokens` ids of one stream of text, int32 (tokens,)."""
    # Blocks are always drawn whole, so the first ids do not depend on `tokens`.
    count = -(-tokens // (ARTICLES * LENGTH))
    blocks = [_draw_block(language, _rng(seed, stream, i)).ravel() for i in range(count)]
    return np.concatenate(blocks)[:tokens]


def _draw_block(language: Language, rng: np.random.Generator) -> np.ndarray:
    """Draw independent texts, int32 (ARTICLES, LENGTH)."""
    out = np.empty((ARTICLES, LENGTH), dtype=np.int32)
    choice, turn, new_topic, which = rng.random((4, LENGTH, ARTICLES))
    new_topic = (new_topic * TOPICS).astype(np.int64)
    # The followers have the weights 1, 1/2, 1/3, ...
    follower = np.searchsorted(_cdf(1 / (np.arange(FOLLOWERS) + 1.0)), which, side="right")
    anything = language.words[np.searchsorted(language.any_cdf, which, side="right")]
    last = np.full(ARTICLES, EOS)
    topic = new_topic[0]
    for t in range(LENGTH):
        started = last == EOS
        topic = np.where(started & (turn[t] < CHANGE), new_topic[t], topic)
        at = np.searchsorted(language.topic_cdf, topic + which[t], side="right")
        # The minimum is needed because topic + which may round up to the next topic.
        word = language.topic_words[np.minimum(at, language.topic_stop[topic] - 1)]
        word = np.where(choice[t] < FOLLOW + TOPICAL, word, anything[t])
        word = np.where(choice[t] < FOLLOW, language.followers[last, follower[t]], word)
        last = np.where(~started & (turn[t] >= 1 - END), EOS, word)
        out[:, t] = last
    return out


def _cdf(weights: np.ndarray) -> np.ndarray:
    total = np.cumsum(weights)
    return total / total[-1]


def _rng(seed: int, stream: int, block: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence((seed, stream, block)))
