"""Epochs on several shard servers: the same bytes as one process, slots, deadlines."""

import math

import numpy as np
import pytest
from helpers.servers import Cluster, normal, only, started
from hypothesis import given
from hypothesis import strategies as st

from slsgd_mx import ModelServer
from slsgd_mx.parameter_server.commands import Begin, Commit
from slsgd_mx.parameter_server.protocol import HEADER, Phase, State
from slsgd_mx.rules import RULES, Rule
from slsgd_mx.system.mxnet import mx

NONE, FINITE, NOT_FINITE, LATE = State

# ---- equal to one process ------------------------------------------------------------------


@st.composite
def problems(draw):
    k = draw(st.integers(1, 7))
    widths = draw(st.lists(st.integers(1, 6), min_size=2, max_size=5))
    averages = draw(st.lists(st.booleans(), min_size=len(widths), max_size=len(widths)))
    fixed = dict(k=k, b=draw(st.integers(0, (k - 1) // 2)))
    fixed["rule"] = draw(st.sampled_from(["trimmed-mean", "mean", "median"]))
    fixed["nonfinite"] = draw(st.sampled_from(["reject", "keep"]))
    return widths, averages, fixed, draw(st.integers(1, min(5, sum(widths))))


@st.composite
def epochs(draw, k, size):
    """alpha, slots in order of arrival (some may be missing), and pushes (some not finite)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    pushed = (rng.standard_normal((k, size)) * 10.0 ** rng.integers(-30, 30, size)).astype("f4")
    slots = draw(st.permutations(range(k)))
    slots = slots[: draw(st.sampled_from([k, k, k, k - 1, 0]))]
    for slot in draw(st.lists(st.integers(0, k - 1), max_size=2)):
        pushed[slot, draw(st.integers(0, size - 1))] = draw(
            st.sampled_from([math.nan, math.inf, -math.inf, 3e38])
        )
    return draw(st.sampled_from([1.0, 0.8, 0.5, 0.1, 1e-3])), slots, pushed


@given(problems(), st.data())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_any_number_of_servers_gives_the_bytes_of_one_process(problem, data):
    widths, averages, options, servers = problem
    bounds = np.cumsum([0, *widths])
    x = normal(bounds[-1], seed=5)
    one = ModelServer(**options)
    parts = list(zip(bounds, bounds[1:], averages))
    for number, (start, stop, average) in enumerate(parts):
        one.init(f"p{number}", mx.nd.array(x[start:stop]), moving_average=average)
    replaced = [(int(start), int(stop)) for start, stop, average in parts if not average]
    many = Cluster(x, servers, replaced=replaced, **options).start()
    for _ in range(data.draw(st.integers(1, 3))):
        alpha, slots, pushed = data.draw(epochs(options["k"], x.size))
        arrivals = [(slot, host) for slot in slots for host in many.hosts]
        for slot, host in data.draw(st.permutations(arrivals)):
            host.push(many.epoch + 1, slot, pushed[slot])
        for slot in slots:
            for number, (start, stop, _) in enumerate(parts):
                one.push(f"p{number}", mx.nd.array(pushed[slot, start:stop]), slot)
        assert many.commit(alpha) == one.update(alpha)
        assert many.model.tobytes() == b"".join(v.tobytes() for v in one.values().values())
    assert many.logs == []


def test_shard_bounds_inside_the_chunks_of_the_rule():
    x, results = normal(40_000, seed=9), set()
    for servers in (1, 2, 3):
        many = Cluster(x, servers, k=5, b=1, replaced=[(13_000, 27_000)]).start()
        many.push_all(range(5)).commit(0.3)
        results.add(many.model.tobytes())
    assert len(results) == 1 and results != {x.tobytes()}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_only_the_server_that_holds_a_nonfinite_value_reports_it(bad):
    many = started(size=9, servers=3)
    pushed = normal(4, 9, seed=4)
    pushed[2, 4] = bad  # the server in the middle has 3..5
    many.hosts[0].push(1, 3, pushed[3])
    assert many.statuses("states")[0].tolist() == [NONE, NONE, NONE, FINITE]  # at once
    assert many.statuses("states")[1].tolist() == [NONE] * 4
    many.hosts[1].push(1, 3, pushed[3])
    many.hosts[2].push(1, 3, pushed[3])
    for slot in range(3):
        many.push(slot, pushed[slot])
    assert [host.status.states[2] for host in many.hosts] == [FINITE, NOT_FINITE, FINITE]
    for host in many.hosts:
        assert np.delete(host.status.states, 2).tolist() == [FINITE] * 3
    update = many.commit(1.0)
    assert update.refused == (2,)
    for host in many.hosts:  # after the commit all of them report it
        assert host.status.outcomes.tolist() == [FINITE, FINITE, NOT_FINITE, FINITE]
        assert host.status.states.tolist() == [NONE] * 4
    assert np.isfinite(many.model).all()


def test_status_repeats_what_was_committed():
    many = started(servers=2).push_all([0, 1, 3])
    assert many.commit(0.5).missing == (2,)
    for host in many.hosts:
        assert host.status.outcomes.tolist() == [FINITE, FINITE, NONE, FINITE]
    assert many.statuses("applied") == [1, 1] and many.statuses("epoch") == [1, 1]
    before = many.model.tobytes()
    assert not many.push_all([0, 1]).commit(0.5).applied  # too few
    assert many.model.tobytes() == before != many.x.tobytes()
    assert many.statuses("applied") == [0, 0] and many.statuses("epoch") == [2, 2]


def test_resumed_run_takes_its_epoch_from_the_configuration():
    many = started(epoch=41)
    host = many.hosts[0]
    status = host.status
    assert (status.phase, status.epoch, status.fingerprint) == (Phase.RUNNING, 41, 77)
    assert host.model[:HEADER].tolist() == [41] + [0] * (HEADER - 1)  # without a token
    many.push(0, normal(7), epoch=1)
    assert "slot 0 of epoch 1 in epoch 42" in only(host)
    many.push(0, normal(7), epoch=42)
    assert host.log == [] and host.status.states[0] == FINITE
    many.commit(0.5)
    assert host.model[:HEADER].tolist() == [42] + [0] * (HEADER - 1)


def test_aggregation_is_timed(monkeypatch):
    many = started(k=1, b=0, rule="mean").push_all([0])

    def slow(rows, context, out):
        many.now += 2.25

    monkeypatch.setitem(RULES, "mean", Rule("slow", slow))
    many.commit(1.0)
    assert many.hosts[0].status.aggregation == 2.25


def test_pushes_after_the_deadline_are_late():
    many = started(servers=2, deadline=5.0)
    many.command(Begin(1))
    many.push_all([0, 1])
    many.now += 5.0  # not more than the deadline
    many.push(2, normal(7))
    assert many.logs == []
    many.now += 0.001
    late = many.hosts[0].server.shard.slots[3].copy()
    many.push(3, normal(7))
    for host in many.hosts:
        assert only(host).endswith("slot 3 of epoch 1 arrived after the deadline")
        assert host.status.states.tolist() == [FINITE, FINITE, FINITE, LATE]
    assert many.hosts[0].server.shard.slots[3].tobytes() == late.tobytes()
    many.push(3, normal(7))
    assert all("pushed already" in only(host) for host in many.hosts)
    many.hosts[0].command(Commit(1, 0.5, [0, 1, 2, 3], [], True))
    assert "not all have arrived" in only(many.hosts[0])
    assert many.commit(0.5).missing == (3,)


def test_late_for_one_server_is_missing_for_all():
    many = started(servers=2, deadline=5.0)
    many.command(Begin(1))
    many.push_all(range(3)).hosts[0].push(1, 3, normal(7, seed=3))
    many.now += 6
    many.hosts[1].push(1, 3, normal(7, seed=3))
    assert many.commit(0.5).accepted == (0, 1, 2)


def test_deadline_counts_from_the_beginning_of_its_epoch():
    many = started(deadline=5.0)
    many.now += 50
    many.push(0, normal(7))  # before the epoch has begun
    many.command(Begin(1))
    many.now += 50
    many.commit(0.5)
    many.push(0, normal(7))  # before the next epoch has begun
    many.command(Begin(2))
    many.now += 4
    many.push(1, normal(7))
    assert many.logs == []
    many.now += 4
    many.push(2, normal(7))
    assert many.hosts[0].status.states.tolist() == [FINITE, FINITE, LATE, NONE]


def test_without_a_deadline_nothing_is_late():
    many = started()
    many.command(Begin(1))
    many.now += 10**9
    many.push(0, normal(7))
    assert many.logs == [] and many.hosts[0].status.states[0] == FINITE
