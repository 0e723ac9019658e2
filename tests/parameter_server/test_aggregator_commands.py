"""Commands to a server under way: epochs are committed once and in order, the end is final."""

import numpy as np
import pytest
from helpers.servers import Cluster, normal, only, started

from slsgd_mx.parameter_server.protocol import (
    ENDED,
    FINITE,
    HEADER,
    MOST,
    NONE,
    NOT_FINITE,
    Begin,
    Commit,
    End,
)

# ---- epochs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "commit, message",
    [
        (Commit(2, 0.5, [0, 1, 2], [], True), "epoch 2 after epoch 0"),
        (Commit(MOST, 0.5, [0, 1, 2], [], True), "epoch 16777216 after epoch 0"),
        (
            Commit(MOST + 1, 0.5, [0, 1, 2], [], True),
            "epoch=16777217 is no whole number from 1 to 16777216",
        ),
        (Commit(1, 0.5, [0, 1, 3], [], True), "are to be aggregated, and not all have come"),
        (Commit(1, 0.5, [0, 1, 3], [], False), "are to be aggregated, and not all have come"),
        (Commit(1, 0.5, [0, 1, 2, 4], [], True), "slots out of range: 0 <= slot < 4"),
        (Commit(1, 0.5, [0, 1, 2], [4], True), "slots out of range: 0 <= slot < 4"),
        (Commit(1, 0.5, [0, 1, 2], [MOST], True), "slots out of range: 0 <= slot < 4"),
        (
            Commit(1, 0.5, [0, 1, 2], [MOST + 1], True),
            "slot=16777217 is no whole number from 0 to 16777216",
        ),
        (Commit(1, 0.5, [0, 1], [], True), "2 slots are too few for b=1"),
    ],
)
def test_commits_that_are_ignored(commit, message):
    many = started()
    for slot in range(3):
        many.push(slot, normal(7, seed=slot))
    host, before = many.hosts[0], many.hosts[0].frozen()
    host.command(commit)
    line = only(host)
    assert line.startswith("command ignored: ") and message in line
    assert host.frozen() == before
    host.command(Commit(1, 0.5, [0, 1, 2], [], True))
    assert host.log == [] and host.status.epoch == 1


def push_one_not_finite(nonfinite):
    """Slots 0, 1 and 2 of four with what they are, the last of them not finite."""
    many = started(nonfinite=nonfinite)
    for slot, value in enumerate([1, 2, np.inf]):
        many.push(slot, np.full(7, value, np.float32))
    assert many.hosts[0].status.states.tolist() == [FINITE, FINITE, NOT_FINITE, NONE]
    return many


@pytest.mark.parametrize("applied", [True, False])
def test_what_is_not_finite_is_not_aggregated_if_such_are_rejected(applied):
    many = push_one_not_finite("reject")
    host, before = many.hosts[0], many.hosts[0].frozen()
    host.command(Commit(1, 1.0, [0, 1, 2], [], applied))
    line = only(host)
    assert line.startswith("command ignored: [0, 1, 2] are to be aggregated, and not all")
    assert "finite" in line and host.frozen() == before
    host.command(Commit(1, 1.0, [0, 1], [2], False))
    assert host.log == [] and host.status.epoch == 1
    assert host.status.outcomes.tolist() == [FINITE, FINITE, NOT_FINITE, NONE]
    assert host.model[HEADER:].tobytes() == many.x.tobytes()


def test_what_is_not_finite_is_aggregated_if_such_are_kept():
    many = push_one_not_finite("keep")
    host = many.hosts[0]
    host.command(Commit(1, 1.0, [0, 1, 3], [], True))  # that one never came
    assert "not all have come" in only(host) and host.status.epoch == 0
    host.command(Commit(1, 1.0, [0, 1, 2], [], True))
    assert host.log == [] and host.status.epoch == 1
    assert many.model.tolist() == [2.0] * 7  # of 1, 2 and infinity


