"""Aggregators driven by hand: one process's bytes from any number of servers, rubbish ignored."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slsgd_mx import ModelServer
from slsgd_mx._mxnet import mx
from slsgd_mx.aggregation import RULES
from slsgd_mx.dist.aggregator import Aggregator
from slsgd_mx.dist.protocol import (
    ENDED,
    FINITE,
    HEADER,
    HELLO,
    LATE,
    MODEL,
    NONE,
    NOT_FINITE,
    RUNNING,
    STATUS,
    WAITING,
    Begin,
    Commit,
    Configure,
    End,
    Report,
    Status,
    key_on,
    status_size,
    stretches,
    to_json,
)
from slsgd_mx.server import Settings
from slsgd_mx.shard import moving_average


class Clock:
    """Stands still unless told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Host:
    """One aggregator, with the memory that MXNet would hold for it."""

    def __init__(self, number, setup, clock):
        self.number, self.setup, self.log = number, setup, []
        self.aggregator = Aggregator(self.log.append, clock)
        self.start, self.stop = stretches(setup.size, setup.servers)[number]
        self.model = np.zeros(HEADER + self.stop - self.start, np.float32)
        self.board = Status(states=np.zeros(setup.settings.k), outcomes=np.zeros(setup.settings.k))
        self.board = self.board.to_array()

    def key(self, kind):
        return key_on(self.number, self.setup.servers, kind)

    def command(self, command):
        self.aggregator.command(command if isinstance(command, (str, bytes)) else to_json(command))

    def greet_model(self, x):
        """MXNet stores what is initialised; the push that follows shows the server where."""
        self.model[:HEADER] = self.setup.epoch, HELLO
        self.model[HEADER:] = x[self.start : self.stop]
        self.aggregator.push(self.key(MODEL), self.model.copy(), self.model)

    def greet_status(self):
        self.report(HELLO, 0)

    def push(self, epoch, slot, flat):
        pushed = np.concatenate([[epoch, slot], flat[self.start : self.stop]]).astype(np.float32)
        self.aggregator.push(self.key(MODEL), pushed, self.model)
        pushed[:] = math.nan  # it was only borrowed

    def report(self, *numbers):
        pushed = Report(*numbers).to_array(self.setup.settings.k)
        self.aggregator.push(self.key(STATUS), pushed, self.board)

    @property
    def status(self):
        """What a worker sees."""
        return Status.from_array(self.board)

    def frozen(self):
        """All that can be seen or that the next commit depends on."""
        shard = self.aggregator.shard
        slots = b"" if shard is None else shard.slots.tobytes()
        own = self.aggregator.status.to_array().tobytes()
        return self.model.tobytes(), self.board.tobytes(), own, slots


class Cluster:
    """S hosts, told what the workers and the coordinator would tell them."""

    def __init__(self, x, servers=1, k=4, b=1, plain=(), epoch=0, workers=3, **options):
        limit = options.pop("deadline", None)
        choices = Settings(k, b, **options)
        self.clock, self.epoch, self.x = Clock(), epoch, x
        self.setup = Configure(choices, workers, servers, x.size, list(plain), epoch, 77, limit)
        self.hosts = [Host(number, self.setup, self.clock) for number in range(servers)]

    def command(self, command):
        for host in self.hosts:
            host.command(command)

    def start(self):
        self.command(self.setup)
        for host in self.hosts:
            host.greet_status()
            host.greet_model(self.x)
        assert self.statuses("phase") == [RUNNING] * len(self.hosts)
        return self

    def push(self, slot, flat, epoch=None):
        for host in self.hosts:
            host.push(self.epoch + 1 if epoch is None else epoch, slot, flat)

    def commit(self, alpha):
        """As the coordinator does, from what the boards say."""
        states = np.array([host.status.states for host in self.hosts])
        came = np.isin(states, (FINITE, NOT_FINITE)).all(axis=0)
        finite = {int(s): bool((states[:, s] == FINITE).all()) for s in np.flatnonzero(came)}
        update = self.setup.settings.judge(finite)
        self.epoch += 1
        self.command(Commit(self.epoch, alpha, update.accepted, update.refused, update.applied))
        assert self.statuses("epoch") == [self.epoch] * len(self.hosts)
        return update

    def statuses(self, name):
        return [getattr(host.status, name) for host in self.hosts]

    @property
    def model(self):
        return np.concatenate([host.model[HEADER:] for host in self.hosts])

    @property
    def logs(self):
        return [line for host in self.hosts for line in host.log]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def started(size=7, **options):
    return Cluster(normal(size, seed=1), **options).start()


