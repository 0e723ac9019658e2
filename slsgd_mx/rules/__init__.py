"""Aggregation rules: k pushed models -> one model (Algorithm 1, line 14).

To add a rule, write a function ``aggregate(rows, b, out)`` that reads k flat float32 rows, one per
pushed model, and writes the aggregate into ``out``.  Put it in a module of this package and
register it in ``RULES`` below (or call ``register_rule`` from your own code before ``train``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict

from slsgd_mx.rules.trimmed_mean import mean_rows, median_rows, trimmed_mean_rows
from slsgd_mx.validation import require_new_name


@dataclass(frozen=True)
class Rule:
    """An aggregation rule: ``aggregate(rows, b, out)`` with k rows of shape (d,) and out (d,)."""

    aggregate: Callable[..., None]
    summary: str
    coordinate_wise: bool = True  # False: it needs whole models, so only one server can run it


RULES: Dict[str, Rule] = {
    "trimmed-mean": Rule(trimmed_mean_rows, "Option II: Trmean_b, b values cut at each end"),
    "mean": Rule(mean_rows, "Option I: the plain mean, the same as b=0"),
    "median": Rule(median_rows, "coordinate-wise median, the same as the largest b"),
}


def register_rule(name: str, rule: Rule) -> None:
    """Add a rule under a new name, for use in ``RunConfig(rule=name)``."""
    require_new_name("rule", name, RULES)
    RULES[name] = rule
