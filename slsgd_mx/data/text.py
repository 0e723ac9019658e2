"""Text as the language model sees it: token ids, cut into batches that carry on from each other."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import List, Optional, Tuple

import numpy as np

from slsgd_mx.errors import ConfigError, DataError
from slsgd_mx.validation import check_between

UNK, EOS = 0, 1  # ids of <unk> and <eos>, as GluonNLP's Vocab numbers them

Batches = Tuple[np.ndarray, np.ndarray]  # data and target, int32 (steps, bptt, batch_size) each


@dataclass(frozen=True, eq=False)
class TextData:
    """A training and a test text as token ids.

    Attributes
    ----------
    name : str
        ``"wikitext2"`` or ``"synthetic"``.
    train : numpy.ndarray
        int32 ids, (N,): the training text, then the validation text, which the paper's released
        code folds in.
    test : numpy.ndarray
        int32 ids, (M,).
    vocab_size : int
        Number of types, ``<unk>`` (0) and ``<eos>`` (1) among them; every id is below it.
    train_tokens : int
        How many of `train` come from the training text alone.
    digest : str
        SHA-256 over the ids and the vocabulary size.
    """

    name: str
    train: np.ndarray
    test: np.ndarray
    vocab_size: int
    train_tokens: int
    digest: str


def prepare_text(
    name: str, train: np.ndarray, validation: np.ndarray, test: np.ndarray, vocab_size: int
) -> TextData:
    """Put ids together as `TextData`, the validation text after the training text.

    Raises
    ------
    DataError
        If the ids are not integers in ``0..vocab_size - 1``.
    """
    for part, ids in (("training", train), ("validation", validation), ("test", test)):
        _check_ids(f"{name} {part} text", ids, vocab_size)
    joined = np.concatenate([train, validation]).astype(np.int32)
    test = np.array(test, dtype=np.int32)
    digest = _digest(joined, test, vocab_size)
    return TextData(name, joined, test, int(vocab_size), len(train), digest)


def batchify_text(ids: np.ndarray, batch_size: int, bptt: int) -> Batches:
    """Cut a text into `batch_size` sequences and these into steps of `bptt` tokens.

    What GluonNLP's ``CorpusBPTTBatchify(vocab, bptt, batch_size, last_batch="discard")`` does, on
    ids: sequence j is the j-th of `batch_size` equal stretches of the text, and each step goes on
    where the one before it ended, so a hidden state can be carried along. What does not fill a
    sequence, and then a step, is left out.

    Parameters
    ----------
    ids : numpy.ndarray
        Token ids, (N,), at least ``batch_size * (bptt + 1)`` of them.
    batch_size, bptt : int
        Sequences side by side, and tokens of each in a step; the paper's LSTM has 20 and 35.

    Returns
    -------
    data, target : numpy.ndarray
        int32, C-contiguous, (steps, bptt, batch_size), with
        ``steps = (N // batch_size - 1) // bptt``. The target is the token that follows.

    Raises
    ------
    ConfigError
        If a number is out of range or the text too short for one step.

    Examples
    --------
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
            f"it needs at least batch_size * (bptt + 1) = {batch_size * (bptt + 1)}"
        )
    sequences = np.asarray(ids)[: length * batch_size].reshape(batch_size, length)
    return _steps(sequences[:, :-1], steps, bptt), _steps(sequences[:, 1:], steps, bptt)


def deal_batches(
    batches: Batches, n: int, each: int, rng: Optional[np.random.Generator] = None
) -> List[Batches]:
    """Deal batches out to `n` devices, `each` to every one; what is left belongs to nobody.

    Parameters
    ----------
    batches : data, target
        As from `batchify_text`, at least ``n * each`` of them.
    rng : numpy.random.Generator, optional
        If given, the batches are shuffled before they are dealt out. The released code does
        this: its devices carry the hidden state from one piece of text to an unrelated one.
        Otherwise device i gets the i-th run of consecutive batches, unbroken text.

    Returns
    -------
    list of (data, target)
        For each device int32 arrays (each, bptt, batch_size).

    Examples
    --------
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
    """(batch_size, length) -> (steps, bptt, batch_size), what is over left out."""
    cut = sequences[:, : steps * bptt].reshape(len(sequences), steps, bptt)
    return np.ascontiguousarray(cut.transpose(1, 2, 0), dtype=np.int32)


def _check_ids(what: str, ids: np.ndarray, vocab_size: int) -> None:
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise DataError(f"{what}: ids are {ids.dtype} {ids.shape}, expected integers (N,)")
    bad = (ids < 0) | (ids >= vocab_size)
    if bad.any():
        wrong = int(bad.argmax())
        raise DataError(f"{what}: id {ids[wrong]} of token {wrong}, expected 0..{vocab_size - 1}")


def _digest(train: np.ndarray, test: np.ndarray, vocab_size: int) -> str:
    """SHA-256 of both texts as little-endian bytes, each led by its length."""
    sha = hashlib.sha256(f"vocabulary {vocab_size}".encode())
    for ids in (train, test):
        sha.update(repr(ids.shape).encode())
        sha.update(np.ascontiguousarray(ids, dtype="<i4"))
    return sha.hexdigest()
