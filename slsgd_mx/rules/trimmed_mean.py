"""Aggregation rules: k models -> one (Algorithm 1, line 14).

A rule takes the pushed models as ``k`` flat float32 rows and writes the aggregate into ``out``.
To add a rule, write such a function and register it in ``RULES``.  A rule that does not work
coordinate by coordinate (distances between models, say) is registered with
``coordinate_wise=False``: it sees whole models, so it cannot run on several servers.

The trimmed mean sorts the k values of every coordinate with a comparator network of
element-wise minimum/maximum over cache-sized chunks, then averages the kept ranks in rank
order with a float64 accumulator.  Hence:

* one push of 1e38 costs nothing (nothing is ever subtracted from a sum, nothing overflows);
* the same bits for every order of the pushes;
* the result lies within the kept values on every coordinate, rounding included.
"""

from __future__ import annotations

from functools import lru_cache
from typing import List, NamedTuple, Sequence, Tuple

import numpy as np

from slsgd_mx.errors import ConfigError

CHUNK = 16384  # coordinates at a time: k+2 rows of 64 KB stay in a 2 MB level-2 cache
_PAD = 80  # rows a power of two apart share cache sets: measured 3.5 times slower


class Comparator(NamedTuple):
    """Put the smaller of rows i, j in i and the larger in j; outputs nobody reads are not made."""

    i: int
    j: int
    keep_min: bool
    keep_max: bool


def check_trim(k: int, b: int) -> None:
    """Definition 3: b is an integer in {0, ..., ceil(k/2) - 1}.

    >>> check_trim(10, 5)
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.ConfigError: b=5 is out of range for k=10: trimmed mean needs 0 <= b <= 4
    """
    if k < 1:
        raise ConfigError(f"k={k} is out of range: trimmed mean needs at least 1 model")
    if isinstance(b, bool) or not isinstance(b, (int, np.integer)):
        raise ConfigError(f"b={b!r} must be an integer count with 0 <= b <= {(k - 1) // 2}")
    if not 0 <= b <= (k - 1) // 2:
        raise ConfigError(
            f"b={b} is out of range for k={k}: trimmed mean needs 0 <= b <= {(k - 1) // 2}"
        )


@lru_cache(maxsize=None)
def comparator_network(k: int, b: int) -> Tuple[Comparator, ...]:
    """Batcher's merge-exchange network for k rows, without what only feeds trimmed ranks.

    >>> [tuple(c[:2]) for c in comparator_network(3, 0)]
    [(0, 2), (0, 1), (1, 2)]
    """
    needed = set(range(b, k - b))
    pruned: List[Comparator] = []
    for i, j in reversed(_merge_exchange(k)):
        if i in needed or j in needed:
            pruned.append(Comparator(i, j, i in needed, j in needed))
            needed |= {i, j}
    return tuple(reversed(pruned))


def _merge_exchange(k: int) -> List[Tuple[int, int]]:
    """Knuth, The Art of Computer Programming 5.2.2, Algorithm M, for any k."""
    pairs: List[Tuple[int, int]] = []
    top = 1 << max(0, (k - 1).bit_length() - 1)
    p = top if k > 1 else 0
    while p:
        q, r, d = top, 0, p
        while True:
            pairs += [(i, i + d) for i in range(k - d) if i & p == r]
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1
    return pairs


def trimmed_mean_rows(rows: Sequence[np.ndarray], b: int, out: np.ndarray) -> None:
    """Write Trmean_b of k flat float32 rows into ``out``; the rows are only read.

    ``Trmean_b(u) = sum of u_{i:k} for i in b+1..k-b, over k - 2b`` on every coordinate.
    NaN ranks as +infinity.
    """
    k, d = len(rows), out.size
    check_trim(k, b)
    width = min(CHUNK, d)
    scratch = np.empty((k + 2, width + _PAD), np.float32)
    total, term = np.empty(width), np.empty(width)  # float64
    with np.errstate(invalid="ignore"):  # inf - inf, only where non-finite pushes are kept
        for start in range(0, d, CHUNK):
            part = [row[start : start + CHUNK] for row in rows]
            n = part[0].size
            mean = _trim_chunk(part, b, scratch[:, :n], total[:n], term[:n])
            if np.isnan(mean.max()):  # NaN runs through a whole network: rank it and redo
                part = [np.where(np.isnan(row), np.float32(np.inf), row) for row in part]
                mean = _trim_chunk(part, b, scratch[:, :n], total[:n], term[:n])
            out[start : start + CHUNK] = mean


def _trim_chunk(
    rows: List[np.ndarray], b: int, scratch: np.ndarray, total: np.ndarray, term: np.ndarray
) -> np.ndarray:
    """Trmean_b of k short rows as float64, in ``total``."""
    k = len(rows)
    ranked, free, borrowed = list(rows), list(scratch), [False] * k
    for i, j, keep_min, keep_max in comparator_network(k, b):
        u, v = ranked[i], ranked[j]
        if keep_min:
            ranked[i] = np.minimum(u, v, free.pop())
        if keep_max:
            ranked[j] = np.maximum(u, v, free.pop())
        if borrowed[i]:
            free.append(u)
        if borrowed[j]:
            free.append(v)
        borrowed[i], borrowed[j] = keep_min, keep_max
    total[:] = ranked[b]
    for row in ranked[b + 1 : k - b]:
        term[:] = row
        np.add(total, term, total)
    np.multiply(total, 1.0 / (k - 2 * b), total)
    return np.add(total, 0.0, total)  # -0.0 becomes 0.0: the one tie that has two bit patterns


def trimmed_mean(models, b: int):
    """Trmean_b of k models (Definition 3), coordinate by coordinate.

    Parameters
    ----------
    models : sequence of k equally shaped NDArrays, or one NDArray with leading axis k
    b : int
        Values cut at each end, ``0 <= b <= ceil(k/2) - 1``; ``b=0`` is the mean.

    Returns
    -------
    NDArray of the shape of one model.

    Raises
    ------
    ConfigError
        If b is out of range, or the models differ in shape.

    Examples
    --------
    >>> from slsgd_mx import trimmed_mean
    >>> from slsgd_mx.system.mxnet import mx
    >>> pushes = mx.nd.array([[1, -1], [2, 0], [3, 1], [1e30, -1e30]])
    >>> trimmed_mean(pushes, b=1).asnumpy()
    array([ 2.5, -0.5], dtype=float32)
    """
    from slsgd_mx.system.arrays import as_ndarray, as_numpy

    models = list(models)
    if not all(hasattr(model, "wait_to_read") for model in models):
        raise ConfigError("models must be NDArrays: mx.nd.array(x) makes one of a NumPy array")
    arrays = [as_numpy(model) for model in models]
    shapes = sorted({array.shape for array in arrays})
    if len(shapes) > 1:
        raise ConfigError(f"models must have one shape, got {len(shapes)}: {shapes}")
    check_trim(len(arrays), b)
    rows = [np.ascontiguousarray(a, np.float32).reshape(-1) for a in arrays]
    out = np.empty(rows[0].size, np.float32)
    trimmed_mean_rows(rows, int(b), out)
    return as_ndarray(out.reshape(shapes[0]))
