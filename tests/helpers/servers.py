"""Aggregators driven by hand: their memory, their messages, and what can be seen of them."""

import math

import numpy as np

from slsgd_mx.core.server import Settings
from slsgd_mx.parameter_server.aggregator import Aggregator
from slsgd_mx.parameter_server.protocol import (
    FINITE,
    HEADER,
    HELLO,
    MODEL,
    NOT_FINITE,
    RUNNING,
    STATUS,
    Commit,
    Configure,
    Report,
    Status,
    key_on,
    stretches,
    to_json,
)


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


def header(epoch, slot, size=7):
    """A push of ones as it comes from the network."""
    return np.concatenate([[epoch, slot], np.ones(size)]).astype(np.float32)
