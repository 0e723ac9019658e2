"""Division of slots among workers: each slot once, about the same work for each."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slsgd_mx.core.algorithm import local_iterations, select_devices
from slsgd_mx.parameter_server.roles import balance, share_slots
from slsgd_mx.tasks.sizes import SIZES

steps_of_slots = st.lists(st.integers(1, 1000), min_size=1, max_size=40)


def loads(steps, shares):
    return [sum(steps[slot] for slot in share) for share in shares]


def check_shares(steps, shares):
    """Every slot goes to one worker, and loads differ by at most the longest slot."""
    assert sorted(itertools.chain(*shares)) == list(range(len(steps)))
    assert all(share == sorted(share) for share in shares)
    work = loads(steps, shares)
    assert max(work) <= min(work) + max(steps)


@given(steps_of_slots, st.integers(1, 50))
def test_every_slot_goes_to_one_worker(steps, workers):
    shares = balance(steps, workers)
    assert len(shares) == workers and shares == balance(tuple(steps), workers)
    check_shares(steps, shares)
    if workers >= len(steps):  # some workers have no slots
        assert sorted(map(len, shares)) == [0] * (workers - len(steps)) + [1] * len(steps)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 3))
def test_longest_first_is_within_a_third_of_the_best(steps, workers):
    """Graham's bound, 4/3 - 1/(3m), against the best of all divisions."""
    best = min(
        max(sum(s for s, w in zip(steps, choice) if w == worker) for worker in range(workers))
        for choice in itertools.product(range(workers), repeat=len(steps))
    )
    longest = max(loads(steps, balance(steps, workers)))
    assert 3 * workers * longest <= (4 * workers - 1) * best


@pytest.mark.parametrize(
    "steps, workers, shares",
    [
        ([1, 1, 1, 1], 2, [[0, 2], [1, 3]]),
        ([1, 2, 3, 4], 2, [[0, 3], [1, 2]]),
        ([7, 7, 7], 1, [[0, 1, 2]]),
        ([3, 5], 4, [[1], [0], [], []]),
        ([2, 2, 2], 5, [[0], [1], [2], [], []]),
        ([], 2, [[], []]),
    ],
)
def test_ties_go_to_the_lower_rank(steps, workers, shares):
    assert balance(steps, workers) == shares


@pytest.mark.parametrize("tiny", SIZES, indirect=True)
@pytest.mark.parametrize("changes", [{}, {"local_steps": (1, 9)}])
def test_shares_of_an_epoch(tiny, tiny_task, changes):
    config = tiny(**changes)
    task = tiny_task(config)
    seen = set()
    for t in range(1, 9):
        steps = [local_iterations(t, int(d), config, task) for d in select_devices(config, t)]
        for workers in (1, 2, 3, 6):
            shares = share_slots(t, config, task, workers)
            assert shares == share_slots(t, config, task, workers)
            assert len(steps) == config.k
            check_shares(steps, shares)
            seen.add(str(shares))
    if changes:  # the steps are drawn in every epoch, and the shares depend on them
        assert len(seen) > 8


def test_shares_weigh_the_steps_of_unequal_devices(tiny, tiny_task):
    """Shares of equal numbers of slots would be uneven."""
    config = tiny(partition="unbalanced", batch_size=1)
    task = tiny_task(config)
    by_number = []
    for t in range(1, 20):
        steps = [local_iterations(t, int(d), config, task) for d in select_devices(config, t)]
        shares = share_slots(t, config, task, 2)
        check_shares(steps, shares)
        by_number.append([len(share) for share in shares])
    assert [2, 2] in by_number and any(counts != [2, 2] for counts in by_number)