def only(host):
    """The one line of a host's log, which is taken out."""
    assert len(host.log) == 1, host.log
    return host.log.pop()


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


# ---- what is ignored -----------------------------------------------------------------------


def header(epoch, slot, size=7):
    return np.concatenate([[epoch, slot], np.ones(size)]).astype(np.float32)


@pytest.mark.parametrize(
    "pushed, message",
    [
        (header(0, 0), "slot 0 of epoch 0, after epoch 0"),
        (header(2, 0), "slot 0 of epoch 2, after epoch 0"),
        (header(-1, 0), "slot 0 of epoch -1, after epoch 0"),
        (header(1, 4), "slot=4, not 0 <= slot < 4"),
        (header(1, -2), "slot=-2, not 0 <= slot < 4"),
        (header(1, 2**30), "not 0 <= slot < 4"),
        (header(1, 0.5), "a push for epoch 1.0 and slot 0.5"),
        (header(1, math.nan), "a push for epoch 1.0 and slot nan"),
        (header(1, math.inf), "a push for epoch 1.0 and slot inf"),
        (header(1.5, 0), "a push for epoch 1.5 and slot 0.0"),
        (header(math.nan, 0), "a push for epoch nan and slot 0.0"),
        (header(1, 1), "slot 1 of epoch 1 has been pushed already"),
        (header(1, 0, size=6), "float32 (8,), not float32 (9,)"),
        (header(1, 0, size=8), "float32 (10,), not float32 (9,)"),
        (header(1, 0).reshape(3, 3), "float32 (3, 3), not float32 (9,)"),
        (header(1, 0)[:0], "float32 (0,), not float32 (9,)"),
        (header(1, 0).astype(np.float64), "float64 (9,), not float32 (9,)"),
        (header(1, 0).astype(np.float16), "float16 (9,), not float32 (9,)"),
        (header(1, 0).astype(np.int32), "int32 (9,), not float32 (9,)"),
        (header(0, HELLO), "the model is there already"),
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


@pytest.mark.parametrize("key", [-1, -2, 2, 3, 99, 2**40])
def test_unknown_keys(key):
    host = started(servers=1).hosts[0]
    before = host.frozen()
    host.aggregator.push(key, header(1, 0), host.model)
    assert only(host) == f"push to key {key} ignored: an unknown key"
    assert host.frozen() == before


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
    assert "there is no model yet" in only(host)
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


@pytest.mark.parametrize(
    "change", [dict(), dict(fingerprint=1), dict(settings=Settings(9)), dict(epoch=5)]
)
def test_a_second_configure(change):
    many = started()
    host, before = many.hosts[0], many.hosts[0].frozen()
    host.command(Configure(**{**vars(many.setup), **change}))
    assert only(host) == "command ignored: configure: that was done already"
    assert host.frozen() == before and host.aggregator.setup == many.setup


@pytest.mark.parametrize(
    "commit, message",
    [
        (Commit(2, 0.5, [0, 1, 2], [], True), "epoch 2 after epoch 0"),
        (Commit(10**30, 0.5, [0, 1, 2], [], True), "after epoch 0"),
        (Commit(1, 0.5, [0, 1, 3], [], True), "are to be aggregated, and not all have come"),
        (Commit(1, 0.5, [0, 1, 3], [], False), "are to be aggregated, and not all have come"),
        (Commit(1, 0.5, [0, 1, 2, 4], [], True), "slots out of range: 0 <= slot < 4"),
        (Commit(1, 0.5, [0, 1, 2], [4], True), "slots out of range: 0 <= slot < 4"),
        (Commit(1, 0.5, [0, 1, 2], [10**30], True), "slots out of range: 0 <= slot < 4"),
        (Commit(1, 0.5, [0, 1], [], True), "2 slots are too few for b=1"),
        (Commit(1, 0.5, [], [], True), "0 slots are too few for b=1"),
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


@pytest.mark.parametrize("epoch", [0, 2, 10**30])
def test_begin_of_another_epoch(epoch):
    many = started(deadline=5.0)
    many.command(Begin(epoch))
    assert f"epoch {epoch} after epoch 0" in only(many.hosts[0])
    many.clock.now += 100
    many.push(0, normal(7))
    assert many.hosts[0].status.states[0] == FINITE


@pytest.mark.parametrize("body", [b"", "", b"\x80\x04N.", "{}", '{"do": "stop"}', "[" * 9999])
def test_rubbish_commands(body):
    host = started().hosts[0]
    before = host.frozen()
    host.command(body)
    assert only(host).startswith("command ignored: ")
    assert host.frozen() == before


@pytest.mark.xfail(strict=True, reason="numbers too large for their arrays are not refused")
@pytest.mark.parametrize(
    "change",
    [
        dict(settings=Settings(10**18)),
        dict(settings=Settings(10**30)),
        dict(epoch=10**400),
        dict(fingerprint=10**400),
    ],
    ids=["k=10**18", "k=10**30", "epoch=10**400", "fingerprint=10**400"],
)
def test_a_configure_beyond_all_bounds_is_ignored(change):
    many = Cluster(normal(7))
    host = many.hosts[0]
    host.command(Configure(**{**vars(many.setup), **change}))
    assert only(host).startswith("command ignored: configure: ")
    many.start()


@pytest.mark.xfail(strict=True, reason="memory of another size than the model's is not noticed")
@pytest.mark.parametrize("size", [0, 1, 2, 3, 8, 10])
def test_other_memory_under_the_key_of_the_model(size):
    """Both are of one size, but not of the model's: another key, or a stray client's."""
    host = started().hosts[0]
    before = host.frozen()
    stored = np.zeros(size, np.float32)
    host.aggregator.push(host.key(MODEL), np.array([1, 0, *range(8)], np.float32)[:size], stored)
    assert "values, not 9" in only(host)
    assert host.frozen() == before


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
    [(3, 1), (-2, 1), (0.5, 1), (math.nan, 1), (math.inf, 1), (1e300, 1)]
    + [(1, 0), (1, 2), (1, 1.5), (1, math.nan)],
)
def test_reports_that_are_ignored(rank, epoch):
    host = started(workers=3).hosts[0]
    host.report(1, 1, 1.0, 2.0, 3.0)
    before = host.frozen()
    host.report(rank, epoch, 9.0, 9.0, 9.0)
    assert f"a report of worker {float(rank)} on epoch {float(epoch)}" in only(host)
    assert host.frozen() == before


@pytest.mark.xfail(strict=True, reason="worker 0 coordinates and reports nothing, yet it counts")
def test_a_report_in_the_name_of_the_coordinator():
    """It waits until exactly the others have reported."""
    host = started(workers=3).hosts[0]
    before = host.frozen()
    host.report(0, 1)
    assert "a report of worker 0.0" in only(host)
    assert host.frozen() == before


@pytest.mark.xfail(strict=True, reason="costs of a report are not looked at")
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0])
@pytest.mark.parametrize("position", range(3))
def test_a_report_of_impossible_costs(bad, position):
    """The coordinator makes a whole number of the bytes: int(nan) would end the run."""
    host = started(workers=3).hosts[0]
    costs = [1.0, 1.0, 1.0]
    costs[position] = bad
    host.report(1, 1, *costs)
    assert np.isfinite(totals(host)).all() and min(totals(host)) >= 0


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


@pytest.mark.xfail(strict=True, reason="a model that comes after the end starts the server again")
def test_the_end_is_final():
    many = Cluster(normal(7))
    host = many.hosts[0]
    many.command(many.setup)
    host.greet_status()
    many.command(End())
    assert host.status.phase == ENDED
    host.greet_model(many.x)
    assert host.status.phase == ENDED


# ---- anything at all -----------------------------------------------------------------------


class Reference:
    """What the servers ought to hold, on the whole model."""

    def __init__(self, x, k, b, rule):
        self.x, self.k, self.b, self.rule = x.copy(), k, b, rule
        self.epoch, self.pushed = 0, {}

    def push(self, epoch, slot, flat):
        if epoch == self.epoch + 1 and 0 <= slot < self.k and slot not in self.pushed:
            self.pushed[slot] = flat.copy()

    def commit(self, epoch, alpha, accepted, refused, applied):
        named = [*accepted, *refused]
        if (
            epoch != self.epoch + 1
            or any(slot not in self.pushed for slot in accepted)
            or any(slot >= self.k for slot in named)
            or len(set(named)) < len(named)
            or (applied and len(accepted) <= 2 * self.b)
        ):
            return
        if applied:
            aggregate = np.empty_like(self.x)
            rows = [self.pushed[slot] for slot in sorted(accepted)]
            RULES[self.rule].aggregate(rows, self.b, aggregate)
            moving_average(self.x, aggregate, alpha)
        self.epoch, self.pushed = epoch, {}


near = st.integers(-2, 6)
slot_lists = st.lists(st.integers(0, 5), max_size=4)
messages = st.one_of(
    st.tuples(st.just("push"), st.sampled_from([0, 1, 1, 1, 2]), near, st.integers(0, 99)),
    st.tuples(
        st.just("commit"),
        st.sampled_from([1, 1, 1, 0, 2]),
        st.sampled_from([1.0, 0.5]),
        slot_lists | st.just("all"),
        slot_lists | st.just([]),
        st.booleans(),
    ),
    st.tuples(st.just("header"), st.floats(width=32), st.floats(width=32)),
    st.tuples(st.just("memory"), st.integers(0, 12), st.sampled_from(["f4", "f8", "i4", "u1"])),
    st.tuples(st.just("key"), st.integers(4, 2**40) | st.integers(-(2**40), -1)),
    st.tuples(st.just("report"), st.floats(), st.floats(), st.floats()),
    st.tuples(st.just("text"), st.text(max_size=20) | st.binary(max_size=20)),
    st.tuples(st.just("begin"), near),
    st.tuples(st.just("configure"), st.integers(1, 9)),
)


def send(many, reference, kind, *values):
    """One message to all servers, and to the reference if it could mean something."""
    if kind == "push":
        ahead, slot, seed = values
        flat, epoch = normal(reference.x.size, seed=seed), reference.epoch + ahead
        if slot == HELLO:
            return
        many.push(slot, flat, epoch)
        reference.push(epoch, slot, flat)
    elif kind == "commit":
        ahead, alpha, accepted, refused, applied = values
        accepted = sorted(reference.pushed) if accepted == "all" else accepted
        values = reference.epoch + ahead, alpha, accepted, refused, applied
        many.command(Commit(*values))
        reference.commit(*values)
    elif kind == "header":
        for host in many.hosts:
            pushed = host.model.copy()
            pushed[:HEADER] = values
            if not all(float(value).is_integer() for value in values):
                host.aggregator.push(host.key(MODEL), pushed, host.model)
    elif kind == "memory":
        size, dtype = values
        for host in many.hosts:
            pushed = np.ones(size, dtype)
            if pushed.shape != host.model.shape or dtype != "f4":
                host.aggregator.push(host.key(MODEL), pushed, host.model)
    elif kind == "key":
        for host in many.hosts:
            host.aggregator.push(values[0], host.model.copy(), host.model)
    elif kind == "report":
        for host in many.hosts:
            host.report(*values)
    elif kind == "text":
        many.command(values[0])
    elif kind == "begin":
        many.command(json.dumps({"do": "begin", "epoch": values[0]}))
    else:
        changed = {**vars(many.setup), "settings": Settings(values[0]), "epoch": 5}
        many.command(Configure(**changed))


@settings(max_examples=200)
@given(
    st.lists(messages, max_size=25),
    st.integers(1, 3),
    st.sampled_from([(3, 1, "trimmed-mean"), (4, 1, "trimmed-mean"), (4, 0, "mean")]),
)
def test_after_any_messages_a_legal_epoch_gives_the_right_bytes(sent, servers, problem):
    k, b, rule = problem
    x = normal(8, seed=6)
    many = Cluster(x, servers, k=k, b=b, rule=rule).start()
    reference = Reference(x, k, b, rule)
    for message in sent:
        send(many, reference, *message)
        assert many.model.tobytes() == reference.x.tobytes()
        assert many.statuses("epoch") == [reference.epoch] * servers
        for host in many.hosts:
            assert sorted(np.flatnonzero(host.status.states)) == sorted(reference.pushed)
    many.epoch = reference.epoch
    for slot in range(k):
        flat = normal(8, seed=100 + slot)
        many.push(slot, flat)
        reference.push(reference.epoch + 1, slot, flat)
    many.commit(0.25)
    reference.commit(reference.epoch + 1, 0.25, range(k), [], True)
    assert many.model.tobytes() == reference.x.tobytes() != x.tobytes()
    assert many.statuses("epoch") == [reference.epoch] * servers
