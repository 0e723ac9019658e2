"""The trimmed mean Trmean_b (Definition 3) and its special cases, the mean and the median.

A comparator network of element-wise minimum and maximum sorts the k values of every coordinate,
one cache-sized chunk at a time; the kept ranks are then averaged in rank order in float64.  The
compiled kernel does the same, with the same bits, where it was built (``compiled.py``).  Hence:

* one push of 1e38 does no harm, because nothing is subtracted from a sum and nothing overflows;
* the result has the same bits for every order of the pushes;
* the result lies between the smallest and the largest kept value, rounding included.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Callable, List, NamedTuple, Sequence, Tuple, Union

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.rules.compiled import mean_of_ranks
from slsgd_mx.rules.rule import Rows, RuleContext

CHUNK = 16384  # coordinates at a time: k+2 rows of 64 KB stay in a 2 MB level-2 cache
_PAD = 80  # rows a power of two apart would share cache sets: measured 3.5 times slower


Ranks = Union[int, np.ndarray]  # one rank, or one for each coordinate


class Comparator(NamedTuple):
    """Write min(u_i, u_j) to row i and max(u_i, u_j) to row j, each only if it is read later."""

    i: int
    j: int
    keep_min: bool
    keep_max: bool


def check_trim(k: int, b: int) -> None:
    """Raise a ConfigError unless b is an integer in {0, ..., ceil(k/2) - 1} (Definition 3).

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
    """Batcher's merge-exchange network for k rows, without steps that only trimmed ranks need.

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
    """Pairs (i, j) of Knuth's Algorithm M (The Art of Computer Programming 5.2.2), for any k."""
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
    """Write Trmean_b of k float32 rows (d,) into ``out`` (d,); the rows are only read.

    On every coordinate, with u_{i:k} the i-th smallest of the k values,
    ``Trmean_b(u) = (u_{b+1:k} + ... + u_{k-b:k}) / (k - 2b)``.  NaN ranks as +infinity.
    """
    k = len(rows)
    check_trim(k, b)
    if mean_of_ranks(rows, b, 0, out):
        return

    def trim_chunk(part: List[np.ndarray], scratch: np.ndarray) -> np.ndarray:
        return mean_in_order(rank_chunk(part, b, scratch)[b : k - b])

    by_chunks(rows, out, trim_chunk)


def by_chunks(
    rows: Rows, out: np.ndarray, mean_of: Callable[[List[np.ndarray], np.ndarray], np.ndarray]
) -> None:
    """Write ``mean_of(chunks of the rows, scratch)`` into ``out``, chunk by chunk; NaN is +inf."""
    scratch = np.empty((len(rows) + 2, min(CHUNK, out.size) + _PAD), np.float32)
    with np.errstate(invalid="ignore"):  # inf - inf occurs only if non-finite pushes are kept
        for start in range(0, out.size, CHUNK):
            part = [row[start : start + CHUNK] for row in rows]
            free = scratch[:, : part[0].size]
            mean = mean_of(part, free)
            if np.isnan(mean.max()):  # NaN spreads through the network: replace it and redo
                mean = mean_of([np.where(np.isnan(u), np.float32(np.inf), u) for u in part], free)
            out[start : start + CHUNK] = mean


def rank_chunk(rows: List[np.ndarray], b: int, scratch: np.ndarray) -> List[np.ndarray]:
    """Sort k chunks (n,) by coordinate; ranks below b and from k-b on are not computed.

    The sorted chunks are in ``scratch`` (k+2, n), unless k = 1.
    """
    ranked, free, borrowed = list(rows), list(scratch), [False] * len(rows)
    for i, j, keep_min, keep_max in comparator_network(len(rows), b):
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
    return ranked


def sum_in_order(rows: Rows) -> np.ndarray:
    """The sum of float32 rows in float64, in their order."""
    total, term = rows[0].astype(np.float64), np.empty(rows[0].size)
    for row in rows[1:]:
        term[:] = row
        np.add(total, term, total)
    return total


