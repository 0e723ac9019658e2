"""The trimmed mean against a plain copy and against sorting."""

from __future__ import annotations

from typing import Iterator

import numpy as np

from benchmarks.report import Line, best_of
from slsgd_mx.rules.trimmed_mean import trimmed_mean_rows
from slsgd_mx.system.mxnet import mx

D = 2_626_634  # values of the paper's CNN


def lines() -> Iterator[Line]:
    """Compare the paper's aggregation with copying and sorting, and a larger one with sorting."""
    yield from paper_size(models(10))
    yield from large(models(50))


def paper_size(pushes: np.ndarray, repeats: int = 7) -> Iterator[Line]:
    """k=10, b=2 against a plain copy of the ten arrays, and against ``nd.sort``."""
    out, existing, models = np.empty(D, np.float32), np.empty_like(pushes), list(pushes)
    seconds, copying, into = best_of(
        [
            lambda: trimmed_mean_rows(models, 2, out),
            lambda: [model.copy() for model in models],
            lambda: np.copyto(existing, pushes),
        ],
        repeats,
    )
    detail = f"{1e3 * seconds:.0f} ms against {1e3 * copying:.0f} ms"
    detail += f" ({1e3 * into:.0f} ms into existing memory)"
    yield Line("trimmed mean k=10 b=2 / copy of the arrays", seconds / copying, detail, at_most=4)
    stacked = mx.nd.array(pushes)
    (sorting,) = best_of([lambda: mx.nd.sort(stacked, axis=0).wait_to_read()], 1)
    detail = f"{1e3 * sorting:.0f} ms against {1e3 * seconds:.0f} ms"
    yield Line("nd.sort / trimmed mean, k=10 b=2", sorting / seconds, detail, at_least=8)


def large(pushes: np.ndarray) -> Iterator[Line]:
    """k=50, b=20 against ``np.sort``."""
    out = np.empty(D, np.float32)
    seconds, sorting = best_of(
        [
            lambda: trimmed_mean_rows(list(pushes), 20, out),
            lambda: np.sort(pushes, axis=0),
        ],
        2,
    )
    detail = f"{1e3 * sorting:.0f} ms against {1e3 * seconds:.0f} ms"
    yield Line("np.sort / trimmed mean, k=50 b=20", sorting / seconds, detail, at_least=1)


def models(k: int) -> np.ndarray:
    """Return k random pushes, (k, D)."""
    return np.random.default_rng(0).standard_normal((k, D), np.float32)
