"""A server starts once it is configured, by a command that makes sense, and has its memory."""

import numpy as np
import pytest
from helpers.servers import Cluster, header, normal, only, started

from slsgd_mx.core.server import Settings
from slsgd_mx.parameter_server.protocol import (
    HEADER,
    HELLO,
    MODEL,
    MOST,
    NONE,
    RUNNING,
    STATUS,
    WAITING,
    Begin,
    Commit,
    Configure,
    End,
    Report,
    status_size,
)
from slsgd_mx.rules import RULES, Rule

# ---- memory --------------------------------------------------------------------------------


def test_nothing_is_taken_before_it_is_configured():
    host = Cluster(normal(7)).hosts[0]
    host.greet_model(normal(7))
    host.greet_status()
    host.push(1, 0, normal(7))
    host.report(1, 1)
    assert len(host.log) == 4
    assert all("ignored: nothing is configured yet" in line for line in host.log)
    for command in (Begin(1), Commit(1, 0.5, [], [], False), End()):
        host.log.clear()
        host.command(command)
        assert only(host) == "command ignored: nothing is configured yet"
    assert host.aggregator.status.phase == WAITING and host.aggregator.shard is None
    assert host.status.phase == WAITING and host.status.epoch == 0


def test_no_push_and_no_commit_before_the_model_is_there():
    many = Cluster(normal(7))
    host = many.hosts[0]
    many.command(many.setup)
    host.greet_status()
    host.push(1, 0, normal(7))
    assert "there is no such model here" in only(host)
    host.command(Commit(1, 0.5, [], [], False))
    assert only(host) == "command ignored: there is no model under way"
    assert host.status.phase == WAITING and host.status.epoch == 0


@pytest.mark.parametrize("first", ["model", "status"])
def test_a_server_runs_once_it_has_seen_both_memories(first):
    many = Cluster(normal(7))
    host = many.hosts[0]
    many.command(many.setup)
    greet = [lambda: host.greet_model(many.x), host.greet_status]
    for step in greet if first == "model" else greet[::-1]:
        assert host.aggregator.status.phase == WAITING
        host.push(1, 0, many.x)  # too early, in whatever order
        step()
    assert host.status.phase == RUNNING and host.status.states.tolist() == [NONE] * 4
    assert host.model[HEADER:].tobytes() == many.x.tobytes()


def test_a_model_of_another_size_is_not_adopted():
    many = Cluster(normal(7))
    host = many.hosts[0]
    many.command(many.setup)
    host.greet_status()
    for size in (6, 8):
        wrong = header(0, HELLO, size)
        host.aggregator.push(host.key(MODEL), wrong.copy(), wrong)
        assert f"{HEADER + size} values, not 9" in only(host)
    assert host.status.phase == WAITING
    host.greet_model(many.x)
    assert host.status.phase == RUNNING


def test_a_status_of_another_size_is_not_adopted():
    many = Cluster(normal(7))
    host = many.hosts[0]
    many.command(many.setup)
    for k in (3, 5):
        wrong = Report(HELLO, 0).to_array(k)
        host.aggregator.push(host.key(STATUS), wrong.copy(), wrong)
        assert f"{status_size(k)} values, not {status_size(4)}" in only(host)
        assert wrong.tobytes() == Report(HELLO, 0).to_array(k).tobytes()
    host.greet_model(many.x)
    assert host.aggregator.status.phase == WAITING
    host.greet_status()
    assert host.status.phase == RUNNING


# ---- configure -----------------------------------------------------------------------------


@pytest.mark.parametrize("change", [dict(), dict(settings=Settings(9), epoch=5)])
def test_a_second_configure(change):
    many = started()
    host, before = many.hosts[0], many.hosts[0].frozen()
    host.command(Configure(**{**vars(many.setup), **change}))
    assert only(host) == "command ignored: configure: that was done already"
    assert host.frozen() == before and host.aggregator.setup == many.setup


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(settings=Settings(MOST + 1)), "k=16777217 is no whole number from 1 to 16777216"),
        (dict(epoch=MOST + 1), "epoch=16777217 is no whole number from 0 to 16777216"),
        (dict(size=2**48 + 1), f"size={2**48 + 1} is no whole number from 1 to {2**48}"),
        (
            dict(fingerprint=10**400),
            f"fingerprint=1{'0' * 39} is no whole number from 0 to {2**48}",
        ),
    ],
)
def test_a_configure_beyond_all_bounds_is_ignored(change, message):
    many = Cluster(normal(7))
    host = many.hosts[0]
    host.command(Configure(**{**vars(many.setup), **change}))
    assert only(host) == f"command ignored: configure: {message}"
    many.start()


@pytest.fixture
def least_norm(monkeypatch):
    """A rule that compares whole models."""

    def choose(rows, b, out):
        out[:] = min(rows, key=lambda row: float((row.astype(np.float64) ** 2).sum()))

    rule = Rule(choose, "the model of least norm", coordinate_wise=False)
    monkeypatch.setitem(RULES, "least-norm", rule)


def test_a_rule_of_whole_models_is_refused_by_several_servers(least_norm):
    many = Cluster(normal(7), servers=2, rule="least-norm")
    many.command(many.setup)
    for host in many.hosts:
        assert only(host) == (
            "command ignored: configure: rule 'least-norm' compares whole models, and each of "
            "servers=2 holds a part of them: needs servers = 1"
        )
        assert host.aggregator.setup is None
        host.command(Configure(**{**vars(many.setup), "settings": Settings(4, 1)}))
        assert host.log == [] and host.aggregator.setup is not None


def test_a_rule_of_whole_models_is_taken_by_one_server(least_norm):
    many = started(size=2, k=3, b=0, rule="least-norm")
    # by coordinate slots 0 and 1 would win; as a whole slot 2 does
    for slot, flat in enumerate([[0, 9], [9, 0], [1, 2]]):
        many.push(slot, np.array(flat, np.float32))
    many.commit(1.0)
    assert many.logs == [] and many.model.tolist() == [1, 2]
