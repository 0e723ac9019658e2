"""Pushes in a mapped file give the bytes that pushes in memory give."""

import re

import numpy as np
import pytest
from helpers.servers import Cluster, normal, only, started

from slsgd_mx.attacks import ATTACKS
from slsgd_mx.core import flat_model
from slsgd_mx.core.model_server import ModelServer
from slsgd_mx.parameter_server.protocol import Phase
from slsgd_mx.rules import RULES
from slsgd_mx.system import slot_memory
from slsgd_mx.system.mxnet import mx

K, SIZE = 12, 3000
COLLUDING = [name for name in ATTACKS if ATTACKS[name].colludes]


@pytest.fixture(autouse=True)
def little_at_a_time(monkeypatch):
    """Aggregate 64 coordinates at a time, or blocks of 47."""
    monkeypatch.setattr(flat_model, "RESIDENT", 1)
    monkeypatch.delenv(slot_memory.VARIABLE, raising=False)


def epoch(folder, rule="trimmed-mean", attack=None, poisoned=()):
    """One epoch of a server; its model and shares, and whether its pushes were in a file."""
    server = ModelServer(K, 2, rule, "keep", attack, slot_folder=folder)
    server.init("w", normal(SIZE - 10, seed=77))
    server.init("mean", normal(10, seed=78), moving_average=False)
    server.start(0)
    for slot in range(K):
        values = normal(SIZE, seed=slot)
        values[slot] = np.nan if slot == 11 else 1e30
        server.push("w", mx.nd.array(values[10:]), slot)
        server.push("mean", mx.nd.array(values[:10]), slot)
    if server.settings.extra:
        for row in (K, K + 1, 2 * K):  # where they start from, and a target
            server.push("w", mx.nd.ones(SIZE - 10), row)
            server.push("mean", mx.nd.ones(10), row)
    update = server.update(0.6, poisoned)
    assert update.applied
    values = b"".join(value.tobytes() for value in server.values().values())
    return values, update.shares, server._memory.mapped


@pytest.mark.parametrize("rule", [*RULES, "nnm+trimmed-mean", "bucketing+median"])
def test_a_rule_gives_the_bytes_of_memory_from_a_file(rule, tmp_path, monkeypatch):
    *expected, mapped = epoch(tmp_path, rule)
    assert not mapped
    monkeypatch.setenv(slot_memory.VARIABLE, "0")
    *found, mapped = epoch(tmp_path, rule)
    assert mapped and found == expected


@pytest.mark.parametrize("attack", COLLUDING)
def test_a_colluding_attack_gives_the_bytes_of_memory_from_a_file(attack, tmp_path, monkeypatch):
    text = "alie:z=1" if attack == "alie" else attack
    *expected, _ = epoch(tmp_path, attack=text, poisoned=(0, 1))
    monkeypatch.setenv(slot_memory.VARIABLE, "0")
    *found, mapped = epoch(tmp_path, attack=text, poisoned=(0, 1))
    assert mapped and found == expected


def test_space_for_what_attackers_show_is_reserved_before_the_first_epoch(tmp_path, monkeypatch):
    """A full disk is then an error before anything is computed."""
    monkeypatch.setenv(slot_memory.VARIABLE, "0")
    counts, make = [], slot_memory.map_file

    def map_file(folder, count, what):
        counts.append(count)
        return make(folder, count, what)

    monkeypatch.setattr(slot_memory, "map_file", map_file)
    for attack, rows in {"alie:z=1": [K], "worst-case": [K, K + 1]}.items():
        counts.clear()
        server = ModelServer(K, 2, attack=attack, slot_folder=tmp_path)
        server.init("w", np.zeros(SIZE, np.float32))
        server.start(0)
        assert counts == [4 * SIZE * row for row in rows]


@pytest.mark.parametrize("servers", [1, 2])
def test_shard_servers_give_the_bytes_of_memory_from_a_file(servers, tmp_path, monkeypatch):
    models = []
    for limit in ("1GB", "0"):
        monkeypatch.setenv(slot_memory.VARIABLE, limit)
        cluster = started(SIZE, servers=servers, slot_folder=tmp_path)
        cluster.push_all(range(4)).commit(0.7)
        cluster.push_all(range(3)).commit(0.7)
        assert {host.server.shard._memory.mapped for host in cluster.hosts} == {limit == "0"}
        models.append(cluster.model.tobytes())
    assert models[0] == models[1]


def test_a_shard_server_without_disk_space_does_not_start(tmp_path, monkeypatch):
    monkeypatch.setenv(slot_memory.VARIABLE, "0")
    (tmp_path / "file").touch()
    cluster = Cluster(normal(SIZE), slot_folder=tmp_path / "file" / "folder")
    cluster.command(cluster.setup)
    (host,) = cluster.hosts
    host.greet_status()
    host.greet_model(cluster.x)
    assert cluster.statuses("phase") == [Phase.WAITING]
    assert re.search("cannot write to .*4 pushes of 3000 values need|Not a directory", only(host))
