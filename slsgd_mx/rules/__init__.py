"""Aggregation rules: k models -> one (Algorithm 1, line 14).

To add a rule, write a function that reads k flat float32 rows and writes the aggregate into
``out``, and register it in ``RULES``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, Sequence

import numpy as np

from slsgd_mx.rules.trimmed_mean import trimmed_mean_rows


def mean_rows(rows: Sequence[np.ndarray], b: int, out: np.ndarray) -> None:
    """Write the mean of the rows into ``out`` (Option I); b plays no part."""
    trimmed_mean_rows(rows, 0, out)


def median_rows(rows: Sequence[np.ndarray], b: int, out: np.ndarray) -> None:
    """Write the coordinate-wise median: the trimmed mean with the largest b there is."""
    trimmed_mean_rows(rows, (len(rows) - 1) // 2, out)


@dataclass(frozen=True)
class Rule:
    """An aggregation rule.

    ``aggregate(rows, b, out)`` reads k flat float32 rows, a model each, and writes ``out``.
    """

    aggregate: Callable[..., None]
    summary: str
    coordinate_wise: bool = True  # False: it needs whole models, not stretches of them


RULES: Dict[str, Rule] = {
    "trimmed-mean": Rule(trimmed_mean_rows, "Option II: Trmean_b, b values cut at each end"),
    "mean": Rule(mean_rows, "Option I: the plain mean, the same as b=0"),
    "median": Rule(median_rows, "coordinate-wise median, the same as the largest b"),
}