def mean_in_order(rows: Rows) -> np.ndarray:
    """The mean of float32 rows in float64, added in their order."""
    total = sum_in_order(rows)
    np.multiply(total, 1.0 / len(rows), total)
    return np.add(total, 0.0, total)  # -0.0 becomes 0.0: the only equal values with different bits


def trim(rows: Rows, context: RuleContext, out: np.ndarray) -> None:
    """Write Trmean_b into ``out`` (Option II)."""
    trimmed_mean_rows(rows, context.b, out)


def kept_between(rows: Rows, low: Ranks, high: Ranks) -> np.ndarray:
    """On how many coordinates each row's value has a rank in [low, high); ties share it, (k,).

    >>> kept_between(np.float32([[1, 5], [2, 5], [3, 0]]), 1, 2).tolist()
    [0.5, 1.5, 0.0]
    """
    values = np.array(rows, np.float32)  # (k, n)
    values[np.isnan(values)] = np.inf
    ranked = np.sort(values, axis=0)
    ends = [np.broadcast_to(rank, values.shape[1:])[None] for rank in (low, np.subtract(high, 1))]
    bottom, top = (np.take_along_axis(ranked, end, axis=0) for end in ends)
    kept = ((bottom < values) & (values < top)).astype(np.float64)
    for edge in (bottom, top):  # values equal to it have the ranks [first, first + count)
        equal = values == edge
        first, count = (values < edge).sum(axis=0), equal.sum(axis=0)
        inside = np.minimum(first + count, high) - np.maximum(first, low)
        np.copyto(kept, np.maximum(inside, 0) / count, where=equal)
    return kept.sum(axis=1)


def kept_by_trim(rows: Rows, context: RuleContext) -> np.ndarray:
    return kept_between(rows, context.b, len(rows) - context.b)


def kept_by_mean(rows: Rows, context: RuleContext) -> np.ndarray:
    return np.full(len(rows), float(rows[0].size))


def kept_by_median(rows: Rows, context: RuleContext) -> np.ndarray:
    return kept_between(rows, (len(rows) - 1) // 2, len(rows) // 2 + 1)


def mean_rows(rows: Rows, context: RuleContext, out: np.ndarray) -> None:
    """Write the mean of the rows into ``out`` (Option I): Trmean_0, whatever b is."""
    trimmed_mean_rows(rows, 0, out)


def median_rows(rows: Rows, context: RuleContext, out: np.ndarray) -> None:
    """Write the coordinate-wise median into ``out``: Trmean_b with the largest legal b."""
    trimmed_mean_rows(rows, (len(rows) - 1) // 2, out)


def trimmed_mean(models, b: int):
    """Return Trmean_b of k models (Definition 3), coordinate by coordinate.

    Parameters
    ----------
    models : sequence of k equally shaped arrays, or one array with leading axis k
        NDArrays or NumPy arrays; numbers are rounded to float32.
    b : int
        Values cut at each end, ``0 <= b <= ceil(k/2) - 1``; ``b=0`` is the mean.

    Returns
    -------
    NDArray or numpy.ndarray
        ``(u_{b+1:k} + ... + u_{k-b:k}) / (k - 2b)``, with u_{i:k} the i-th smallest of the k values
        of a coordinate: a NumPy array if every model is one.

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
    arrays = [as_numpy(model) for model in models]
    shapes = sorted({array.shape for array in arrays})
    if len(shapes) > 1:
        raise ConfigError(f"models must have one shape, got {len(shapes)}: {shapes}")
    check_trim(len(arrays), b)
    rows = [np.ascontiguousarray(a, np.float32).reshape(-1) for a in arrays]
    out = np.empty(rows[0].size, np.float32)
    trimmed_mean_rows(rows, int(b), out)
    out = out.reshape(shapes[0])
    numpy_only = all(isinstance(model, (np.ndarray, np.generic)) for model in models)
    return out if numpy_only else as_ndarray(out)
