"""A stand-in for WikiText-2: a made-up language, drawn from a seed, that needs no download.

Words are roughly as frequent as ``1 / (rank + 3)``, Zipf's law but for the first few. The next word
is

- the end of the sentence, one time in 16, never twice in a row;
- else, five times in ten, one of the four words that like to follow the last one;
- four times in ten a word of the topic, of which there are five; the topic is drawn anew at two of
  five sentence ends, so it lasts some 40 tokens;
- else any word.

So there is something to learn at every distance. Perplexities at 200 types and seed 0: 200 for a
uniform guess, 77 for who knows the words' frequencies, 32 for who knows the last word too, 22 for
who knows the language and works out the topic. It is not English; results on it are no results on
WikiText-2.

Only additions, products, quotients and comparisons are used, which round alike on every
processor, so that a seed should give the same ids elsewhere; `TextData.digest` tells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slsgd_mx.data.text import EOS, TextData, prepare_text
from slsgd_mx.validation import check_between, check_seed

MOST_TOKENS = 10_000_000
LEAST_TYPES, MOST_TYPES = 20, 100_000

TOPICS = 5
FOLLOWERS = 4  # words that like to follow a word
END = 1 / 16  # chance that a sentence ends here
FOLLOW = 0.5  # chance of a follower
TOPICAL = 0.4  # chance of a word of the topic; what is left is for any word
CHANGE = 0.4  # chance that the topic changes where a sentence ends

ARTICLES, LENGTH = 64, 500  # drawn side by side from one random stream, and tokens of each
TRAIN, TEST, LANGUAGE = 0, 1, 2  # which stream


@dataclass(frozen=True, eq=False)
class Language:
    """The chances of words, made by `make_language`.

    Attributes
    ----------
    words : numpy.ndarray
        Ids of all types but ``<eos>``, the frequent first, (W,).
    any_cdf : numpy.ndarray
        Cumulative frequencies of `words`, (W,).
    followers : numpy.ndarray
        Ids that like to follow an id, the likely first, (vocab_size, FOLLOWERS).
    topic_words : numpy.ndarray
        `words` again, the first topic's first, (W,).
    topic_cdf : numpy.ndarray
        ``z + cumulative frequencies`` of topic z's words, so one ascending array, (W,).
    topic_stop : numpy.ndarray
        Where each topic ends in these, (TOPICS,).
    """

    words: np.ndarray
    any_cdf: np.ndarray
    followers: np.ndarray
    topic_words: np.ndarray
    topic_cdf: np.ndarray
    topic_stop: np.ndarray


def synthetic_text(train_tokens: int, test_tokens: int, vocab_size: int, seed: int = 0) -> TextData:
    """Draw a training and a test text in one made-up language.

    Parameters
    ----------
    train_tokens, test_tokens : int
        How many, 1 to 10,000,000. The first tokens are the same however many are asked for.
    vocab_size : int
        Types, 20 to 100,000: ``<unk>`` (0, a word like others), ``<eos>`` (1), and words, roughly
        the frequent first.
    seed : int
        Not negative; another seed is another language.

    Raises
    ------
    ConfigError
        If a number is out of range.

    Examples
    --------
    >>> data = synthetic_text(1000, 300, vocab_size=50)
    >>> data.name, data.train.shape, data.test.shape, int(data.train.max()) < 50
    ('synthetic', (1000,), (300,), True)
    """
    train_tokens = check_between("train_tokens", train_tokens, 1, MOST_TOKENS)
    test_tokens = check_between("test_tokens", test_tokens, 1, MOST_TOKENS)
    vocab_size = check_between("vocab_size", vocab_size, LEAST_TYPES, MOST_TYPES)
    seed = check_seed(seed)
    language = make_language(vocab_size, seed)
    train = draw_text(language, train_tokens, seed, TRAIN)
    test = draw_text(language, test_tokens, seed, TEST)
    return prepare_text("synthetic", train, train[:0], test, vocab_size)


def make_language(vocab_size: int, seed: int) -> Language:
    """Draw which words belong to which topic and which follow which."""
    rng = _rng(seed, LANGUAGE, 0)
    words = np.delete(np.arange(vocab_size), EOS)
    weights = 1 / (np.arange(len(words)) + 3.0)
    any_cdf = _cdf(weights)
    drawn = rng.random((vocab_size, FOLLOWERS))
    followers = words[np.searchsorted(any_cdf, drawn, side="right")]
    # of any TOPICS words next to each other in rank each topic gets one: topics weigh the same
    rounds = -(-len(words) // TOPICS)
    topic_of = rng.random((rounds, TOPICS)).argsort(axis=1).ravel()[: len(words)]
    by_topic = topic_of.argsort(kind="stable")  # ranks, the first topic's first
    stop = np.searchsorted(topic_of[by_topic], np.arange(TOPICS), side="right")
    start = np.concatenate([[0], stop[:-1]])
    parts = [z + _cdf(weights[by_topic[start[z] : stop[z]]]) for z in range(TOPICS)]
    return Language(words, any_cdf, followers, words[by_topic], np.concatenate(parts), stop)


def draw_text(language: Language, tokens: int, seed: int, stream: int) -> np.ndarray:
    """The first `tokens` ids of one stream of text, int32 (tokens,)."""
    block = ARTICLES * LENGTH
    # a whole block is drawn even if part is wanted: what comes first never depends on `tokens`
    blocks = [
        _draw_block(language, _rng(seed, stream, i)).ravel() for i in range(-(-tokens // block))
    ]
    return np.concatenate(blocks)[:tokens]


def _draw_block(language: Language, rng: np.random.Generator) -> np.ndarray:
    """ARTICLES texts that know nothing of each other, int32 (ARTICLES, LENGTH)."""
    out = np.empty((ARTICLES, LENGTH), dtype=np.int32)
    choice, turn, new_topic, which = rng.random((4, LENGTH, ARTICLES))
    new_topic = (new_topic * TOPICS).astype(np.int64)
    # a follower with weights 1, 1/2, 1/3, ... in order
    follower = np.searchsorted(_cdf(1 / (np.arange(FOLLOWERS) + 1.0)), which, side="right")
    anything = language.words[np.searchsorted(language.any_cdf, which, side="right")]
    last = np.full(ARTICLES, EOS)
    topic = new_topic[0]
    for t in range(LENGTH):
        started = last == EOS
        topic = np.where(started & (turn[t] < CHANGE), new_topic[t], topic)
        at = np.searchsorted(language.topic_cdf, topic + which[t], side="right")
        # topic + which may round up to the next topic
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
