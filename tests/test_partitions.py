"""Partitions: the paper's properties, at the paper's size and at any other."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from slsgd_mx.errors import ConfigError
from slsgd_mx.partitions import (
    MAX_LABELS,
    PARTITIONS,
    balanced,
    label_counts,
    partition,
    unbalanced,
    unbalanced_sizes,
)

CIFAR = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 5000))


def rng(seed=0):
    return np.random.default_rng(seed)


def distinct(parts, labels):
    return [len(np.unique(labels[part])) for part in parts]


def assert_each_index_once(parts, total):
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(total))


def test_paper_balanced():
    parts = balanced(CIFAR, 100, rng())
    assert [len(part) for part in parts] == [500] * 100
    assert_each_index_once(parts, 50000)
    # IID: every device has every label, about 50 of each.
    counts = label_counts(parts, CIFAR, 10)
    assert counts.min() > 15 and counts.max() < 100


@pytest.mark.parametrize("seed", range(5))
def test_paper_unbalanced(seed):
    parts = unbalanced(CIFAR, 100, rng(seed))
    assert [len(part) for part in parts] == list(range(104, 897, 8))
    assert_each_index_once(parts, 50000)
    labels_held = distinct(parts, CIFAR)
    assert max(labels_held) <= 5
    assert labels_held.count(1) >= 1
    assert labels_held[-1] > 1  # 896 images span more than one run of 250
    # The devices, concatenated, are the shuffled runs of 250 of one label of the released code.
    dealt = CIFAR[np.concatenate(parts)].reshape(200, 250)
    assert (dealt == dealt[:, :1]).all()
    np.testing.assert_array_equal(np.bincount(dealt[:, 0]), [20] * 10)
    assert (np.diff(dealt[:, 0]) < 0).any()  # not sorted


@given(total=st.integers(1, 5000), n=st.integers(1, 300))
def test_sizes_grow_linearly(total, n):
    legal = n == 1 or n <= total * 104 // 500
    if not legal:
        with pytest.raises(ConfigError, match=f"n={n} is out of range for {total} samples"):
            unbalanced_sizes(total, n)
        return
    sizes = unbalanced_sizes(total, n)
    assert len(sizes) == n and sizes.sum() == total
    assert sizes.min() >= 1 and (np.diff(sizes) >= 0).all()
    if n > 1:
        line = total / n * np.linspace(104, 896, n) / 500
        assert np.abs(sizes - line).max() < 1 + 1e-6


@given(total=st.integers(1, 2000), n=st.integers(1, 200), seed=st.integers(0, 99))
def test_balanced_any_size(total, n, seed):
    assume(n <= total)
    parts = balanced(np.zeros(total), n, rng(seed))
    sizes = [len(part) for part in parts]
    assert len(parts) == n and max(sizes) - min(sizes) <= 1
    assert_each_index_once(parts, total)


@settings(deadline=None)
@given(
    counts=st.lists(st.integers(0, 400), min_size=1, max_size=15),
    n=st.integers(1, 120),
    seed=st.integers(0, 99),
)
@example(counts=[100] * 10, n=5, seed=0)  # the smallest n that the message below recommends
def test_unbalanced_any_size(counts, n, seed):
    labels = rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    total = len(labels)
    assume(n == 1 <= total or 1 <= n <= total * 104 // 500)
    provable = min(c for c in counts if c) >= total / (2 * n)
    try:
        parts = unbalanced(labels, n, rng(seed))
    except ConfigError:
        assert not provable  # if every run is long enough, it never fails
        return
    np.testing.assert_array_equal([len(part) for part in parts], unbalanced_sizes(total, n))
    assert_each_index_once(parts, total)
    assert max(distinct(parts, labels)) <= MAX_LABELS


@given(classes=st.integers(1, 12), each=st.integers(10, 200), n=st.integers(6, 60))
@settings(deadline=None)
def test_unbalanced_first_shuffle_is_enough_if_runs_are_long(classes, each, n):
    labels = np.repeat(np.arange(classes), each)
    assume(each >= len(labels) / (2 * n) and n <= len(labels) * 104 // 500)

    class Once:
        """A generator that refuses a second draw."""

        drawn = 0

        def permutation(self, count):
            self.drawn += 1
            assert self.drawn == 1
            return rng(n).permutation(count)

    unbalanced(labels, n, Once())


def test_with_rare_labels_the_shuffle_is_redrawn_until_the_limit_holds():
    # Six labels have 1 sample: some shuffles put them side by side.
    labels = np.repeat(np.arange(10), [250] * 4 + [1] * 6)
    for seed in range(20):
        assert max(distinct(unbalanced(labels, 20, rng(seed)), labels)) <= MAX_LABELS


@pytest.mark.parametrize("kind", sorted(PARTITIONS))
def test_same_seed_same_result(kind):
    first, again, other = (partition(kind, CIFAR, 100, rng(s)) for s in (3, 3, 4))
    assert all((a == b).all() for a, b in zip(first, again))
    assert any((a != b).any() for a, b in zip(first, other))


def test_label_counts():
    parts = unbalanced(CIFAR, 100, rng())
    counts = label_counts(parts, CIFAR, 10)
    assert counts.shape == (100, 10) and counts.dtype.kind == "i"
    np.testing.assert_array_equal(counts.sum(axis=1), [len(part) for part in parts])
    np.testing.assert_array_equal(counts.sum(axis=0), [5000] * 10)
    np.testing.assert_array_equal((counts > 0).sum(axis=1), distinct(parts, CIFAR))
    assert label_counts([np.array([])], np.array([0]), 2).tolist() == [[0, 0]]


@pytest.mark.parametrize("labels", [[0, 3], [-1, 0]])
def test_label_counts_refuses_labels_out_of_range(labels):
    with pytest.raises(ConfigError, match="out of range for 3 classes.*0 <= label <= 2"):
        label_counts([np.array([0])], np.array(labels), 3)


@pytest.mark.parametrize(
    "kind, labels, n, message",
    [
        ("dirichlet", np.arange(9), 3, "'dirichlet' is unknown.*balanced, unbalanced"),
        ("balanced", np.zeros((4, 1)), 2, r"shape \(4, 1\)"),
        *(
            (kind, np.arange(30) % 3, n, f"n={n} is out of range for 30 samples.*1 <= n <= 30")
            for kind in sorted(PARTITIONS)
            for n in (-1, 0, 31)
        ),
        ("unbalanced", np.arange(100) % 5, 25, "out of range for 100 samples.*1 <= n <= 20"),
        ("unbalanced", np.arange(1000) % 10, 2, "n=2 leaves.*more than 5 labels.*n >= 5 always"),
        ("unbalanced", np.arange(100), 5, "only 1 samples; use the balanced partition"),
    ],
)
def test_what_cannot_be_partitioned_is_refused_with_the_legal_values(kind, labels, n, message):
    with pytest.raises(ConfigError, match=message):
        partition(kind, labels, n, rng())
