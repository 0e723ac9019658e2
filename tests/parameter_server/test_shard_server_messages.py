"""Messages to a shard server: how it starts and ends, and which pushes it ignores."""

import math

import numpy as np
import pytest
from helpers.servers import (
    SECRET,
    SIZE,
    Cluster,
    check_ignored,
    configured,
    header,
    normal,
    only,
    push,
    started,
)

from slsgd_mx.core.collusion import Settings
from slsgd_mx.parameter_server.commands import Begin, Commit, Configure, End, to_json
from slsgd_mx.parameter_server.protocol import (
    HEADER,
    HELLO,
    MODEL,
    MOST,
    PRODUCTS,
    SCORES,
    STATUS,
    Header,
    Phase,
    State,
    WorkerReport,
    status_size,
)
from slsgd_mx.parameter_server.secret import Secret

# ---- start ---------------------------------------------------------------------------------


def test_messages_before_configure_are_ignored():
    host = Cluster(normal(7)).hosts[0]
    pushes = [(host.greet_model, normal(7)), (host.greet_status,), (host.push, 1, 0, normal(7))]
    commands = Begin(1), Commit(1, 0.5, [], [], False), End()
    for send, *arguments in [*pushes, (host.report, 1, 1), *((host.command, c) for c in commands)]:
        send(*arguments)
        assert only(host).endswith("ignored: the server is not configured yet")
    assert host.server.status.phase == Phase.WAITING and host.server.shard is None
    assert host.status.phase == Phase.WAITING and host.status.epoch == 0


@pytest.mark.parametrize(
    "model_first, why", [(True, "no run is in progress"), (False, "does not hold that shard")]
)
def test_server_runs_once_it_knows_both_keys(model_first, why):
    many, host = configured()
    greet = [(host.greet_model, many.x), (host.greet_status,)]
    for send, *arguments in greet if model_first else greet[::-1]:
        assert host.server.status.phase == Phase.WAITING and host.server.status.epoch == 0
        send(*arguments)
        if host.server.status.phase == Phase.WAITING:  # after the first
            check_ignored(host, why, host.push, 1, 0, normal(7))
            commit = Commit(1, 0.5, [], [], False)
            check_ignored(host, "no run is in progress", host.command, commit)
    assert host.status.phase == Phase.RUNNING and host.status.states.tolist() == [State.NONE] * 4
    assert host.model[HEADER:].tobytes() == many.x.tobytes()


def test_first_pushes_of_another_size_are_ignored():
    many, host = configured()
    for size in (6, 8):
        wrong = np.zeros(HEADER + size, np.float32)
        host.send(MODEL, wrong.copy(), wrong, 0, HELLO)
        assert f"{HEADER + size} values, not {SIZE}" in only(host)
    for k in (3, 5):
        wrong = WorkerReport().to_array(k)
        host.send(STATUS, wrong.copy(), wrong, 0, HELLO)
        assert f"{status_size(k)} values, not {status_size(4)}" in only(host)
        assert not wrong.any()
    host.greet_model(many.x)
    assert host.server.status.phase == Phase.WAITING
    host.greet_status()
    assert host.status.phase == Phase.RUNNING


# ---- configure -----------------------------------------------------------------------------


def test_only_the_first_legal_configure_counts():
    many = Cluster(normal(7))
    host, command = many.hosts[0], Configure(**{**vars(many.setup), "epoch": MOST + 1})
    check_ignored(host, "configure: epoch=16777217 is not a whole number", host.command, command)
    many.start()
    for change in (dict(), dict(settings=Settings(9), epoch=5)):
        command = Configure(**{**vars(many.setup), **change})
        check_ignored(host, "configure: the server is configured already", host.command, command)
    assert host.server.setup == many.setup


def test_whole_model_rule_is_ignored_by_several_servers(least_norm):
    many, _ = configured(servers=2, rule="least-norm")
    for host in many.hosts:
        line = "command ignored: configure: rule 'least-norm' compares whole models, and each of "
        assert only(host).startswith(line)
        assert host.server.setup is None
        host.command(Configure(**{**vars(many.setup), "settings": Settings(4, 1)}))
        assert host.log == [] and host.server.setup is not None


def test_whole_model_rule_runs_on_one_server(least_norm):
    many = started(size=2, k=3, b=0, rule="least-norm")
    # by coordinate slots 0 and 1 would win; as a whole slot 2 does
    for slot, flat in enumerate([[0, 9], [9, 0], [1, 2]]):
        many.push(slot, np.array(flat, np.float32))
    many.commit(1.0)
    assert many.logs == [] and many.model.tolist() == [1, 2]


# ---- pushes of models and scores -----------------------------------------------------------


