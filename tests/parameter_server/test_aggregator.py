"""Epochs on several servers: the bytes of one process, what becomes of slots, deadlines."""

import math

import numpy as np
import pytest
from helpers.servers import Cluster, normal, only, started
from hypothesis import given, settings
from hypothesis import strategies as st

from slsgd_mx import ModelServer
from slsgd_mx.parameter_server.protocol import (
    FINITE,
    HEADER,
    HELLO,
    LATE,
    NONE,
    NOT_FINITE,
    RUNNING,
    Begin,
    Commit,
)
from slsgd_mx.rules import RULES
from slsgd_mx.system.mxnet import mx

# ---- equal to one process ------------------------------------------------------------------


@st.composite
def problems(draw):
    k = draw(st.integers(1, 7))
    widths = draw(st.lists(st.integers(1, 6), min_size=2, max_size=5))
    averaged = draw(st.lists(st.booleans(), min_size=len(widths), max_size=len(widths)))
    fixed = dict(
        k=k,
        b=draw(st.integers(0, (k - 1) // 2)),
        rule=draw(st.sampled_from(["trimmed-mean", "mean", "median"])),
        nonfinite=draw(st.sampled_from(["reject", "keep"])),
    )
    servers = draw(st.integers(1, min(5, sum(widths))))
    return widths, averaged, fixed, servers


@st.composite
def epochs(draw, k, size):
    """alpha, pushes by slot in some order, some of them missing or not finite."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    pushed = (rng.standard_normal((k, size)) * 10.0 ** rng.integers(-30, 30, size)).astype("f4")
    slots = draw(st.permutations(range(k)))
    slots = slots[: draw(st.sampled_from([k, k, k, k - 1, 0]))]
    for slot in draw(st.lists(st.integers(0, k - 1), max_size=2)):
        pushed[slot, draw(st.integers(0, size - 1))] = draw(
            st.sampled_from([math.nan, math.inf, -math.inf, 3e38])
        )
    return draw(st.sampled_from([1.0, 0.8, 0.5, 0.1, 1e-3])), slots, pushed


@settings(max_examples=120)
@given(problems(), st.data())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_any_number_of_servers_gives_the_bytes_of_one_process(problem, data):
    widths, averaged, options, servers = problem
    bounds = np.cumsum([0, *widths])
    x = normal(bounds[-1], seed=5)
    one = ModelServer(**options)
    parts = list(zip(bounds, bounds[1:], averaged))
    for number, (start, stop, average) in enumerate(parts):
        one.init(f"p{number}", mx.nd.array(x[start:stop]), averaged=average)
    plain = [(int(start), int(stop)) for start, stop, average in parts if not average]
    many = Cluster(x, servers, plain=plain, **options).start()
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


def test_models_larger_than_a_chunk_of_the_rule():
    """Servers cut the model where the rule's chunks would not."""
    x, pushed = normal(40_000, seed=2), normal(5, 40_000, seed=3)
    results = set()
    for servers in (1, 2, 3):
        many = Cluster(x, servers, k=5, b=1, plain=[(13_000, 27_000)]).start()
        for slot in range(5):
            many.push(slot, pushed[slot])
        many.commit(0.3)
        results.add(many.model.tobytes())
    assert len(results) == 1 and results != {x.tobytes()}


def test_a_huge_push_is_trimmed_on_the_server():
    many = started(size=4, servers=2, k=4, b=1)
    for slot, value in enumerate([1, 2, 3, 1e30]):
        many.push(slot, np.full(4, value, np.float32))
    many.commit(1.0)
    assert many.model.tolist() == [2.5] * 4


# ---- slots ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_only_the_server_that_holds_the_bad_value_says_so(bad):
    many = started(size=9, servers=3)
    pushed = normal(4, 9, seed=4)
    pushed[2, 4] = bad  # the server in the middle has 3..5
    for slot in range(4):
        many.push(slot, pushed[slot])
    assert [host.status.states[2] for host in many.hosts] == [FINITE, NOT_FINITE, FINITE]
    for host in many.hosts:
        assert np.delete(host.status.states, 2).tolist() == [FINITE] * 3
    update = many.commit(1.0)
    assert update.refused == (2,)
    for host in many.hosts:  # and after it everybody
        assert host.status.outcomes.tolist() == [FINITE, FINITE, NOT_FINITE, FINITE]
        assert host.status.states.tolist() == [NONE] * 4
    assert np.isfinite(many.model).all()


def test_the_states_of_slots_show_at_once():
    many = started(servers=2)
    assert many.hosts[0].status.states.tolist() == [NONE] * 4
    many.hosts[0].push(1, 3, normal(7))
    assert many.hosts[0].status.states.tolist() == [NONE, NONE, NONE, FINITE]
    assert many.hosts[1].status.states.tolist() == [NONE] * 4


def test_what_never_came_is_missing():
    many = started()
    for slot in (0, 1, 3):
        many.push(slot, normal(7))
    assert many.commit(0.5).missing == (2,)
    assert many.hosts[0].status.outcomes.tolist() == [FINITE, FINITE, NONE, FINITE]
    assert many.hosts[0].status.applied == 1


def test_too_few_leave_the_model_as_it_was():
    many = started(servers=2, b=1)
    before = many.model.tobytes()
    for slot in (0, 1):
        many.push(slot, normal(7))
    assert not many.commit(0.5).applied
    assert many.model.tobytes() == before
    assert many.statuses("applied") == [0, 0] and many.statuses("epoch") == [1, 1]


def test_the_header_of_the_model_is_its_epoch():
    many = started(epoch=6)
    assert many.hosts[0].model[:HEADER].tolist() == [6, HELLO]
    many.commit(0.5)
    assert many.hosts[0].model[:HEADER].tolist() == [7, 0]


def test_a_run_that_goes_on_takes_its_epoch_from_the_setup():
    many = started(epoch=41)
    many.push(0, normal(7), epoch=1)
    assert "slot 0 of epoch 1, after epoch 41" in only(many.hosts[0])
    many.push(0, normal(7), epoch=42)
    assert many.hosts[0].log == [] and many.hosts[0].status.states[0] == FINITE


def test_status_says_what_the_setup_said():
    status = started(epoch=3).hosts[0].status
    assert (status.phase, status.epoch, status.fingerprint) == (RUNNING, 3, 77)


def test_aggregation_is_timed(monkeypatch):
    many = started(k=1, b=0, rule="mean")
    many.push(0, normal(7))

    def slow(rows, b, out):
        many.clock.now += 2.25

    monkeypatch.setitem(RULES, "mean", RULES["mean"].__class__(slow, "slow"))
    many.commit(1.0)
    assert many.hosts[0].status.aggregation == 2.25


# ---- deadlines -----------------------------------------------------------------------------


def test_pushes_after_the_deadline_are_late():
    many = started(servers=2, deadline=5.0)
    many.command(Begin(1))
    for slot in range(3):
        many.push(slot, normal(7, seed=slot))
    many.clock.now += 5.0  # not more than the deadline
    assert many.logs == []
    many.clock.now += 0.001
    late = many.hosts[0].aggregator.shard.slots[3].copy()
    many.push(3, normal(7))
    for host in many.hosts:
        assert only(host).endswith("slot 3 of epoch 1 comes after the deadline")
        assert host.status.states.tolist() == [FINITE, FINITE, FINITE, LATE]
    assert many.hosts[0].aggregator.shard.slots[3].tobytes() == late.tobytes()
    many.push(3, normal(7))
    assert all("pushed already" in only(host) for host in many.hosts)
    many.hosts[0].command(Commit(1, 0.5, [0, 1, 2, 3], [], True))
    assert "not all have come" in only(many.hosts[0])
    assert many.commit(0.5).missing == (3,)


def test_a_push_at_the_deadline_is_in_time():
    many = started(deadline=5.0)
    many.command(Begin(1))
    many.clock.now += 5.0
    many.push(0, normal(7))
    assert many.hosts[0].status.states[0] == FINITE


def test_late_for_one_server_is_missing_for_all():
    many = started(servers=2, deadline=5.0)
    many.command(Begin(1))
    for slot in range(4):
        many.hosts[0].push(1, slot, normal(7, seed=slot))
    for slot in range(3):
        many.hosts[1].push(1, slot, normal(7, seed=slot))
    many.clock.now += 6
    many.hosts[1].push(1, 3, normal(7, seed=3))
    assert many.commit(0.5).accepted == (0, 1, 2)


def test_a_deadline_counts_from_the_beginning_of_its_epoch():
    many = started(deadline=5.0)
    many.clock.now += 50
    many.push(0, normal(7))  # nothing has begun
    many.command(Begin(1))
    many.clock.now += 50
    many.commit(0.5)
    many.push(0, normal(7))  # the next one has not begun
    many.command(Begin(2))
    many.clock.now += 4
    many.push(1, normal(7))
    assert many.logs == []
    many.clock.now += 4
    many.push(2, normal(7))
    assert many.hosts[0].status.states.tolist() == [FINITE, FINITE, LATE, NONE]


def test_without_a_deadline_nothing_is_late():
    many = started()
    many.command(Begin(1))
    many.clock.now += 10**9
    many.push(0, normal(7))
    assert many.logs == [] and many.hosts[0].status.states[0] == FINITE
