"""Text as token ids, cut into consecutive batches for the language model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import List, Optional, Tuple

import numpy as np

from slsgd_mx.data.reading import check_range
from slsgd_mx.errors import ConfigError, DataError
from slsgd_mx.validation import check_between

UNK, EOS = 0, 1  # ids of <unk> and <eos>, as GluonNLP's Vocab numbers them

Batches = Tuple[np.ndarray, np.ndarray]  # data and target, int32 (steps, bptt, batch_size) each


@dataclass(frozen=True, eq=False)
class TextData:
    """A training and a test text as int32 token ids."""

    name: str  # "wikitext2" or "synthetic"
    train: np.ndarray  # (N,): the training text, then the validation text, as in the released code
    test: np.ndarray  # (M,)
    vocab_size: int  # number of types, including <unk> and <eos>; every id is below it
    train_tokens: int  # length of the training text in `train`
    digest: str  # SHA-256 of the ids and the vocabulary size


def prepare_text(
    name: str, train: np.ndarray, test: np.ndarray, vocab_size: int, train_tokens: int
) -> TextData:
    """Check the ids, integers in ``0..vocab_size - 1``, and return them as `TextData`."""
    for part, ids in (("training", train), ("test", test)):
        what = f"{name} {part} text"
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise DataError(f"{what}: ids are {ids.dtype} {ids.shape}, expected integers (N,)")
        check_range(what, "id", ids, "token", vocab_size)
    train, test = (ids.astype(np.int32, copy=False) for ids in (train, test))
    sha = hashlib.sha256(f"vocabulary {vocab_size}".encode())
    for ids in (train, test):  # as little-endian bytes, each after its length
        sha.update(repr(ids.shape).encode())
        sha.update(np.ascontiguousarray(ids, dtype="<i4"))
    return TextData(name, train, test, int(vocab_size), train_tokens, sha.hexdigest())


def batchify_text(ids: np.ndarray, batch_size: int, bptt: int) -> Batches:
    """Cut a text into `batch_size` sequences and these into steps of `bptt` tokens.

    The same as GluonNLP's ``CorpusBPTTBatchify(vocab, bptt, batch_size, last_batch="discard")``
    on ids: sequence j is the j-th of `batch_size` equal parts of the text, and each step continues
    where the previous one ended, so that a hidden state can be carried over.  Tokens that do not
    fill a sequence or a step are dropped.

    Parameters
    ----------
    ids : numpy.ndarray
        Token ids, (N,), with ``N >= batch_size * (bptt + 1)``.
    batch_size, bptt : int
        Number of sequences, and tokens of each in a step; 20 and 35 for the paper's LSTM.

    Returns
    -------
    data, target : numpy.ndarray
        int32, C-contiguous, (steps, bptt, batch_size), with
        ``steps = (N // batch_size - 1) // bptt``.  The target is the next token.

    >>> data, target = batchify_text(np.arange(11), batch_size=2, bptt=2)
    >>> data.tolist()
    [[[0, 5], [1, 6]], [[2, 7], [3, 8]]]
    >>> target.tolist()
    [[[1, 6], [2, 7]], [[3, 8], [4, 9]]]
    """
    batch_size = check_between("batch_size", batch_size, 1, len(ids))
    bptt = check_between("bptt", bptt, 1, len(ids))
    length = len(ids) // batch_size
    steps = (length - 1) // bptt
    if steps < 1:
        raise ConfigError(
            f"{len(ids)} tokens are too few for batch_size={batch_size} and bptt={bptt}: "
            f"needs at least batch_size * (bptt + 1) = {batch_size * (bptt + 1)}"
        )
    sequences = np.asarray(ids)[: length * batch_size].reshape(batch_size, length)
    return _steps(sequences[:, :-1], steps, bptt), _steps(sequences[:, 1:], steps, bptt)


def deal_batches(
    batches: Batches, n: int, each: int, rng: Optional[np.random.Generator] = None
) -> List[Batches]:
    """Give each of `n` devices `each` batches; the remaining batches are not used.

    Parameters
    ----------
    batches : data, target
        At least ``n * each`` batches from `batchify_text`.
    rng : numpy.random.Generator, optional
        If given, the batches are shuffled first.  The released code does this, so its devices
        carry the hidden state from one piece of text to an unrelated one.  Otherwise device i gets
        the i-th run of consecutive batches.

    Returns
    -------
    list of (data, target)
        For each device int32 arrays (each, bptt, batch_size).

    >>> shares = deal_batches(batchify_text(np.arange(11), batch_size=2, bptt=2), n=2, each=1)
    >>> [data.tolist() for data, target in shares]
    [[[[0, 5], [1, 6]]], [[[2, 7], [3, 8]]]]
    """
    data, target = batches
    check_between("n * each", n * each, 1, len(data))
    order = np.arange(len(data)) if rng is None else rng.permutation(len(data))
    runs = [order[i * each : (i + 1) * each] for i in range(n)]
    return [(data[run], target[run]) for run in runs]


def _steps(sequences: np.ndarray, steps: int, bptt: int) -> np.ndarray:
    """Cut (batch_size, length) into (steps, bptt, batch_size); the rest is dropped."""
    cut = sequences[:, : steps * bptt].reshape(len(sequences), steps, bptt)
    return np.ascontiguousarray(cut.transpose(1, 2, 0), dtype=np.int32)
