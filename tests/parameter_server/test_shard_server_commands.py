"""Reports and commands to a shard server: which count, and which it ignores."""

import math

import numpy as np
import pytest
from helpers.servers import (
    check_ignored,
    normal,
    only,
    started,
)

from slsgd_mx.parameter_server.commands import Begin, Commit
from slsgd_mx.parameter_server.protocol import (
    HEADER,
    HELLO,
    MOST,
    STATUS,
    State,
    WorkerReport,
    status_size,
)

# ---- reports -------------------------------------------------------------------------------


def totals(host):
    status = host.status
    return status.done, status.training, status.transfer, status.sent


def test_reports_are_added_up_until_the_commit():
    many = started(workers=3)
    host = many.hosts[0]
    host.report(1, 1, 1.0, 2.0, 3.0)
    host.report(1, 1, 1.5, 0.25, 100)  # replaces the first
    assert totals(host) == (1, 1.5, 0.25, 100)
    host.report(2, 1, 2.0, 0.5, 2.0**40)
    assert totals(host) == (2, 3.5, 0.75, 100 + 2.0**40)
    many.commit(0.5)
    assert totals(host) == (0, 0, 0, 0)
    host.report(1, 2, 4.0)
    assert totals(host) == (1, 4.0, 0, 0)


@pytest.mark.parametrize(
    "rank, epoch",
    [(0, 1), (3, 1), (-2, 1), (0.5, 1), (math.nan, 1), (1e30, 1)]
    + [(1, 0), (1, 2), (1, 1.5), (1, math.nan)],
)
def test_reports_of_other_workers_or_epochs_are_ignored(rank, epoch):
    """Worker 0 is the coordinator: it waits until exactly the others have reported."""
    host = started(workers=3).hosts[0]
    host.report(1, 1, 1.0, 2.0, 3.0)
    check_ignored(host, "", host.report, rank, epoch, 9.0, 9.0, 9.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0])
def test_reports_of_impossible_costs_are_ignored(bad):
    """The coordinator converts the bytes to an int: int(nan) would end the run."""
    host = started(workers=3).hosts[0]
    host.report(1, 1, 1.0, 2.0, 3.0)
    for costs in ((bad, 1.0, 1.0), (1.0, bad, 1.0), (1.0, 1.0, bad)):
        check_ignored(host, f"impossible costs {costs}", host.report, 2, 1, *costs)


def test_reports_of_another_size_and_a_second_hello_are_ignored():
    host = started().hosts[0]
    report, before = WorkerReport().to_array(5), host.frozen()
    line = f"({status_size(5)},), not float32 ({status_size(4)},)"
    check_ignored(host, line, host.send, STATUS, report, host.board, 1, 0, 1)
    check_ignored(host, "worker 1 is not", host.report, 1, 0, slot=HELLO)
    host.report(0, 0, 1.0, slot=HELLO)
    assert host.log == [] and host.frozen() == before


# ---- commands ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "epoch, accepted, refused, applied, message",
    [
        (2, [0, 1, 2], [], True, "epoch 2 does not follow 0"),
        (MOST, [0, 1, 2], [], True, "epoch 16777216 does not follow 0"),
        (MOST + 1, [0, 1, 2], [], True, "epoch=16777217 is not a whole number from 1 to 16777216"),
        (1, [0, 1, 3], [], True, "cannot aggregate [0, 1, 3]: not all have arrived"),
        (1, [0, 1, 3], [], False, "cannot aggregate [0, 1, 3]: not all have arrived"),
        (1, [], [3], False, "cannot refuse [3]: not all have arrived"),
        (1, [0, 1, 2, 4], [], True, "slots are out of range: needs 0 <= slot < 4"),
        (1, [0, 1, 2], [4], True, "slots are out of range: needs 0 <= slot < 4"),
        (1, [0, 1, 2], [MOST], True, "slots are out of range: needs 0 <= slot < 4"),
        (1, [0, 1, 2], [MOST + 1], True, "slot=16777217 is not a whole number from 0 to 16777216"),
        (1, [0, 1], [], True, "b=1 is out of range for k=2: trimmed mean needs 0 <= b <= 0"),
    ],
)
def test_commits_that_are_ignored(epoch, accepted, refused, applied, message):
    host = started().push_all(range(3)).hosts[0]
    check_ignored(host, message, host.command, Commit(epoch, 0.5, accepted, refused, applied))
    host.command(Commit(1, 0.5, [0, 1, 2], [], True))
    assert host.log == [] and host.status.epoch == 1


