"""What is pushed to a server: models and reports that make no sense change nothing."""

import math

import numpy as np
import pytest
from helpers.servers import header, normal, only, started

from slsgd_mx.parameter_server.protocol import (
    HELLO,
    MODEL,
    NOT_FINITE,
    SCORES,
    STATUS,
    Report,
    status_size,
)

# ---- models --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pushed, message",
    [
        (header(0, 0), "slot 0 of epoch 0, after epoch 0"),
        (header(2, 0), "slot 0 of epoch 2, after epoch 0"),
        (header(1, 4), "slot=4, not 0 <= slot < 4"),
        (header(1, -2), "slot=-2, not 0 <= slot < 4"),
        (header(1, math.nan), "a push for epoch 1.0 and slot nan"),
        (header(1.5, 0), "a push for epoch 1.5 and slot 0.0"),
        (header(1, 1), "slot 1 of epoch 1 has been pushed already"),
        (header(1, 0, size=6), "float32 (8,), not float32 (9,)"),
        (header(1, 0).reshape(3, 3), "float32 (3, 3), not float32 (9,)"),
        (header(1, 0)[:0], "float32 (0,), not float32 (9,)"),
        (header(1, 0).astype(np.float64), "float64 (9,), not float32 (9,)"),
        (header(1, 0).astype(np.int32), "int32 (9,), not float32 (9,)"),
        (header(1, HELLO), "the model is there already"),
    ],
)
def test_pushes_that_are_ignored(pushed, message):
    host = started().hosts[0]
    host.push(1, 1, normal(7))
    before = host.frozen()
    host.aggregator.push(host.key(MODEL), pushed, host.model)
    line = only(host)
    assert line.startswith(f"push to key {host.key(MODEL)} ignored: ") and message in line
    assert host.frozen() == before


@pytest.mark.parametrize("key", [-1, SCORES, SCORES + 3, 2**40])
def test_unknown_keys(key):
    host = started(servers=1, workers=3).hosts[0]
    before = host.frozen()
    host.aggregator.push(key, header(1, 0), host.model)
    assert only(host) == f"push to key {key} ignored: an unknown key"
    assert host.frozen() == before


@pytest.mark.parametrize("size", [0, 1, 8, 10])
def test_other_memory_under_the_key_of_the_model(size):
    """Both are of one size, but not of the model's: another key, or a stray client's."""
    host = started().hosts[0]
    before = host.frozen()
    stored = np.zeros(size, np.float32)
    host.aggregator.push(host.key(MODEL), np.array([1, 0, *range(8)], np.float32)[:size], stored)
    assert f"{size} values, not 9" in only(host)
    assert host.frozen() == before


@pytest.mark.parametrize("rank", [1, 2])
def test_the_scores_of_a_worker_are_kept_as_they_are(rank):
    """Of any worker but the coordinator, which has its own at hand."""
    many = started(servers=2, workers=3)
    for host in many.hosts:
        before, kept = host.frozen(), np.zeros(3, np.float32)
        scores = np.array([1.5, math.nan, -0.0], np.float32)
        host.aggregator.push(host.key(SCORES + rank), scores, kept)
        assert kept.tobytes() == scores.tobytes()
        assert host.log == [] and host.frozen() == before


def test_the_first_push_of_a_slot_counts():
    many = started(k=1, b=0)
    many.push(0, np.full(7, 3, np.float32))
    many.push(0, np.full(7, 4, np.float32))
    assert "pushed already" in only(many.hosts[0])
    many.commit(1.0)
    assert many.model.tolist() == [3.0] * 7


def test_a_second_push_cannot_mend_a_bad_one():
    many = started()
    many.push(0, np.full(7, math.nan, np.float32))
    many.push(0, np.ones(7, np.float32))
    assert "pushed already" in only(many.hosts[0])
    assert many.hosts[0].status.states[0] == NOT_FINITE


# ---- reports -------------------------------------------------------------------------------


def totals(host):
    status = host.status
    return status.done, status.training, status.transfer, status.sent


def test_reports_are_added_up_and_forgotten():
    many = started(workers=3)
    host = many.hosts[0]
    host.report(1, 1, 1.5, 0.25, 100)
    assert totals(host) == (1, 1.5, 0.25, 100)
    host.report(2, 1, 2.0, 0.5, 2.0**40)
    assert totals(host) == (2, 3.5, 0.75, 100 + 2.0**40)
    many.commit(0.5)
    assert totals(host) == (0, 0, 0, 0)
    host.report(1, 2, 4.0)
    assert totals(host) == (1, 4.0, 0, 0)


def test_a_worker_counts_once():
    host = started(workers=3).hosts[0]
    host.report(1, 1, 1.0, 2.0, 3.0)
    host.report(1, 1, 10.0, 20.0, 30.0)
    assert totals(host) == (1, 10.0, 20.0, 30.0)


@pytest.mark.parametrize(
    "rank, epoch",
    [(0, 1), (3, 1), (-2, 1), (0.5, 1), (math.nan, 1), (1e300, 1)]
    + [(1, 0), (1, 2), (1, 1.5), (1, math.nan)],
)
def test_reports_that_are_ignored(rank, epoch):
    """Worker 0 is the coordinator: it waits until exactly the others have reported."""
    host = started(workers=3).hosts[0]
    host.report(1, 1, 1.0, 2.0, 3.0)
    before = host.frozen()
    host.report(rank, epoch, 9.0, 9.0, 9.0)
    assert f"a report of worker {float(rank)} on epoch {float(epoch)}" in only(host)
    assert host.frozen() == before


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0])
def test_a_report_of_impossible_costs(bad):
    """The coordinator makes a whole number of the bytes: int(nan) would end the run."""
    host = started(workers=3).hosts[0]
    host.report(1, 1, 1.0, 2.0, 3.0)
    before = host.frozen()
    for costs in ((bad, 1.0, 1.0), (1.0, bad, 1.0), (1.0, 1.0, bad)):
        host.report(2, 1, *costs)
        assert f"a report of costs {costs}" in only(host)
        assert host.frozen() == before


def test_a_status_of_another_size_is_no_report():
    host = started().hosts[0]
    before = host.frozen()
    host.aggregator.push(host.key(STATUS), Report(1, 1).to_array(5), host.board)
    assert f"({status_size(5)},), not float32 ({status_size(4)},)" in only(host)
    assert host.frozen() == before


def test_hello_again_is_no_report():
    host = started().hosts[0]
    before = host.frozen()
    host.report(HELLO, 0, 1.0)
    assert host.log == [] and host.frozen() == before
