"""Roles of a distributed run without other processes: what they are given and what they report."""

import dataclasses
import json
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from slsgd_mx.core.collusion import Settings
from slsgd_mx.core.server import Update
from slsgd_mx.errors import LostError
from slsgd_mx.parameter_server import client, launcher, node, roles, secret
from slsgd_mx.parameter_server.client import Overtaken, ParameterServerClient
from slsgd_mx.parameter_server.launcher import FAILED_CHECK, Options, launch, play_role
from slsgd_mx.parameter_server.losses import MalformedError
from slsgd_mx.parameter_server.node import Cluster, Node
from slsgd_mx.parameter_server.protocol import Phase, Status
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.system import signals

CLUSTER = Cluster(2, 2, "127.0.0.1", 9091)


# ---- what all workers must have in common --------------------------------------------------


def test_the_fingerprint_depends_on_configuration_data_threads_and_versions(tiny, monkeypatch):
    about = dict(threads=1, mxnet="m", numpy="n", slsgd_mx="s", data_sha256="d", cpu="c")
    found = []
    for changed in ({}, *({name: "other"} for name in about)):
        monkeypatch.setattr(roles, "describe", lambda *given, now=changed: {**about, **now})
        found.append(roles.fingerprint(tiny(), SimpleNamespace(data_digest="d")))
    assert len(set(found)) == 6 and found[0] == found[-1]  # CPUs may differ
    assert roles.fingerprint(tiny(seed=1), SimpleNamespace(data_digest="d")) not in found


def test_a_worker_with_other_data_has_another_fingerprint(tiny):
    found = {roles.fingerprint(tiny(), SimpleNamespace(data_digest=digest)) for digest in "ab"}
    assert len(found) == 2


# ---- the environment -----------------------------------------------------------------------


class Computed(Exception):
    """MXNet would compute now, and its threads would read the environment from now on."""


def test_a_worker_sets_its_variables_before_mxnet_computes(tiny, monkeypatch, tmp_path):
    """A thread of MXNet that reads the environment while a variable is added may crash."""
    variables = {secret.VARIABLE: secret.new_secret()}

    def compute(*arguments):
        raise Computed

    monkeypatch.setattr(node.os, "environ", variables)
    monkeypatch.setattr(roles, "build_task", compute)
    with pytest.raises(Computed):
        roles.run_worker(tiny(), tmp_path / "run", None, CLUSTER, patience=20)
    needed = {"DMLC_NODE_HOST": "127.0.0.1", "PS_HEARTBEAT_INTERVAL": "2"}
    needed["MXNET_KVSTORE_BIGARRAY_BOUND"] = "2147483647"
    assert {**variables, **CLUSTER.variables("worker"), **needed} == variables
    assert len(variables) == 1 + 5 + 3


# ---- a worker that loses another node ------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt(), LostError("a push was not answered")])
def test_a_worker_that_lost_a_node_ends_as_lost_and_not_as_interrupted(monkeypatch, error):
    """It interrupts itself in order to save; the launcher restarts what ends with code 75."""
    monkeypatch.setattr(signals, "_received", [signal.SIGTERM])
    said, node = (
        "no heartbeat: start all roles again to resume",
        SimpleNamespace(lost="no heartbeat"),
    )
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(LostError, match=said), roles._losses_of(node):
            raise error
        assert signals._received == []
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN  # the node's own may come late
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_worker_that_is_told_to_stop_ends_as_interrupted(monkeypatch):
    monkeypatch.setattr(signals, "_received", [signal.SIGTERM])
    with pytest.raises(KeyboardInterrupt), roles._losses_of(SimpleNamespace(lost="")):
        signals.check()
    with pytest.raises(KeyboardInterrupt):
        signals.check()


class Ended(BaseException):
    """The process would end now."""


