"""One node of MXNet's parameter server: joining it, leaving it, and not waiting for the dead.

MXNet waits for ever for a node that is gone.  Two things end that: ps-lite's heartbeats tell the
scheduler of lost nodes, and the nodes of a lost scheduler; and every wait of ours has a limit, a
generous one, for a server that aggregates a large model answers nobody meanwhile.  Whoever notices
leaves with exit code 75 (LostError), and so, one after the other, do all.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional

from slsgd_mx.errors import ConfigError, LostError, SlsgdError
from slsgd_mx.validation import require

JOINING = 60.0  # seconds that everybody has at least to be there; else four times the patience
ANSWERING = 20  # times the patience, for an answer of somebody whose heart beats
ROLES = ("scheduler", "server", "worker")
SCHEDULER, EVERYBODY = 1, 7  # ps-lite's groups of nodes


@dataclass(frozen=True)
class Cluster:
    """Where the scheduler is, and how many others there are."""

    workers: int
    servers: int
    host: str
    port: int

    @classmethod
    def from_environment(cls, variables: Dict[str, str]) -> Cluster:
        """
        >>> Cluster.from_environment({"DMLC_NUM_WORKER": "0"})
        Traceback (most recent call last):
            ...
        slsgd_mx.errors.ConfigError: DMLC_NUM_WORKER='0' must be a whole number from 1 to 1000000
        """

        def whole(name: str, most: int = 10**6) -> int:
            text = variables.get(name)
            if text is None:
                raise ConfigError(f"{name} is not set: see docs/cluster.md for all that is needed")
            if not (
                text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most
            ):
                raise ConfigError(f"{name}={text!r} must be a whole number from 1 to {most}")
            return int(text)

        workers, servers = whole("DMLC_NUM_WORKER"), whole("DMLC_NUM_SERVER")
        host = variables.get("DMLC_PS_ROOT_URI", "")
        if not host:
            raise ConfigError("DMLC_PS_ROOT_URI is not set: it is the address of the scheduler")
        return cls(workers, servers, host, whole("DMLC_PS_ROOT_PORT", 65535))

    def variables(self, role: str) -> Dict[str, str]:
        """The environment of one of its nodes."""
        return {
            "DMLC_ROLE": role,
            "DMLC_NUM_WORKER": str(self.workers),
            "DMLC_NUM_SERVER": str(self.servers),
            "DMLC_PS_ROOT_URI": self.host,
            "DMLC_PS_ROOT_PORT": str(self.port),
        }


def check_patience(patience: float) -> None:
    require(
        2 <= patience < math.inf,
        "patience",
        f"{patience:g}",
        "a finite number of seconds, patience >= 2",
    )


def say(text: str) -> None:
    """A line for the log, with the time."""
    with contextlib.suppress(OSError):  # nowhere to write to: what matters is told otherwise
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _or_die(callback: Callable) -> Callable:
    """An error in what MXNet calls would be ignored: rather end, and be restarted."""

    def call(*arguments: object) -> None:
        try:
            callback(*arguments)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    return call


class Node:
    """This process as a node; on leaving the ``with`` block it takes its leave of the others.

    Parameters
    ----------
    cluster : Cluster
    role : one of ROLES
    patience : float
        Seconds without an answer or a heartbeat after which another node counts as lost.
    """

    def __init__(self, cluster: Cluster, role: str, patience: float) -> None:
        check_patience(patience)
        self.cluster, self.role, self.patience = cluster, role, patience
        self.joining = max(JOINING, 4 * patience)
        self.lost = ""  # whom, once somebody is
        self._left, self._lock = False, threading.Lock()

    def __enter__(self) -> Node:
        from slsgd_mx.system.mxnet import mx  # before DMLC_ROLE is set: see there

        if not mx.runtime.Features().is_enabled("DIST_KVSTORE"):
            raise ConfigError(
                "this build of MXNet has no parameter server (DIST_KVSTORE): the engine needs the "
                "Linux wheels of MXNet 1.9.1"
            )
        os.environ.update(self.cluster.variables(self.role))
        os.environ["PS_HEARTBEAT_INTERVAL"] = str(max(1, int(self.patience / 10)))
        os.environ["MXNET_KVSTORE_BIGARRAY_BOUND"] = str(2**31 - 1)  # we cut the model ourselves
        say(f"{self.role}: waiting for {self._others()}")
        self.kv = self.call("join", lambda: mx.kv.create("dist_async"), self.joining)
        self._check_call, self._lib = mx.base.check_call, mx.base._LIB
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, kind: Optional[type], *exc: object) -> None:
        """Take leave of the others; who is told to stop, or has lost them, just goes."""
        with self._lock:
            self._left = True
            handle, self.kv.handle = self.kv.handle, type(self.kv.handle)()
        politely = kind is None or issubclass(kind, SlsgdError) and kind is not LostError
        if self.role == "worker" and politely:
            limit = self.patience if kind is None else min(5.0, self.patience)
            try:
                self.call("leave", lambda: self._check_call(self._lib.MXKVStoreFree(handle)), limit)
            except LostError:
                say("left without the others, who still had something to do")

    @property
    def rank(self) -> int:
        return self.kv.rank

    def call(self, what: str, action: Callable[[], Any], patience: Optional[float] = -1) -> Any:
        """Do what may never return, in a thread that can be given up; None waits for ever.

        The main thread stays open to signals meanwhile.
        """
        limit = ANSWERING * self.patience if patience == -1 else patience
        done, result = threading.Event(), []  # type: ignore[var-annotated]

        def work() -> None:
            try:
                result.append((action(), None))
            except BaseException as error:
                result.append((None, error))
            done.set()

        threading.Thread(target=work, daemon=True).start()
        if not done.wait(limit):
            raise LostError(
                f"no answer to {what} within {limit:g} seconds (it is {ANSWERING} times --patience)"
            )
        value, error = result[0]
        if error is not None:
            raise error
        return value

    def command(self, body: str) -> None:
        """Have every server carry out a command."""
        self.call("a command", lambda: self.kv._send_command_to_servers(0, body))

    def serve(self, control: Callable[[bytes], None], update: Callable) -> None:
        """Be a server, or the scheduler, until the workers are done.

        ``update(key, pushed, stored)`` gets NDArrays, ``control(body)`` the text of a command.
        """
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
        ready: List[bool] = []

        def on_command(head: int, body: bytes, _: object) -> None:
            if not ready:  # MXNet takes it no earlier, and it has to be there for the first push
                self.kv._set_updater(_or_die(update))
                ready.append(True)
            control(body or b"")

        for number in (signal.SIGINT, signal.SIGTERM):  # the main thread is MXNet's from now on
            signal.signal(number, signal.SIG_DFL)
        callback = prototype(_or_die(on_command))
        if self._lib.MXKVStoreRunServer(self.kv.handle, callback, None):
            why = self._lib.MXGetLastError().decode(errors="replace").strip().splitlines()
            place = f"{self.cluster.host}:{self.cluster.port}"
            raise ConfigError(f"MXNet cannot be the {self.role} at {place}: {why[0]}")
        self._left = True

    def _others(self) -> str:
        return (
            f"{self.cluster.workers} worker(s) and {self.cluster.servers} server(s), scheduler at "
            f"{self.cluster.host}:{self.cluster.port}"
        )

    def _watch(self) -> None:
        """Look for lost nodes: the scheduler sees everybody, the others see the scheduler."""
        group, number = EVERYBODY if self.role == "scheduler" else SCHEDULER, ctypes.c_int()
        limit, alarms, give_up, joined = (
            int(self.patience),
            0,
            time.monotonic() + self.joining,
            False,
        )
        while not self._left:
            time.sleep(0.25)
            with self._lock:
                handle = self.kv.handle
                if self._left or not handle:
                    return
                joined = joined or self._lib.MXKVStoreGetRank(handle, ctypes.byref(number)) == 0
                self._lib.MXKVStoreGetNumDeadNode(handle, group, ctypes.byref(number), limit)
            if not joined and time.monotonic() > give_up:
                say(f"not everybody was there within {self.joining:g} seconds")
                os._exit(LostError.exit_code)
            alarms = alarms + 1 if number.value else 0
            if alarms == 3:  # ps-lite gives a false one while it starts
                who = "the scheduler" if self.role != "scheduler" else f"{number.value} node(s)"
                self.lost = f"no heartbeat of {who} for {limit} seconds"
                say(self.lost)
                self._give_up()
                return

    def _give_up(self) -> None:
        """A worker may have something to save; the others' main thread is MXNet's."""
        if self.role == "worker":
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(max(10.0, self.patience))
        os._exit(LostError.exit_code)
