"""What goes over the wire as arrays: keys, stretches, headers, statuses and reports, by bytes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slsgd_mx.errors import ConfigError
from slsgd_mx.parameter_server import protocol
from slsgd_mx.parameter_server.protocol import (
    HELLO,
    LARGEST_SHARD,
    MODEL,
    SPREAD,
    STATUS,
    ProtocolError,
    Report,
    Status,
    find_key,
    key_on,
    read_header,
    status_size,
    stretches,
)

# ---- keys ----------------------------------------------------------------------------------


def test_every_server_has_its_own_keys():
    for servers in range(1, 65):
        keys = [key_on(s, servers, kind) for kind in (MODEL, STATUS) for s in range(servers)]
        assert len(set(keys)) == 2 * servers
        assert min(keys) >= 0
        # MXNet's rule, in its own words: kvstore_dist.h, EncodeDefaultKey
        assert [(key * 9973) % servers for key in keys] == 2 * list(range(servers))
        found = [find_key(key, servers) for key in keys]
        assert found == [(s, kind) for kind in (MODEL, STATUS) for s in range(servers)]


def test_keys_for_as_many_servers_as_there_can_be():
    servers = SPREAD - 1
    for server in (0, 1, servers - 1):
        assert find_key(key_on(server, servers, STATUS), servers) == (server, STATUS)


def test_other_keys_are_of_no_kind():
    for servers in (1, 2, 5):
        kinds = {find_key(key, servers)[1] for key in (-1, 2 * servers, 2**40)}
        assert not kinds & {MODEL, STATUS}


# ---- stretches -----------------------------------------------------------------------------


@given(st.integers(1, 10**7), st.integers(1, 200))
def test_stretches_cover_the_model_once_and_evenly(size, servers):
    servers = min(servers, size)
    parts = stretches(size, servers)
    assert len(parts) == servers
    assert parts[0][0] == 0 and parts[-1][1] == size
    assert all(left[1] == right[0] for left, right in zip(parts, parts[1:]))
    lengths = [stop - start for start, stop in parts]
    assert min(lengths) >= 1 and max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize(
    "size, servers, message",
    [
        (10, 0, "servers=0 is out of range: needs 1 <= servers <= 10"),
        (10, -1, "servers=-1 is out of range: needs 1 <= servers <= 10"),
        (10, 11, "servers=11 is out of range: needs 1 <= servers <= 10"),
        (10**6, SPREAD, f"servers={SPREAD} is out of range: needs 1 <= servers <= {SPREAD - 1}"),
    ],
)
def test_servers_out_of_range(size, servers, message):
    with pytest.raises(ConfigError) as error:
        stretches(size, servers)
    assert str(error.value) == message


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_a_message_of_two_gigabytes_is_too_large(servers):
    assert len(stretches(servers * LARGEST_SHARD, servers)) == servers
    with pytest.raises(ConfigError) as error:
        stretches(servers * LARGEST_SHARD + 1, servers)
    text = str(error.value)
    assert f"servers={servers} is out of range" in text
    assert f"needs servers >= {servers + 1}," in text and f"{LARGEST_SHARD:,} at most" in text
    assert len(stretches(servers * LARGEST_SHARD + 1, servers + 1)) == servers + 1


def test_the_largest_message_is_counted_in_31_bits():
    assert 4 * (LARGEST_SHARD + protocol.HEADER) < 2**31


# ---- headers -------------------------------------------------------------------------------


@given(st.integers(0, 2**24), st.integers(HELLO, 2**24))
def test_headers(epoch, slot):
    pushed = np.array([epoch, slot, 7, 8], np.float32)
    assert read_header(pushed) == (epoch, slot)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.5, -0.25, 1e-30])
@pytest.mark.parametrize("position", [0, 1])
def test_headers_that_are_no_whole_numbers(bad, position):
    pushed = np.ones(4, np.float32)
    pushed[position] = bad
    with pytest.raises(ProtocolError, match="a push for epoch .* and slot"):
        read_header(pushed)


# ---- arrays --------------------------------------------------------------------------------

doubles = st.floats(width=64)  # NaN, infinities and subnormal numbers too
whole = st.integers(0, 2**53)


def over_the_wire(array):
    """As MXNet sends it: float32 values, their bytes."""
    assert array.dtype == np.float32 and array.ndim == 1
    return np.frombuffer(array.tobytes(), np.float32)


def bits(values):
    return np.array(values, np.float64).tobytes()


@given(st.tuples(doubles, doubles, doubles, doubles, doubles), st.integers(1, 12))
def test_reports_come_through_bit_for_bit(numbers, k):
    array = over_the_wire(Report(*numbers).to_array(k))
    assert array.size == status_size(k)
    assert bits(Report.from_array(array)) == bits(numbers)


@given(
    st.tuples(whole, whole, st.integers(0, 2**48 - 1), whole, whole),
    st.tuples(doubles, doubles, doubles, doubles),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12),
)
def test_statuses_come_through_bit_for_bit(counts, seconds, slots):
    phase, epoch, fingerprint, applied, done = counts
    aggregation, training, transfer, sent = seconds
    states, outcomes = np.array(slots, np.float64).T
    status = Status(
        phase=phase,
        epoch=epoch,
        fingerprint=fingerprint,
        applied=applied,
        aggregation=aggregation,
        done=done,
        training=training,
        transfer=transfer,
        sent=sent,
        states=states,
        outcomes=outcomes,
    )
    array = over_the_wire(status.to_array())
    assert array.size == status_size(len(slots))
    back = Status.from_array(array)
    assert (back.phase, back.epoch, back.fingerprint, back.applied, back.done) == counts
    assert bits([back.aggregation, back.training, back.transfer, back.sent]) == bits(seconds)
    assert back.states.tolist() == states.tolist()
    assert back.outcomes.tolist() == outcomes.tolist()


def test_what_is_read_is_a_copy():
    memory = Status(states=np.zeros(2), outcomes=np.zeros(2)).to_array()
    status = Status.from_array(memory)
    memory[:] = 1
    assert status.states.tolist() == [0, 0]