def test_an_epoch_is_committed_once():
    many = started(servers=2)
    for slot in range(4):
        many.push(slot, normal(7, seed=slot))
    many.commit(0.5)
    before = [host.frozen() for host in many.hosts]
    many.command(Commit(1, 0.5, [0, 1, 2, 3], [], True))
    assert [only(host) for host in many.hosts] == ["command ignored: epoch 1 after epoch 1"] * 2
    many.push(0, normal(7), epoch=1)
    assert all("slot 0 of epoch 1, after epoch 1" in only(host) for host in many.hosts)
    assert [host.frozen() for host in many.hosts] == before


def test_commits_in_another_order_of_slots_have_the_same_bytes():
    results = set()
    for accepted in ([0, 1, 2, 3], [3, 1, 0, 2]):
        many = started()
        for slot in range(4):
            many.push(slot, normal(7, seed=slot))
        many.command(Commit(1, 0.5, accepted, [], True))
        results.add(many.model.tobytes())
    assert len(results) == 1


@pytest.mark.parametrize(
    "epoch, message",
    [
        (0, "epoch 0 after epoch 0"),
        (2, "epoch 2 after epoch 0"),
        (MOST + 1, "begin: epoch=16777217 is no whole number from 0 to 16777216"),
    ],
)
def test_begin_of_another_epoch(epoch, message):
    many = started(deadline=5.0)
    many.command(Begin(epoch))
    assert only(many.hosts[0]) == f"command ignored: {message}"
    many.clock.now += 100
    many.push(0, normal(7))
    assert many.hosts[0].status.states[0] == FINITE


@pytest.mark.parametrize("body", [b"", b"\x80\x04N.", "{}", "[" * 9999])
def test_rubbish_commands(body):
    host = started().hosts[0]
    before = host.frozen()
    host.command(body)
    assert only(host).startswith("command ignored: ")
    assert host.frozen() == before


# ---- the board -----------------------------------------------------------------------------


def test_the_board_follows_every_event_and_mends_itself():
    """MXNet never writes there, and if it did the next message would put it right."""
    many = started(deadline=5.0)
    host = many.hosts[0]
    events = [
        lambda: host.push(1, 0, many.x),
        lambda: host.push(1, 0, many.x),  # ignored
        lambda: host.report(1, 1, 2.0),
        lambda: host.report(9, 1, 2.0),  # ignored
        lambda: host.command(Begin(1)),
        lambda: host.command(b"rubbish"),
        lambda: host.command(Commit(1, 0.5, [], [], False)),
        lambda: host.command(End()),
        lambda: host.aggregator.push(99, host.model.copy(), host.model),
    ]
    for event in events:
        host.board[:] = -1
        event()
        assert host.board.tobytes() == host.aggregator.status.to_array().tobytes()
    assert host.status.phase == ENDED and host.status.epoch == 1


# ---- the end -------------------------------------------------------------------------------


def test_after_the_end_nothing_changes():
    many = started(servers=2)
    for slot in range(4):
        many.push(slot, normal(7, seed=slot))
    many.command(End())
    assert many.statuses("phase") == [ENDED] * 2 and many.logs == []
    before = [host.frozen() for host in many.hosts]
    many.command(Commit(1, 0.5, [0, 1, 2, 3], [], True))
    assert [only(h) for h in many.hosts] == ["command ignored: there is no model under way"] * 2
    many.push(0, normal(7))
    assert all("ignored: slot 0 of epoch 1" in only(host) for host in many.hosts)
    many.command(many.setup)
    assert all("done already" in only(host) for host in many.hosts)
    assert [host.frozen() for host in many.hosts] == before


def test_the_end_is_final():
    many = Cluster(normal(7))
    host = many.hosts[0]
    many.command(many.setup)
    host.greet_status()
    many.command(End())
    assert host.status.phase == ENDED
    host.greet_model(many.x)
    assert host.status.phase == ENDED


def test_a_second_begin_does_not_move_the_deadline():
    cluster = started(deadline=5.0)
    host = cluster.hosts[0]
    host.command(Begin(1))
    cluster.clock.now += 6
    host.command(Begin(1))
    assert "epoch 1 has begun already" in only(host)
    host.push(1, 0, cluster.x)
    assert "comes after the deadline" in only(host)


def test_slots_that_never_came_cannot_be_refused():
    host = started().hosts[0]
    host.command(Commit(1, 0.5, [], [2], False))
    assert "[2] are to be refused, and not all have come" in only(host)
    assert host.status.epoch == 0