@pytest.mark.parametrize(
    "pushed, message",
    [
        (push(0, 0), "slot 0 of epoch 0 in epoch 1"),
        (push(2, 0), "slot 0 of epoch 2 in epoch 1"),
        (push(1, 4), "slot=4: needs 0 <= slot < 4"),
        (push(1, -2), "slot=-2: needs 0 <= slot < 4"),
        (push(1, math.nan), "epoch 1.0, slot nan, rank 0.0 are not whole numbers"),
        (push(1.5, 0), "epoch 1.5, slot 0.0, rank 0.0 are not whole numbers"),
        (push(1, 0, rank=math.inf), "epoch 1.0, slot 0.0, rank inf are not whole numbers"),
        (push(1, 1), "slot 1 of epoch 1 has been pushed already"),
        (push(1, 0, size=6), f"float32 ({SIZE - 1},), not float32 ({SIZE},)"),
        (push(1, 0)[: HEADER - 1], f"float32 ({HEADER - 1},) has no header"),
        (push(1, 0)[:HEADER], f"float32 ({HEADER},), not float32 ({SIZE},)"),
        (push(1, 0).reshape(1, SIZE), f"float32 (1, {SIZE}) has no header"),
        (push(1, 0)[:0], "float32 (0,) has no header"),
        (push(1, 0).astype(np.float64), f"float64 ({SIZE},) has no header"),
        (push(1, 0).astype(np.int32), f"int32 ({SIZE},) has no header"),
        (push(1, HELLO), "the model is initialised already"),
        (push(1, HELLO, rank=1), "worker 1 is not the coordinator"),
        (push(1, 0, rank=3), "there is no worker 3"),
        (push(1, 0, rank=-1), "there is no worker -1"),
    ],
)
def test_pushes_that_are_ignored(pushed, message):
    host = started().hosts[0]
    host.push(1, 1, normal(7))
    key = host.key(MODEL)
    line = f"push to key {key} ignored: {message}"
    check_ignored(host, line, host.server.push, key, pushed, host.model)


def test_only_the_worker_that_trains_a_slot_pushes_into_it():
    many = started(owners=[0, 1, 2, 1], attack="worst-case")
    host = many.hosts[0]
    for slot, rank in [(0, 1), (0, 2), (1, 0), (2, 0), (3, 2), (4, 1), (7, 0)]:  # 4 to 7: starts
        line = f"slot {slot} of epoch 1 is not trained by worker {rank}"
        check_ignored(host, line, host.push, 1, slot, normal(7), rank)
    for slot, rank in [(0, 0), (1, 1), (2, 2), (3, 1), (4, 0), (7, 1), (8, 2)]:  # 8: the target
        host.push(1, slot, normal(7), rank)
    assert host.log == [] and host.status.states.tolist() == [State.FINITE] * 4
    for owners, why in [([0, 1], "owners of 2 slots, not 4"), ([0, 1, 2, 3], "owner=3 is not a ")]:
        commit = Commit(1, 0.5, [0, 1, 2], [], True, None, owners)
        check_ignored(host, why, host.command, commit)
    host.command(Commit(1, 0.5, [0, 1, 2], [], True, None, [2, 2, 2, 2]))
    check_ignored(host, "is not trained by worker 0", host.push, 2, 0, normal(7))
    host.push(2, 0, normal(7), 2)
    assert host.log == [] and host.status.states[0] == State.FINITE


def test_messages_that_do_not_know_the_secret_are_ignored():
    many = started()
    host, key = many.hosts[0], many.hosts[0].key(MODEL)
    other, why = Secret("another long secret"), "it does not come from a process that knows SLSGD"
    wrong = {
        "no token": np.zeros(HEADER - 3),
        "another secret": other.header(key, Header(1, 0, 0))[3:],
        "of another key": SECRET.header(key + 1, Header(1, 0, 0))[3:],
        "of another epoch": SECRET.header(key, Header(2, 0, 0))[3:],
        "of another slot": SECRET.header(key, Header(1, 1, 0))[3:],
        "of another worker": SECRET.header(key, Header(1, 0, 1))[3:],
        "one bit": push(1, 0)[3:HEADER] + np.eye(1, HEADER - 3, 4)[0],
        "negative zero": np.full(HEADER - 3, -0.0),
        "nan": np.full(HEADER - 3, math.nan),
    }
    for name, token in wrong.items():
        pushed = push(1, 0)
        assert not np.array_equal(pushed[3:HEADER], token), name
        pushed[3:HEADER] = token
        check_ignored(host, why, host.server.push, key, pushed, host.model)
    text = to_json(End())
    for body in (
        text,
        other.seal(text),
        SECRET.seal(text) + " ",
        SECRET.seal(text)[1:],
        "",
        b"\xff",
    ):
        check_ignored(host, why, host.server.command, body)
    assert host.status.phase == Phase.RUNNING
    host.server.push(key, push(1, 0), host.model)
    host.server.command(SECRET.seal(text))
    assert host.log == [] and host.status.phase == Phase.ENDED


