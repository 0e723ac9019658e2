"""Text cut into batches, and the partition of the batches among devices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slsgd_mx.data.synthetic_text import synthetic_text
from slsgd_mx.data.text import batchify_text, deal_batches


@pytest.fixture(scope="module")
def nlp():
    from slsgd_mx.system.mxnet import import_gluonnlp

    return import_gluonnlp()


@pytest.mark.parametrize(
    ("tokens", "batch_size", "bptt"),
    [(1000, 4, 7), (1003, 4, 7), (1027, 5, 35), (36, 1, 35), (720, 20, 35), (2120, 20, 35)],
)
def test_batchify_equals_gluonnlp(nlp, tokens, batch_size, bptt):
    from mxnet.gluon.data import SimpleDataset

    ids = synthetic_text(tokens, 1, 50).train
    words = [f"w{i}" for i in ids]
    vocab = nlp.Vocab(nlp.data.count_tokens(words), padding_token=None, bos_token=None)
    batchify = nlp.data.batchify.CorpusBPTTBatchify(vocab, bptt, batch_size, last_batch="discard")
    theirs = list(batchify(SimpleDataset(words)))
    data, target = batchify_text(np.array(vocab[words]), batch_size, bptt)
    assert data.shape == target.shape == (len(theirs), bptt, batch_size)
    for step, (their_data, their_target) in enumerate(theirs):
        np.testing.assert_array_equal(data[step], their_data.asnumpy())
        np.testing.assert_array_equal(target[step], their_target.asnumpy())


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 200))
def test_each_step_continues_the_previous_one(batch_size, bptt, spare):
    tokens = batch_size * (bptt + 1) + spare
    data, target = batchify_text(np.arange(tokens), batch_size, bptt)
    assert data.dtype == target.dtype == np.int32
    assert data.flags.c_contiguous and target.flags.c_contiguous
    np.testing.assert_array_equal(target, data + 1)
    sequences = data.reshape(-1, batch_size)
    assert (np.diff(sequences, axis=0) == 1).all()  # also from one step to the next
    np.testing.assert_array_equal(sequences[0], np.arange(batch_size) * (tokens // batch_size))
    assert tokens - data.size < batch_size * (bptt + 1) + batch_size


@pytest.mark.parametrize("n", [1, 3, 7])
def test_shares_are_disjoint_equal_and_consecutive(n):
    ids = np.arange(3000)
    whole = (3000 // 4 - 1) // 10
    shares = deal_batches(batchify_text(ids, batch_size=4, bptt=10), n, whole // n)
    assert len(shares) == n
    assert {array.shape for share in shares for array in share} == {(whole // n, 10, 4)}
    for data, target in shares:
        np.testing.assert_array_equal(target, data + 1)
        assert (np.diff(data.reshape(-1, 4), axis=0) == 1).all()  # consecutive text
    used = np.concatenate([data.ravel() for data, _ in shares])
    assert len(np.unique(used)) == len(used) == n * (whole // n) * 40


def test_shuffled_shares_are_the_same_batches_in_another_order():
    ids = np.arange(3000)
    plain, shuffled, again = (
        deal_batches(batchify_text(ids, 4, 10), 37, 2, rng)
        for rng in (None, np.random.default_rng(5), np.random.default_rng(5))
    )
    firsts = [[int(x[0, 0]) for data, _ in deal for x in data] for deal in (plain, shuffled, again)]
    assert firsts[1] == firsts[2] != firsts[0]
    assert len(set(firsts[1])) == 74
    assert set(firsts[0]) == set(firsts[1])
    assert all((target == data + 1).all() for data, target in shuffled)
