"""Partitions: the paper's properties, at the paper's size and at any other."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.partitions import (
    MAX_LABELS,
    PARTITIONS,
    Partition,
    balanced,
    label_counts,
    partition,
    register_partition,
    unbalanced,
    unbalanced_sizes,
)
from slsgd_mx.registry import number
from slsgd_mx.tasks.cifar.sizes import Cifar

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


# ---- equal sizes, different labels ---------------------------------------------------------

EQUAL = ["dirichlet", "dirichlet:concentration=0.01", "shards", "shards:labels=3", "similarity"]


@pytest.mark.parametrize("kind", [*EQUAL, "similarity:share=0", "similarity:share=1"])
@given(total=st.integers(1, 400), n=st.integers(1, 60), classes=st.integers(1, 12))
@settings(max_examples=20)
def test_devices_of_equal_size_hold_every_sample_once(kind, total, n, classes):
    assume(3 * n <= total)
    parts = partition(kind, np.arange(total) % classes, n, rng(total))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= (3 if kind.startswith("shards") else 1)
    assert_each_index_once(parts, total)


def test_dirichlet_proportions_have_the_variance_of_their_distribution():
    """For L labels, Var p = (L - 1) / (L^2 (L c + 1)); the first devices follow it closely."""
    labels = np.repeat(np.arange(10), 4_000)
    for concentration in (0.3, 3.0):
        drawn = []
        for seed in range(60):
            parts = partition(f"dirichlet:concentration={concentration}", labels, 200, rng(seed))
            drawn.append(label_counts(parts[:20], labels, 10) / 200)
        expected = 9 / (100 * (10 * concentration + 1)) + 0.09 / 200  # and of the drawn labels
        assert np.var(drawn) == pytest.approx(expected, rel=0.1)
        assert np.mean(drawn) == pytest.approx(0.1)


def test_shards_are_consecutive_in_the_order_of_labels():
    parts = partition("shards:labels=2", CIFAR, 100, rng())  # 200 shards of 250, 20 to a label
    assert max(distinct(parts, CIFAR)) == 2 and min(distinct(parts, CIFAR)) == 1
    order = np.argsort(CIFAR, kind="stable")
    shards = {tuple(shard) for shard in order.reshape(200, 250)}
    assert {tuple(half) for part in parts for half in part.reshape(2, 250)} == shards
    assert max(distinct(partition("shards:labels=1", CIFAR, 100, rng()), CIFAR)) == 1


def test_similarity_mixes_a_share_and_sorts_the_rest():
    counts = label_counts(partition("similarity:share=0.4", CIFAR, 100, rng()), CIFAR, 10)
    # 200 of 500 samples are IID, 20 of each label; 300 have the labels of the device's place.
    main = np.sort(counts, axis=1)
    assert (main[:, -2:].sum(axis=1) > 300).all() and (main[:, :8] < 50).all()
    assert (np.diff(counts.argmax(axis=1)) >= 0).all()  # in the order of labels
    assert (label_counts(partition("similarity:share=0", CIFAR, 100, rng()), CIFAR, 10) > 0).sum(
        axis=1
    ).max() <= 2


# ---- partitions of users -------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts, said",
    [
        ([[0, 1], [2], [3]], None),  # sample 4 is on no device
        ([np.array([device], np.uint64) for device in range(3)], None),
        ([[0, 1], [], [3]], "partition own leaves device 1 of n=3 empty: every device needs"),
        ([[0, 1], [2, 3]], "partition own returned 2 devices: needs n=3"),
        ([[0, 1], [2], [5]], "gives device 2 samples 5 to 5: needs 0 <= sample <= 4"),
        ([[0, -1], [2], [3]], "gives device 0 samples -1 to 0: needs 0 <= sample <= 4"),
        ([[0, 1], [1], [3]], "deals out sample 1 2 times: needs each sample at most once"),
        ([[0, 0], [1], [3]], "deals out sample 0 2 times"),
        ([[0.0], [1], [3]], r"gives device 0 an array of float64 \(1,\): needs indices"),
        ([[[0]], [1], [3]], r"gives device 0 an array of int64 \(1, 1\)"),
    ],
)
def test_what_a_partition_returns_is_checked(parts, said, fresh_plugins):
    register_partition("own", Partition("given", lambda labels, n, rng: parts))
    if said is None:
        assert [part.tolist() for part in partition("own", np.zeros(5), 3, rng())] == parts
        return
    with pytest.raises(ConfigError, match=said):
        partition("own", np.zeros(5), 3, rng())


def test_a_registered_partition_gets_its_parameters(fresh_plugins):
    @register_partition("own", parameters={"share": number(0.5, above=0, most=1)})
    def own(labels, n, rng, share):
        "Deal out a share."
        return np.array_split(np.arange(int(share * len(labels))), n)

    assert PARTITIONS["own"].summary == "Deal out a share."
    parts = partition("own:share=0.8", np.zeros(10), 2, rng())
    assert [part.tolist() for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    config = RunConfig(sizes=Cifar(partition="own:share=0.50"))
    assert config.sizes.partition == "own" and config.sources[0][0] == "test_partitions.py"
    with pytest.raises(ConfigError, match="partition 'own' exists already"):
        register_partition("own")(own)


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
        ("fair", np.arange(9), 3, "'fair' is unknown.*balanced, unbalanced"),
        (
            "shards:label=2",
            np.arange(9),
            3,
            "has no parameter 'label=2', did you mean 'labels'. Its parameters are labels=2",
        ),
        ("dirichlet:concentration=0", np.arange(9), 3, "needs a number > 0"),
        ("similarity:share=1.5", np.arange(9), 3, "share=1.5 is out of range.*>= 0 and <= 1"),
        ("shards:labels=4", np.arange(9), 3, "labels=4 is out of range.*n=3.*1 <= labels <= 3"),
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
