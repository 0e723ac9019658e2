"""Any messages in any order: shard servers hold the same bytes as a simple reference."""

import numpy as np
from helpers.servers import Cluster, normal, sign
from hypothesis import given, settings
from hypothesis import strategies as st

from slsgd_mx.core.collusion import Settings
from slsgd_mx.core.flat_model import moving_average
from slsgd_mx.parameter_server.commands import Begin, Commit, Configure
from slsgd_mx.parameter_server.protocol import HEADER, HELLO, MODEL
from slsgd_mx.rules.pipeline import find_rule


class Reference:
    """What the servers should hold, on the whole model."""

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
            or any(slot not in self.pushed for slot in named)
            or any(slot >= self.k for slot in named)
            or len(set(named)) < len(named)
            or (applied and len(accepted) <= 2 * self.b)
        ):
            return
        if applied:
            aggregate = np.empty_like(self.x)
            rows = [self.pushed[slot] for slot in sorted(accepted)]
            find_rule(self.rule).aggregate(rows, self.x, self.b, aggregate)
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
    st.tuples(st.just("memory"), st.integers(0, 24), st.sampled_from(["f4", "f8", "i4", "u1"])),
    st.tuples(st.just("key"), st.integers(4, 2**40) | st.integers(-(2**40), -1)),
    st.tuples(st.just("report"), st.floats(), st.floats(), st.floats()),
    st.tuples(
        st.just("command"), st.text(max_size=20) | st.binary(max_size=20) | st.builds(Begin, near)
    ),
    st.tuples(st.just("configure"), st.integers(1, 9)),
)


def send(many, reference, kind, *values):
    """Send one message to all servers, and to the reference if it could be legal."""
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
    elif kind == "command":
        many.command(values[0])
    elif kind == "configure":
        changed = {**vars(many.setup), "settings": Settings(values[0]), "epoch": 5}
        many.command(Configure(**changed))
    for host in many.hosts:
        if kind == "header" and not all(float(value).is_integer() for value in values):
            pushed = host.model.copy()
            host.send(MODEL, pushed, host.model, *values)
        elif kind == "memory" and (values[0] != host.model.size or values[1] != "f4"):
            host.server.push(host.key(MODEL), np.ones(*values), host.model)
            if values[0] >= HEADER:
                host.send(MODEL, np.ones(*values), host.model, 1)
        elif kind == "key":
            host.server.push(values[0], sign(values[0], host.model + 1, 1), host.model.copy())
        elif kind == "report":
            host.report(*values)


@settings(max_examples=2 * settings.default.max_examples)
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
