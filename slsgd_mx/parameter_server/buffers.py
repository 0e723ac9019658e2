"""Arrays that a worker sends to and receives from the servers."""

from __future__ import annotations

from typing import Dict, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.core.flat_model import Range
from slsgd_mx.parameter_server.node import Node, poll
from slsgd_mx.parameter_server.protocol import HEADER, SCORES, key_on
from slsgd_mx.system.arrays import as_ndarray
from slsgd_mx.system.mxnet import mx


class ModelBuffers:
    """A flat model in transit: for every server an array of a header and the server's shard."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        self.ranges = ranges
        self.memory = [np.zeros(HEADER + stop - start, np.float32) for start, stop in ranges]
        self.arrays = [as_ndarray(memory) for memory in self.memory]

    def write(self, vector: np.ndarray, epoch: int) -> None:
        """Copy the flat model after ``epoch`` into the buffers."""
        for memory, (start, stop) in zip(self.memory, self.ranges):
            memory[:HEADER] = 0
            memory[0] = epoch
            memory[HEADER:] = vector[start:stop]

    def read(self, vector: np.ndarray, epoch: int) -> bool:
        """Copy the model into ``vector`` if every shard is the one after ``epoch``."""
        if any(memory[0] != epoch for memory in self.memory):
            return False
        for memory, (start, stop) in zip(self.memory, self.ranges):
            vector[start:stop] = memory[HEADER:]
        return True


class ScoreBuffers:
    """The followers' parts of an evaluation: a key and an array for every part that is not empty.

    ``sizes`` are the lengths of the parts, by rank of the worker.
    """

    def __init__(self, node: Node, sizes: Sequence[int]) -> None:
        self.node = node
        self._buffers: Dict[int, Tuple[int, mx.nd.NDArray]] = {}
        servers = node.cluster.servers
        for rank, size in enumerate(sizes):
            if rank and size:
                key = key_on(rank % servers, servers, SCORES + rank)
                self._buffers[rank] = (key, mx.nd.zeros(HEADER + size))

    def __contains__(self, rank: int) -> bool:
        return rank in self._buffers

    def init(self) -> None:
        """Create the keys; waits for all workers."""
        buffers = self._buffers.values()
        self.node.init([key for key, _ in buffers], [array for _, array in buffers])

    def send(self, rank: int, epoch: int, score: np.ndarray) -> None:
        key, array = self._buffers[rank]
        array[HEADER:] = mx.nd.array(score)
        self.node.push([key], [array], epoch)

    def receive(self, rank: int, epoch: int, limit: Optional[float]) -> Optional[np.ndarray]:
        """A worker's score of an epoch; None if its part is empty or late (``limit`` seconds)."""
        if rank not in self:
            return None
        key, array = self._buffers[rank]

        def has_arrived() -> bool:
            self.node.pull([key], [array])
            return array[:1].asscalar() == epoch

        return array.asnumpy()[HEADER:] if poll(has_arrived, limit, longest=0.2) else None
