"""Arrays that workers and servers exchange: keys, shards, headers, statuses and reports."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scaling import servers_needed
from slsgd_mx.core.collusion import Settings
from slsgd_mx.errors import ConfigError
from slsgd_mx.parameter_server.protocol import (
    HEADER,
    HELLO,
    LARGEST_SHARD,
    MODEL,
    NUMBERS,
    SPREAD,
    STATUS,
    Header,
    ProtocolError,
    Status,
    WorkerReport,
    check_divisible,
    find_key,
    key_on,
    products_size,
    read_header,
    shard_ranges,
    status_size,
)
from slsgd_mx.rules import RULES, Rule, mean_rows
from slsgd_mx.rules.pipeline import blocks


def test_every_server_has_its_own_keys():
    for servers in range(1, 65):
        keys = [key_on(s, servers, kind) for kind in (MODEL, STATUS) for s in range(servers)]
        assert len(set(keys)) == 2 * servers
        assert min(keys) >= 0
        # MXNet's rule: EncodeDefaultKey in kvstore_dist.h
        assert [(key * 9973) % servers for key in keys] == 2 * list(range(servers))
        found = [find_key(key, servers) for key in keys]
        assert found == [(s, kind) for kind in (MODEL, STATUS) for s in range(servers)]
    servers = SPREAD - 1  # the largest number
    for server in (0, 1, servers - 1):
        assert find_key(key_on(server, servers, STATUS), servers) == (server, STATUS)
    for servers in (1, 2, 5):  # other keys
        kinds = {find_key(key, servers)[1] for key in (-1, 2 * servers, 2**40)}
        assert not kinds & {MODEL, STATUS}


@given(st.integers(1, 10**7), st.integers(1, 200))
def test_shards_cover_the_model_once_and_evenly(size, servers):
    servers = min(servers, len(blocks(size)))
    parts = shard_ranges(size, servers)
    assert len(parts) == servers
    assert parts[0][0] == 0 and parts[-1][1] == size
    assert all(left[1] == right[0] for left, right in zip(parts, parts[1:]))
    lengths = [stop - start for start, stop in parts]
    width = blocks(size)[0][1]
    assert min(lengths) >= 1 and max(lengths) - min(lengths) < 2 * width
    assert {start for start, _ in parts} <= {start for start, _ in blocks(size)}


@pytest.mark.parametrize(
    "size, servers, message",
    [
        (10, 0, "servers=0 is out of range: needs 1 <= servers <= 10"),
        (10, -1, "servers=-1 is out of range: needs 1 <= servers <= 10"),
        (10, 11, "servers=11 is out of range: needs 1 <= servers <= 10"),
        (10**6, 65, "servers=65 is out of range: needs 1 <= servers <= 64"),
        (10**9, 1025, "servers=1025 is out of range: needs 1 <= servers <= 1024"),
    ],
)
def test_servers_out_of_range(size, servers, message):
    with pytest.raises(ConfigError) as error:
        shard_ranges(size, servers)
    assert str(error.value) == message


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_shard_of_two_gigabytes_is_too_large(servers):
    block = servers * LARGEST_SHARD // 1024  # shards consist of whole blocks
    assert len(shard_ranges(servers * LARGEST_SHARD - 3 * block, servers)) == servers
    with pytest.raises(ConfigError) as error:
        shard_ranges(servers * LARGEST_SHARD + 1, servers)
    text = str(error.value)
    assert f"servers={servers} is out of range" in text
    assert f"needs servers >= {servers + 1}," in text and f"at most {LARGEST_SHARD:,}" in text
    assert len(shard_ranges(servers * LARGEST_SHARD + 1, servers + 1)) == servers + 1
    assert 4 * (LARGEST_SHARD + HEADER) < 2**31


@pytest.mark.parametrize(
    "count, most, way",
    [(1, 4094, "16,777,216: choose a smaller k$"), (159, 1297, "a smaller k, or more servers$")],
)
def test_inner_products_that_no_message_holds_are_refused(count, most, way):
    assert products_size(Settings(most, 0, "krum"), count) <= LARGEST_SHARD
    with pytest.raises(ConfigError, match=f"k={most + 1} is out of range: .* {way}"):
        products_size(Settings(most + 1, 0, "krum"), count)
    assert products_size(Settings(10**5, 0, "mean"), count) > 0


def test_the_servers_that_the_documentation_asks_for_can_hold_the_model():
    page = Path(__file__).resolve().parents[2] / "docs" / "scaling.md"
    table = (
        page.read_text(encoding="utf-8").split("**Servers needed", 1)[1].split("**Seconds", 1)[0]
    )
    rows = [line.replace(",", "").split("|")[1:-1] for line in table.splitlines() if "| 1" in line]
    assert len(rows) == 4
    for k, *needed in ([int(cell) for cell in row] for row in rows):
        assert needed == [servers_needed(k, d) for d in (1e6, 1e7, 1e8, 1e9)]
        for power, servers in zip((6, 7, 8, 9), needed):
            assert len(shard_ranges(10**power, servers)) == servers


@given(st.integers(0, 2**24), st.integers(HELLO, 2**24), st.integers(0, 2**24))
def test_headers(epoch, slot, rank):
    pushed = np.array([epoch, slot, rank, 8], np.float32)
    assert read_header(pushed) == Header(epoch, slot, rank)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.5, -0.25, 1e-30])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_headers_that_are_not_whole_numbers(bad, position):
    pushed = np.ones(4, np.float32)
    pushed[position] = bad
    with pytest.raises(ProtocolError, match="epoch .*, slot .*, rank .* are not whole numbers"):
        read_header(pushed)


doubles = st.floats(width=64)  # NaN, infinities and subnormal numbers too
whole = st.integers(0, 2**53)


def transmit(array):
    """The array as MXNet transmits it: the bytes of float32 values."""
    assert array.dtype == np.float32 and array.ndim == 1
    return np.frombuffer(array.tobytes(), np.float32)


def bits(values):
    return np.array(values, np.float64).tobytes()


@given(st.tuples(doubles, doubles, doubles), st.integers(1, 12))
def test_reports_are_transmitted_bit_for_bit(numbers, k):
    array = transmit(WorkerReport(*numbers).to_array(k))
    assert array.size == status_size(k)
    assert bits(WorkerReport.from_array(array)) == bits(numbers)


COUNTS = ("phase", "epoch", "fingerprint", "applied", "done")


@given(
    st.fixed_dictionaries({name: whole if name in COUNTS else doubles for name in NUMBERS}),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12),
)
def test_statuses_are_transmitted_bit_for_bit(numbers, slots):
    states, outcomes = np.array(slots, np.float64).T
    array = transmit(Status(**numbers, states=states, outcomes=outcomes).to_array()).copy()
    assert array.size == status_size(len(slots))
    back = Status.from_array(array)
    array[:] = -1  # the status is a copy
    for name, number in numbers.items():
        assert bits(getattr(back, name)) == bits(number)
        assert type(getattr(back, name)) is (int if name in COUNTS else float)
    assert back.states.tolist() == states.tolist()
    assert back.outcomes.tolist() == outcomes.tolist()


def test_whole_model_rules_need_one_server(monkeypatch):
    monkeypatch.setitem(RULES, "least-norm", Rule("a rule", mean_rows, whole=True))
    check_divisible(Settings(5, rule="least-norm"), 1)
    for rule, servers in itertools.product(("trimmed-mean", "mean", "median"), (1, 2, 64)):
        check_divisible(Settings(5, rule=rule), servers)
    for servers in (2, 5):
        with pytest.raises(ConfigError) as error:
            check_divisible(Settings(5, rule="least-norm"), servers)
        assert str(error.value) == (
            f"rule 'least-norm' compares whole models, and each of servers={servers} holds only a "
            "shard: needs servers = 1"
        )
