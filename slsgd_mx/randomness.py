"""A separate random stream for every use, named by seed, purpose, epoch and device.

No generator is carried from one epoch to the next, so epoch t can be recomputed from x_{t-1} alone:
a resumed run equals an uninterrupted one, and distributed workers draw the same numbers as the
simulation in one process.
"""

from __future__ import annotations

import zlib

import numpy as np


def _sequence(seed: int, purpose: str, epoch: int, device: int) -> np.random.SeedSequence:
    return np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), epoch, device])


def stream(seed: int, purpose: str, epoch: int = 0, device: int = 0) -> np.random.Generator:
    """Return a new generator at the start of the stream (seed, purpose, epoch, device).

    >>> [int(stream(0, "select", epoch=3).integers(100)) for _ in range(2)]
    [50, 50]
    """
    return np.random.Generator(np.random.PCG64(_sequence(seed, purpose, epoch, device)))


def integer_seed(seed: int, purpose: str, epoch: int = 0, device: int = 0) -> int:
    """Return a 31-bit seed for libraries that take an integer, such as ``mx.random.seed``."""
    return int(_sequence(seed, purpose, epoch, device).generate_state(1)[0] >> 1)
