"""Shard servers without MXNet: tests hold their memory and send their messages."""

import math

import numpy as np

from slsgd_mx.core.collusion import Settings
from slsgd_mx.core.server import judge
from slsgd_mx.parameter_server.commands import Commit, Configure, to_json
from slsgd_mx.parameter_server.protocol import (
    HEADER,
    HELLO,
    MODEL,
    STATUS,
    Header,
    Phase,
    Status,
    WorkerReport,
    finite_slots,
    key_on,
    shard_ranges,
    status_size,
)
from slsgd_mx.parameter_server.secret import Secret
from slsgd_mx.parameter_server.shard_server import ShardServer

SECRET = Secret("known to all roles")


class Host:
    """One shard server, with the memory that MXNet would hold for it."""

    def __init__(self, number, setup, clock, slot_folder=None):
        self.number, self.setup, self.log = number, setup, []
        self.server = ShardServer(SECRET, self.log.append, clock, slot_folder)
        self.start, self.stop = shard_ranges(setup.size, setup.servers)[number]
        self.model = np.zeros(HEADER + self.stop - self.start, np.float32)
        self.board = np.zeros(status_size(setup.settings.k), np.float32)

    def key(self, kind):
        return key_on(self.number, self.setup.servers, kind)

    def command(self, command):
        body = command if isinstance(command, (str, bytes)) else to_json(command)
        self.server.command(seal(body))

    def greet_model(self, x):
        """MXNet has stored the initial value; the first push shows the server where."""
        self.model[0] = self.setup.epoch
        self.model[HEADER:] = x[self.start : self.stop]
        self.send(MODEL, self.model.copy(), self.model, self.setup.epoch, HELLO)

    def greet_status(self):
        self.report(0, self.setup.epoch, slot=HELLO)

    def push(self, epoch, slot, flat, rank=0):
        part = flat[self.start : self.stop]
        pushed = np.concatenate([np.zeros(HEADER), part]).astype(np.float32)
        self.send(MODEL, pushed, self.model, epoch, slot, rank)
        pushed[:] = math.nan  # it is valid only during the call

    def report(self, rank, epoch, *costs, slot=0):
        pushed = WorkerReport(*costs).to_array(self.setup.settings.k)
        self.send(STATUS, pushed, self.board, epoch, slot, rank)

    def send(self, kind, pushed, stored, epoch, slot=0, rank=0):
        """A push as a worker of this run sends it."""
        self.server.push(self.key(kind), sign(self.key(kind), pushed, epoch, slot, rank), stored)

    @property
    def status(self):
        """The status that workers see."""
        return Status.from_array(self.board)

    def frozen(self):
        """The bytes of everything that workers see or that the next commit depends on."""
        shard = self.server.shard
        slots = b"" if shard is None else shard.slots.tobytes()
        own = self.server.status.to_array().tobytes()
        return self.model.tobytes(), self.board.tobytes(), own, slots


class Cluster:
    """Several hosts, which get the messages that workers and the coordinator would send.

    Their clock stands still until a test sets ``now``.
    """

    def __init__(self, x, servers=1, k=4, b=1, replaced=(), epoch=0, workers=3, **options):
        limit, places = options.pop("deadline", None), options.pop("places", ())
        owners, folder = options.pop("owners", ()), options.pop("slot_folder", None)
        choices = Settings(k, b, **options)
        self.now, self.epoch, self.x = 100.0, epoch, x
        sizes = workers, servers, x.size, list(replaced)
        self.setup = Configure(choices, *sizes, epoch, 77, limit, list(places), [], list(owners))
        numbers = range(servers)
        self.hosts = [Host(number, self.setup, lambda: self.now, folder) for number in numbers]

    def command(self, command):
        for host in self.hosts:
            host.command(command)

    def start(self):
        self.command(self.setup)
        for host in self.hosts:
            host.greet_status()
            host.greet_model(self.x)
        assert self.statuses("phase") == [Phase.RUNNING] * len(self.hosts)
        return self

    def push(self, slot, flat, epoch=None):
        for host in self.hosts:
            host.push(self.epoch + 1 if epoch is None else epoch, slot, flat)

    def push_all(self, slots):
        """Push a model of random numbers to each of the slots."""
        for slot in slots:
            self.push(slot, normal(self.x.size, seed=slot))
        return self

    def commit(self, alpha):
        """Commit an epoch as the coordinator does, from the status of all servers."""
        statuses = [host.status for host in self.hosts]
        update = judge(self.setup.settings, finite_slots(statuses))
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
    """The one line in a host's log, which is then empty."""
    assert len(host.log) == 1, host.log
    return host.log.pop()


def sign(key, pushed, epoch, slot=0, rank=0):
    """The push with a header that is right for the secret, even if its numbers make no sense."""
    numbers = [int(n) if float(n).is_integer() else n for n in (epoch, slot, rank)]
    pushed[:HEADER] = SECRET.header(key, Header(*numbers))
    return pushed


def seal(body):
    """A command with the digest of the secret ahead of it, whatever its text is."""
    text = body.encode(errors="surrogatepass") if isinstance(body, str) else body
    return SECRET._digest("command", text).hex().encode() + text


def header(key, epoch, slot, size=7, rank=0):
    """A push of ones as it arrives from the network."""
    return sign(key, np.ones(HEADER + size, np.float32), epoch, slot, rank)


def configured(**options):
    """A cluster that is configured but has no model, and its first host."""
    many = Cluster(normal(7), **options)
    many.command(many.setup)
    return many, many.hosts[0]


SIZE = HEADER + 7  # of the arrays that these tests push


def push(epoch, slot, size=7, rank=0):
    """A push of ones to the model of the only server."""
    return header(key_on(0, 1, MODEL), epoch, slot, size, rank)


def check_ignored(host, message, send, *arguments, **options):
    """A message changes nothing, and the one line in the log contains ``message``."""
    before = host.frozen()
    send(*arguments, **options)
    line = only(host)
    assert "ignored: " in line and message in line
    assert host.frozen() == before