def push_one_not_finite(nonfinite):
    """Pushes to three slots of four, of which the third is not finite."""
    many = started(nonfinite=nonfinite)
    for slot, value in enumerate([1, 2, np.inf]):
        many.push(slot, np.full(7, value, np.float32))
    states = [State.FINITE, State.FINITE, State.NOT_FINITE, State.NONE]
    assert many.hosts[0].status.states.tolist() == states
    return many, many.hosts[0]


@pytest.mark.parametrize("applied", [True, False])
def test_reject_does_not_aggregate_nonfinite_pushes(applied):
    many, host = push_one_not_finite("reject")
    line = "command ignored: cannot aggregate [0, 1, 2]: not all have arrived and are finite"
    check_ignored(host, line, host.command, Commit(1, 1.0, [0, 1, 2], [], applied))
    states = host.status.states.tolist()
    host.command(Commit(1, 1.0, [0, 1], [2], False))
    assert host.log == [] and host.status.epoch == 1
    assert host.status.outcomes.tolist() == states
    assert host.model[HEADER:].tobytes() == many.x.tobytes()


def test_keep_aggregates_nonfinite_pushes():
    many, host = push_one_not_finite("keep")
    commit = Commit(1, 1.0, [0, 1, 3], [], True)  # slot 3 has not arrived
    check_ignored(host, "not all have arrived", host.command, commit)
    host.command(Commit(1, 1.0, [0, 1, 2], [], True))
    assert host.log == [] and host.status.epoch == 1
    assert many.model.tolist() == [2.0] * 7  # the median of 1, 2 and infinity


def test_an_epoch_is_committed_once():
    many = started(servers=2).push_all(range(4))
    many.commit(0.5)
    commit = Commit(1, 0.5, [0, 1, 2, 3], [], True)
    for host in many.hosts:
        check_ignored(host, "epoch 1 does not follow 1", host.command, commit)
        check_ignored(host, "slot 0 of epoch 1 in epoch 2", host.push, 1, 0, normal(7))


def test_order_of_slots_in_a_commit_does_not_matter():
    results = set()
    for accepted in ([0, 1, 2, 3], [3, 1, 0, 2]):
        many = started().push_all(range(4))
        many.command(Commit(1, 0.5, accepted, [], True))
        results.add(many.model.tobytes())
    assert len(results) == 1


@pytest.mark.parametrize(
    "command, message",
    [
        (Begin(0), "epoch 0 does not follow 0"),
        (Begin(2), "epoch 2 does not follow 0"),
        (Begin(MOST + 1), "begin: epoch=16777217 is not a whole number from 0 to 16777216"),
        (b"", "not JSON"),
        (b"\x80\x04N.", "not JSON"),
        ("{}", "not a command"),
        ("[" * 9999, ""),
    ],
)
def test_other_commands_are_ignored_and_start_no_deadline(command, message):
    many = started(deadline=5.0)
    check_ignored(many.hosts[0], f"command ignored: {message}", many.command, command)
    many.now += 100
    many.push(0, normal(7))
    assert many.hosts[0].status.states[0] == State.FINITE


def test_second_begin_does_not_move_the_deadline():
    many = started(deadline=5.0)
    host = many.hosts[0]
    host.command(Begin(1))
    many.now += 6
    check_ignored(host, "epoch 1 has begun already", host.command, Begin(1))
    host.push(1, 0, many.x)
    assert "arrived after the deadline" in only(host)