def test_workers_cannot_pull_a_token():
    host = started(servers=1, workers=2).push_all(range(4)).hosts[0]
    stored = np.zeros(HEADER + 3, np.float32)
    host.send(SCORES + 1, np.ones(HEADER + 3, np.float32), stored, 7, rank=1)
    for memory in (stored, host.model, host.board):
        assert not memory[1:HEADER].any()
    assert stored[0] == 7


def test_pushes_to_unknown_keys_or_other_memory_are_ignored():
    host = started(servers=1, workers=3).hosts[0]
    line = f"push to key 2 ignored: {SIZE} values are not inner products"
    check_ignored(host, line, host.send, PRODUCTS, push(1, 0), host.model, 1)
    line = "push to key 2 ignored: worker 1 is not the coordinator"
    check_ignored(host, line, host.send, PRODUCTS, push(1, 0), host.model, 1, 0, 1)
    for key in (-1, SCORES + 3, 2**40):
        line = f"push to key {key} ignored: unknown key"
        check_ignored(host, line, host.server.push, key, header(key, 1, 0), host.model)
    for size in (HEADER, SIZE - 1, SIZE + 1):  # of the push and the memory
        pushed, stored = push(1, 0, size=8)[:size], np.zeros(size, np.float32)
        check_ignored(host, f"{size} values, not {SIZE}", host.send, MODEL, pushed, stored, 1)


@pytest.mark.parametrize("rank", [1, 2])
def test_scores_of_followers_are_stored_unchanged(rank):
    for host in started(servers=2, workers=3).hosts:
        before, stored = host.frozen(), np.zeros(HEADER + 3, np.float32)
        scores = np.array([1.5, math.nan, -0.0], np.float32)
        pushed = np.concatenate([np.zeros(HEADER, np.float32), scores])
        host.send(SCORES + rank, pushed, stored, 5, rank=rank)
        assert stored[HEADER:].tobytes() == scores.tobytes() and stored[0] == 5
        assert host.log == [] and host.frozen() == before
        line = f"score of worker {rank} from worker {3 - rank}"
        check_ignored(host, line, host.send, SCORES + rank, pushed, stored, 5, 0, 3 - rank)


@pytest.mark.parametrize("first, state", [(3, State.FINITE), (math.inf, State.NOT_FINITE)])
def test_first_push_of_a_slot_counts(first, state):
    many = started(k=1, b=0, nonfinite="keep")
    host = many.hosts[0]
    many.push(0, np.full(7, first, np.float32))
    check_ignored(host, "pushed already", host.push, 1, 0, np.full(7, 4, np.float32))
    assert host.status.states[0] == state
    many.commit(1.0)
    assert many.model.tolist() == [first] * 7


# ---- status and end ------------------------------------------------------------------------


def test_status_is_published_after_every_message():
    """Even if something else were to overwrite the memory that workers pull it from."""
    many = started(deadline=5.0)
    host = many.hosts[0]
    commands = Begin(1), b"rubbish", Commit(1, 0.5, [], [], False), End()
    messages = [
        (host.push, 1, 0, many.x),
        (host.push, 1, 0, many.x),  # ignored
        (host.report, 1, 1, 2.0),
        (host.report, 9, 1, 2.0),  # ignored
        *((host.command, command) for command in commands),
        (host.server.push, 99, host.model.copy(), host.model),
    ]
    for send, *arguments in messages:
        host.board[:] = -1
        send(*arguments)
        assert host.board.tobytes() == host.server.status.to_array().tobytes()
    assert host.status.phase == Phase.ENDED and host.status.epoch == 1


def test_messages_after_the_end_are_ignored():
    many = started(servers=2).push_all(range(4))
    many.command(End())
    assert many.statuses("phase") == [Phase.ENDED] * 2 and many.logs == []
    commit = Commit(1, 0.5, [0, 1, 2, 3], [], True)
    for host in many.hosts:
        check_ignored(host, "no run is in progress", host.command, commit)
        check_ignored(host, "no run is in progress", host.push, 1, 0, normal(7))
        check_ignored(host, "the server is configured already", host.command, many.setup)


def test_model_after_the_end_does_not_start_the_run():
    many, host = configured()
    host.greet_status()
    many.command(End())
    assert host.status.phase == Phase.ENDED
    host.greet_model(many.x)
    assert host.status.phase == Phase.ENDED