@pytest.mark.parametrize("leaves", [False, True])
def test_a_worker_that_is_leaving_is_not_interrupted(monkeypatch, leaves):
    monkeypatch.setattr(node.os, "environ", {})
    lost = Node(CLUSTER, "worker", 15)
    lost.kv = SimpleNamespace(handle=1)

    def dead(handle, group, number, limit):
        number._obj.value = 1

    lost._lib = SimpleNamespace(MXKVStoreGetRank=lambda *_: 0, MXKVStoreGetNumDeadNode=dead)
    sent = []

    def exit_with(code):
        raise Ended(code)

    monkeypatch.setattr(node.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(node.os, "kill", lambda pid, number: sent.append(number))
    monkeypatch.setattr(node.os, "_exit", exit_with)
    monkeypatch.setattr(node, "say", lambda text: setattr(lost, "_left", leaves))
    if leaves:
        lost._watch()
    else:
        with pytest.raises(Ended):
            lost._watch()
    assert sent == ([] if leaves else [signal.SIGTERM])
    assert lost.lost == "no heartbeat from the scheduler for 15 seconds"


# ---- the launcher --------------------------------------------------------------------------


class Started(Exception):
    """The roles would be started now."""


def test_prefix_and_data_reach_the_workers(tiny, tmp_path, monkeypatch):
    jobs, asked = [], []

    def start(folder, job, options):
        jobs.append({**job, "role": "worker", "cluster": dataclasses.asdict(CLUSTER)})
        raise Started

    monkeypatch.setattr(launcher, "_Roles", start)
    with pytest.raises(Started):
        launch(tiny(), tmp_path / "run", tmp_path / "data", prefix=tmp_path / "prefix")
    monkeypatch.setattr(roles, "run_worker", lambda *arguments: asked.append(arguments))
    job = json.loads(json.dumps({**jobs[0], "patience": 9}))
    assert play_role(job, None) == {"finished": False}
    ((*arguments, _, prefix),) = asked
    assert arguments == [tiny(), tmp_path / "run", tmp_path / "data", CLUSTER, 9]
    assert prefix == tmp_path / "prefix"


@pytest.mark.parametrize("prefix", [None, Path("prefix")])
def test_worker_0_continues_from_the_prefix(tiny, tmp_path, monkeypatch, prefix):
    did = []
    monkeypatch.setattr(RunFolder, "adopt", lambda self, path: did.append(path))
    monkeypatch.setattr(roles, "run", lambda *arguments, **options: did.append("ran"))
    server = SimpleNamespace(node=SimpleNamespace(cluster=CLUSTER), end=lambda: did.append("end"))
    folder = RunFolder(tmp_path / "run", tiny())
    roles._coordinate(tiny(), None, server, folder, None, prefix)
    assert did == [*([] if prefix is None else [prefix]), "ran", "end"]


def test_epochs_that_a_restart_repeats_are_reported_once(tiny):
    heard = []
    progress = launcher._Progress(tiny(), lambda report: heard.append(report.epoch))
    for epoch in (2, 3, 4, 2, 3, 4, 5):  # lost in epoch 5, resumed from the checkpoint of epoch 2
        progress.hear(dict(event="epoch", epoch=epoch, seconds=1.0, units=1, metrics=None))
    assert heard == [2, 3, 4, 5] and (progress.start, progress.epoch) == (2, 5)


def test_logs_of_earlier_attempts_are_kept(tiny, tmp_path, monkeypatch):
    class Child:
        """A process that says one line and is lost."""

        def __init__(self, threads, log, *more, **variables):
            log.write(b"said\n")
            self.process = SimpleNamespace(terminate=int, kill=int, wait=int)

        def send(self, job, last):
            pass

        def close(self):
            pass

    def lose(self, progress):
        raise LostError("a process was lost")

    monkeypatch.setattr(launcher, "Child", Child)
    monkeypatch.setattr(launcher._Roles, "watch", lose)
    with pytest.raises(LostError, match="after 2 restart"):
        launch(tiny(), tmp_path / "run", options=Options(1, 1, restarts=2))
    logs = {path.name: path.read_text() for path in (tmp_path / "run" / "logs").iterdir()}
    names = ("scheduler.log", "server-0.log", "worker-0.log")
    assert logs == dict.fromkeys(names, "said\n" * 3)


@pytest.mark.parametrize(
    "earlier, written, error, said",
    [
        (FAILED_CHECK, "", LostError, "server-0 was killed by SIGABRT"),
        (FAILED_CHECK, "out of memory\n", LostError, "killed by SIGABRT (out of memory)"),
        ("fine", f"what: {FAILED_CHECK}\n", MalformedError, "received a malformed message"),
    ],
)
def test_an_abort_is_judged_by_what_this_attempt_wrote(
    tmp_path, monkeypatch, earlier, written, error, said
):
    def start(threads, log, *more, **variables):
        log.write(written.encode())
        process = SimpleNamespace(poll=lambda: -signal.SIGABRT)
        return SimpleNamespace(process=process, ended=True, send=lambda job, last: None)

    monkeypatch.setattr(launcher, "Child", start)
    attempt = launcher._Roles(tmp_path, {}, Options())
    attempt._secret = "secret"
    attempt.logs.mkdir()
    (attempt.logs / "server-0.log").write_text(f"{earlier}\n")
    attempt._start("server-0", CLUSTER)
    with pytest.raises(LostError) as lost:
        attempt._check_alive()
    assert type(lost.value) is error and said in str(lost.value)
    assert FAILED_CHECK not in str(lost.value)


# ---- a worker ------------------------------------------------------------------------------


@pytest.fixture
def worker(monkeypatch):
    """``worker(rank, deadline)``: one with slots 0 to 3; training one takes two seconds."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=lambda: clock.now))

    def make(rank, deadline=None):
        sent = []
        node = SimpleNamespace(
            rank=rank, cluster=CLUSTER, command=sent.append, take_sent=lambda: 5, sent=sent
        )
        return ParameterServerClient(
            node, Settings(4), 7, lambda t: [range(4)] * 2, [0, 0], deadline=deadline
        )

    def train(made):
        slots = []
        for slot in made.begin(1):
            slots.append(slot)
            clock.now += 2
        return slots

    return SimpleNamespace(make=make, train=train)


@pytest.mark.parametrize(
    "deadline, slots",
    [(None, [0, 1, 2, 3]), (100.0, [0, 1, 2, 3]), (5.0, [0, 1, 2]), (4.0, [0, 1])],
)
def test_worker_0_begins_no_slot_after_the_deadline(worker, deadline, slots):
    coordinator = worker.make(0, deadline)
    assert worker.train(coordinator) == slots
    assert len(coordinator.node.sent) == (deadline is not None)  # the servers' clocks start too


@pytest.mark.parametrize(
    "late", [Status(Phase.RUNNING, epoch=1), Status(Phase.ENDED, epoch=0)], ids=["next", "ended"]
)
def test_another_worker_stops_once_the_others_have_gone_on(worker, monkeypatch, late):
    follower = worker.make(1, 5.0)
    statuses = iter([Status(Phase.RUNNING, epoch=0)] * 2 + [late])
    monkeypatch.setattr(follower, "_read_status", lambda: [next(statuses)])
    begun = follower.begin(1)
    assert [next(begun), next(begun)] == [0, 1]
    with pytest.raises(Overtaken):
        next(begun)


def test_costs_are_sums_over_workers_and_the_slowest_server(worker, monkeypatch):
    coordinator = worker.make(0)
    others = dict(training=10.0, transfer=20.0, sent=30.0, done=1, states=np.zeros(4))
    statuses = [Status(aggregation=1.0, **others), Status(aggregation=3.0)]
    monkeypatch.setattr(coordinator, "_wait_until", lambda condition, limit: statuses)
    monkeypatch.setattr(coordinator, "_conclude", lambda *given: Update((), (), (), True))
    spent = dict(training=1.0, transfer=2.0)
    monkeypatch.setattr(coordinator, "_watch", SimpleNamespace(take=lambda: spent, switch=str))
    costs = coordinator.update(1.0).costs
    assert dataclasses.astuple(costs) == (11.0, 22.0, 3.0, 35)
