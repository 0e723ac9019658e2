"""What a worker sends and receives: arrays under keys, waited for, and counted."""

from __future__ import annotations

import time
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.core.flat_model import Range
from slsgd_mx.parameter_server.node import Node
from slsgd_mx.parameter_server.protocol import HEADER, SCORES, Status, key_on, status_size
from slsgd_mx.system.arrays import as_ndarray
from slsgd_mx.system.mxnet import mx

SHORTEST, LONGEST = 0.0005, 0.02  # seconds between two looks at a server

Arrays = Sequence[mx.nd.NDArray]


class Wire:
    """Keys on servers, as one worker reaches them; ``k`` slots decide how long a status is."""

    def __init__(self, node: Node, k: int) -> None:
        self.node, self.k, self.servers = node, k, node.cluster.servers
        self._sent = 0  # bytes

    def keys(self, kind: int) -> List[int]:
        """The key of a kind on every server."""
        return [key_on(server, self.servers, kind) for server in range(self.servers)]

    def init(self, keys: List[int], arrays: Arrays) -> None:
        """Make keys of worker 0's arrays; all workers have to be here."""
        if keys:
            self.node.call("init", lambda: self.node.kv.init(keys, list(arrays)), None)

    def push(self, keys: List[int], arrays: Arrays) -> None:
        """Push, and wait until the servers have it: the memory may be used again."""
        self.node.kv.push(keys, list(arrays))
        self.node.call("a push", mx.nd.waitall)
        self._count(arrays)

    def pull(self, keys: List[int], arrays: Arrays) -> None:
        """Pull, and wait until it is here."""
        self.node.kv.pull(keys, list(arrays))
        self.node.call("a pull", mx.nd.waitall)
        self._count(arrays)

    def look(self, keys: List[int]) -> List[Status]:
        """How far the servers are, by their status keys."""
        arrays = [mx.nd.zeros(status_size(self.k)) for _ in keys]
        self.pull(keys, arrays)
        return [Status.from_array(array.asnumpy()) for array in arrays]

    def take_sent(self) -> int:
        """Bytes moved since it was asked last."""
        sent, self._sent = self._sent, 0
        return sent

    def _count(self, arrays: Arrays) -> None:
        self._sent += sum(4 * array.size for array in arrays)


def ask_until(
    ask: Callable[[], object], limit: Optional[float] = None, longest: float = LONGEST
) -> bool:
    """Ask again and again, ever more slowly, until the answer is yes, or for so many seconds."""
    pause, began = SHORTEST, time.monotonic()
    while not ask():
        spent = time.monotonic() - began
        if limit is not None and spent >= limit:
            return False
        time.sleep(pause if limit is None else min(pause, limit - spent))
        pause = min(longest, 1.3 * pause)
    return True


class Pieces:
    """Memory for a model in stretches, each behind a header, as it goes to and from servers."""

    def __init__(self, stretches: Sequence[Range]) -> None:
        self.stretches = stretches
        self.memory = [np.zeros(HEADER + stop - start, np.float32) for start, stop in stretches]
        self.arrays = [as_ndarray(memory) for memory in self.memory]

    def fill(self, flat: np.ndarray, epoch: int, slot: int) -> None:
        """Put a flat model in."""
        for memory, (start, stop) in zip(self.memory, self.stretches):
            memory[:HEADER] = epoch, slot
            memory[HEADER:] = flat[start:stop]

    def take_out(self, flat: np.ndarray, epoch: int) -> bool:
        """Copy the model out, if all of it is that after an epoch."""
        if any(memory[0] != epoch for memory in self.memory):
            return False
        for memory, (start, stop) in zip(self.memory, self.stretches):
            flat[start:stop] = memory[HEADER:]
        return True


class Boxes:
    """A key for every follower that has a part in evaluations; sizes are those of all workers."""

    def __init__(self, wire: Wire, sizes: Sequence[int]) -> None:
        self.wire = wire
        self._boxes: Dict[int, Tuple[int, mx.nd.NDArray]] = {}
        for rank, size in enumerate(sizes):
            if rank and size:
                key = key_on(rank % wire.servers, wire.servers, SCORES + rank)
                self._boxes[rank] = (key, mx.nd.zeros(HEADER + size))

    def __contains__(self, rank: int) -> bool:
        return rank in self._boxes

    def init(self) -> None:
        boxes = self._boxes.values()
        self.wire.init([key for key, _ in boxes], [box for _, box in boxes])

    def hand_in(self, rank: int, epoch: int, score: np.ndarray) -> None:
        key, box = self._boxes[rank]
        box[:] = mx.nd.array(np.concatenate([[epoch, 0], score]))
        self.wire.push([key], [box])

    def fetch(self, rank: int, epoch: int, limit: Optional[float]) -> Optional[np.ndarray]:
        """What was handed in for an epoch; None if it is not within the limit."""
        key, box = self._boxes[rank]

        def is_there() -> bool:
            self.wire.pull([key], [box])
            return box[:1].asscalar() == epoch

        return box.asnumpy()[HEADER:] if ask_until(is_there, limit, 10 * LONGEST) else None
