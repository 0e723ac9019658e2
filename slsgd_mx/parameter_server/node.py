"""One node of MXNet's parameter server: joining, exchanging arrays, detecting lost nodes, leaving.

By itself MXNet waits forever for a node that is gone.  Two things prevent that.  ps-lite's
heartbeats tell the scheduler about lost nodes, and the other nodes about a lost scheduler.  And
every wait in this module has a limit; it is generous, because a server answers nobody while it
aggregates a large model.  A node that notices a loss exits with code 75 (LostError), so that one
after the other all nodes exit.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import re
import signal
import sys
import threading
import time
import traceback
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence

from slsgd_mx.errors import ConfigError, LostError, SlsgdError
from slsgd_mx.parameter_server.protocol import HEADER, Header
from slsgd_mx.parameter_server.secret import Secret
from slsgd_mx.system import signals
from slsgd_mx.validation import require

JOINING = 60.0  # seconds that nodes have to join, or four times the patience if that is longer
ANSWERING = 20  # times the patience: the limit for an answer from a node that is alive
SHORTEST, LONGEST = 0.0005, 0.02  # seconds between two polls
ROLES = ("scheduler", "server", "worker")
SCHEDULER, EVERYBODY = 1, 7  # ps-lite's groups of nodes


@dataclass(frozen=True)
class Cluster:
    """The address of the scheduler, and the numbers of workers and servers."""

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
                raise ConfigError(f"{name} is not set: docs/cluster.md lists the variables needed")
            if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= most:
                raise ConfigError(f"{name}={text!r} must be a whole number from 1 to {most}")
            return int(text)

        workers, servers = whole("DMLC_NUM_WORKER"), whole("DMLC_NUM_SERVER")
        host = variables.get("DMLC_PS_ROOT_URI", "")
        if not host:
            raise ConfigError("DMLC_PS_ROOT_URI is not set: it is the address of the scheduler")
        return cls(workers, servers, host, whole("DMLC_PS_ROOT_PORT", 65535))

    def variables(self, role: str) -> Dict[str, str]:
        """The environment variables of one of its nodes."""
        return {
            "DMLC_ROLE": role,
            "DMLC_NUM_WORKER": str(self.workers),
            "DMLC_NUM_SERVER": str(self.servers),
            "DMLC_PS_ROOT_URI": self.host,
            "DMLC_PS_ROOT_PORT": str(self.port),
        }


def check_patience(patience: float) -> None:
    legal = "a finite number of seconds, patience >= 2"
    require(2 <= patience < math.inf, "patience", f"{patience:g}", legal)


def check_workers(workers: int, k: int) -> None:
    """Refuse more workers than there are slots to train: the others would be idle.

    >>> check_workers(50, k=10)
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.ConfigError: workers=50 is out of range: needs 1 <= workers <= k=10, because \
more workers than devices in an epoch would be idle
    """
    legal = f"1 <= workers <= k={k}, because more workers than devices in an epoch would be idle"
    require(1 <= workers <= k, "workers", workers, legal)


def say(text: str) -> None:
    """Write a line with the time to the log."""
    with contextlib.suppress(OSError):  # the log is closed; errors are reported by exit code
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def poll(
    condition: Callable[[], object], limit: Optional[float] = None, longest: float = LONGEST
) -> bool:
    """Wait until a condition holds, checking less and less often; False after ``limit`` seconds."""
    pause, began = SHORTEST, time.monotonic()
    while not condition():
        spent = time.monotonic() - began
        if limit is not None and spent >= limit:
            return False
        time.sleep(pause if limit is None else min(pause, limit - spent))
        pause = min(longest, 1.3 * pause)
    return True


def _exit_on_error(callback: Callable) -> Callable:
    """End the process if a callback fails: MXNet would ignore the exception."""

    def call(*arguments: object) -> None:
        try:
            callback(*arguments)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    return call


def fill_free_memory(byte: int) -> None:
    """Set the memory that this thread's next objects of 256 to 1024 bytes will get.

    MXNet 1.9.1 never initialises the server's switch ``multi_precision_``.  Where it happens not to
    be 0, a push of another type than float32 is written into memory that has been freed.
    """
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
        found = [(libc.malloc(size), size) for size in range(256, 1025, 16) for _ in range(7)]
        for address, size in found:
            if address:
                ctypes.memset(address, byte, size)
            libc.free(address)


class Node:
    """This process as a node of a cluster, which it joins and leaves with a ``with`` block.

    Another node counts as lost after ``patience`` seconds without an answer or a heartbeat.  A node
    must be made before MXNet computes anything, because it sets environment variables: a thread of
    MXNet that reads the environment while a variable is added to it may crash.
    """

    def __init__(
        self, cluster: Cluster, role: str, patience: float, secret: Optional[Secret] = None
    ) -> None:
        check_patience(patience)
        os.environ.update(cluster.variables(role))
        if cluster.host.startswith("127.") and "DMLC_INTERFACE" not in os.environ:
            os.environ.setdefault("DMLC_NODE_HOST", cluster.host)  # else ps-lite looks for a device
        os.environ["PS_HEARTBEAT_INTERVAL"] = str(max(1, int(patience / 10)))
        os.environ["MXNET_KVSTORE_BIGARRAY_BOUND"] = str(2**31 - 1)  # never divide a shard
        self.cluster, self.role, self.patience, self.secret = cluster, role, patience, secret
        self.joining = max(JOINING, 4 * patience)
        self.lost = ""  # which node, once one is lost
        self._sent = 0  # bytes
        self._left, self._lock = False, threading.Lock()

    def __enter__(self) -> Node:
        from slsgd_mx.system.mxnet import mx

        if not mx.runtime.Features().is_enabled("DIST_KVSTORE"):
            raise ConfigError(
                "this build of MXNet has no parameter server (DIST_KVSTORE): use the Linux wheels "
                "of MXNet 1.9.1"
            )
        cluster = self.cluster
        others = f"{cluster.workers} worker(s) and {cluster.servers} server(s)"
        say(f"{self.role}: waiting for {others}, scheduler at {cluster.host}:{cluster.port}")
        self.kv = self.call("join", lambda: mx.kv.create("dist_async"), self.joining)
        self._check_call, self._lib = mx.base.check_call, mx.base._LIB
        self._wait_for_all = mx.nd.waitall
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, kind: Optional[type], *exc: object) -> None:
        """Leave the cluster; after an interrupt or a loss, without waiting for the others."""
        with self._lock:
            self._left = True
            handle, self.kv.handle = self.kv.handle, type(self.kv.handle)()
        waits = kind is None or issubclass(kind, SlsgdError) and kind is not LostError
        if self.role == "worker" and waits:
            limit = self.patience if kind is None else min(5.0, self.patience)
            try:
                self.call("leave", lambda: self._check_call(self._lib.MXKVStoreFree(handle)), limit)
            except LostError:
                say("left while other nodes were still busy")

    @property
    def rank(self) -> int:
        return self.kv.rank

    def call(self, what: str, action: Callable[[], Any], patience: Optional[float] = -1) -> Any:
        """Run an action that may never return in a thread that can be abandoned.

        It has ``ANSWERING`` times the node's patience, or as many seconds as given (None: no
        limit).  Meanwhile the main thread handles signals.
        """
        limit = ANSWERING * self.patience if patience == -1 else patience
        result: Future = Future()

        def work() -> None:
            try:
                result.set_result(action())
            except BaseException as error:
                result.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        if not wait([result], limit).done:
            raise LostError(f"no answer to {what} within {limit:g} seconds (see --patience)")
        return result.result()

    def command(self, body: str) -> None:
        """Send a command to every server and wait until all have carried it out."""
        sealed = self.secret.seal(body)
        self.call("a command", lambda: self.kv._send_command_to_servers(0, sealed))

    def init(self, keys: List[int], arrays: Sequence[Any]) -> None:
        """Create keys with worker 0's NDArrays as their values; waits for all workers."""
        if keys:
            self.call("init", lambda: self.kv.init(keys, list(arrays)), None)

    def push(self, keys: List[int], arrays: Sequence[Any], epoch: int, slot: int = 0) -> None:
        """Push NDArrays, and wait until the servers have them and their memory can be reused.

        Their first values become the header, which proves that this worker knows the secret.
        """
        for key, array in zip(keys, arrays):
            array[:HEADER] = self.secret.header(key, Header(epoch, slot, self.rank))
        self.kv.push(keys, list(arrays))
        self._wait("a push", arrays)

    def pull(self, keys: List[int], arrays: Sequence[Any]) -> None:
        """Pull into NDArrays, and wait until the values have arrived."""
        self.kv.pull(keys, list(arrays))
        self._wait("a pull", arrays)

    def _wait(self, what: str, arrays: Sequence[Any]) -> None:
        self.call(what, self._wait_for_all)
        self._sent += sum(4 * array.size for array in arrays)

    def take_sent(self) -> int:
        """Bytes pushed and pulled since the last call."""
        sent, self._sent = self._sent, 0
        return sent

    def serve(self, control: Callable[[bytes], None], update: Callable) -> None:
        """Act as a server or the scheduler until the workers are done.

        MXNet calls ``update(key, pushed, stored)`` with NDArrays for every push, and
        ``control(body)`` for every command.
        """
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
        ready: List[bool] = []

        def on_command(head: int, body: bytes, _: object) -> None:
            if not ready:  # as early as MXNet allows, and before the first push
                self.kv._set_updater(_exit_on_error(update))
                ready.append(True)
            control(body or b"")

        signals.end_at_once()
        callback = prototype(_exit_on_error(on_command))
        fill_free_memory(0)
        if self._lib.MXKVStoreRunServer(self.kv.handle, callback, None):
            why = self._lib.MXGetLastError().decode(errors="replace").strip().splitlines()
            place = f"{self.cluster.host}:{self.cluster.port}"
            raise ConfigError(f"MXNet cannot start the {self.role} at {place}: {why[0]}")
        self._left = True

    def _watch(self) -> None:
        """Look for lost nodes: the scheduler watches all others, and they watch the scheduler."""
        group, number = EVERYBODY if self.role == "scheduler" else SCHEDULER, ctypes.c_int()
        limit, give_up = int(self.patience), time.monotonic() + self.joining
        alarms, joined = 0, False
        while not self._left:
            time.sleep(0.25)
            with self._lock:
                handle = self.kv.handle
                if self._left or not handle:
                    return
                joined = joined or self._lib.MXKVStoreGetRank(handle, ctypes.byref(number)) == 0
                self._lib.MXKVStoreGetNumDeadNode(handle, group, ctypes.byref(number), limit)
            if not joined and time.monotonic() > give_up:
                say(f"not all nodes joined within {self.joining:g} seconds")
                os._exit(LostError.exit_code)
            alarms = alarms + 1 if number.value else 0
            if alarms == 3:  # ps-lite may give false alarms while it starts
                who = "the scheduler" if self.role != "scheduler" else f"{number.value} node(s)"
                self.lost = f"no heartbeat from {who} for {limit} seconds"
                say(self.lost)
                if self.role == "worker":  # it can save; MXNet blocks other roles' main threads
                    with self._lock:
                        if self._left:
                            return
                        os.kill(os.getpid(), signal.SIGTERM)
                    time.sleep(max(10.0, self.patience))
                os._exit(LostError.exit_code)
