"""The compiled kernel of rank-based rules (``ranks.c``), with the bits of the NumPy path.

Without it, and for rows that it cannot read, the rules compute the same bits with NumPy.
"""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.system.libraries import address, find_library
from slsgd_mx.system.threads import thread_count

VERSION = 1  # of the interface of ranks.c
VARIANTS = ("baseline instructions", "AVX2", "AVX-512")
BLOCK = 64  # coordinates that the kernel reads together
FLOAT = np.dtype(np.float32)
LEAST = 1 << 18  # values for which another thread pays


class Kernel(NamedTuple):
    """``ranks_run`` of ranks.c and the variant for this CPU; or, without it, the reason."""

    run: Optional[Callable[..., int]]
    variant: int
    missing: str


def find_kernel() -> Kernel:
    """The kernel that rules use now; a ConfigError if the variable has an illegal value."""
    functions, missing = find_library(Path(__file__).parent, "ranks", VERSION)
    if functions is None:
        return Kernel(None, 0, missing)
    run, pointer, number = functions.ranks_run, ctypes.c_void_p, ctypes.c_int64
    run.argtypes = [ctypes.c_int, ctypes.POINTER(pointer), *[number] * 5, pointer]
    return Kernel(run, functions.ranks_best(), "")


def describe_kernel() -> str:
    """Which code computes the ranks, and why not the kernel."""
    kernel = find_kernel()
    if kernel.run is None:
        return f"{kernel.missing}; the NumPy path is used"
    return f"used, with {VARIANTS[kernel.variant]}"


def mean_of_ranks(rows: Sequence[np.ndarray], trimmed: int, nearest: int, out: np.ndarray) -> bool:
    """Write Trmean_trimmed of the rows, or the mean of the ``nearest`` values around it, into out.

    ``nearest=0`` means Trmean itself.  Returns whether it did so: False leaves the work to NumPy.
    """
    kernel, k = find_kernel(), len(rows)
    if kernel.run is None or not (0 <= 2 * trimmed < k and 0 <= nearest <= k):
        return False
    if not out.flags.writeable or not all(_readable(row, out.size) for row in (*rows, out)):
        return False
    # The arrays, not only their addresses: an interrupt may end this function before a thread.
    arrays = (*rows, out)
    pointers = (ctypes.c_void_p * k)(*[address(row) for row in rows])
    arguments = kernel.variant, pointers, k, int(trimmed), int(nearest)

    def compute(start: int, stop: int) -> None:
        if kernel.run(*arguments, start, stop, address(arrays[k])):
            raise MemoryError(f"not enough memory to sort k={k} values of {BLOCK} coordinates")

    in_threads(compute, parts(out.size, min(thread_count(), k * out.size // LEAST)))
    return True


def in_threads(compute: Callable[[int, int], None], ranges: Sequence[Tuple[int, int]]) -> None:
    """Compute ranges at the same time: the first in this thread, each of the others in its own.

    A range whose thread cannot be started is computed in this thread.  An exception in any of them
    is raised here, after all threads have ended unless an interrupt ends the wait for them.
    """
    errors: List[BaseException] = []

    def attempt(start: int, stop: int) -> None:
        try:
            compute(start, stop)
        except BaseException as error:
            errors.append(error)

    here, threads = [*ranges[:1]], []
    try:
        for part in ranges[1:]:
            thread = threading.Thread(target=attempt, args=part)
            try:
                thread.start()
                threads.append(thread)
            except RuntimeError:  # "can't start new thread"
                here.append(part)
        for part in here:
            compute(*part)
    finally:
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def parts(size: int, count: int) -> List[Tuple[int, int]]:
    """About equal ranges of whole blocks, at least one and at most ``count``.

    >>> parts(200, 2)
    [(0, 128), (128, 200)]
    """
    width = max(1, -(-size // (BLOCK * max(1, count)))) * BLOCK
    return [(start, min(start + width, size)) for start in range(0, max(1, size), width)]


def _readable(row: np.ndarray, size: int) -> bool:
    """Whether the kernel can read a row: float32 in native order, contiguous and aligned."""
    flags = row.flags
    return row.dtype == FLOAT and row.shape == (size,) and flags.c_contiguous and flags.aligned
