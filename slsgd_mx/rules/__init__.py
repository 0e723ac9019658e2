"""Aggregation rules: k pushed models -> one model (Algorithm 1, line 14).

A rule is chosen by ``NAME:key=value,...``; pre-aggregations come before it, joined with ``+``.  To
add a rule to this package, write its function in the module of its family and list it in ``RULES``.
To add one from outside::

    from slsgd_mx import register_rule
    from slsgd_mx.registry import number

    @register_rule("pulled-mean", parameters={"weight": number(0.5, least=0, most=1)})
    def pulled_mean(pushes, context):
        "The mean of the pushes, pulled towards x_{t-1}."
        w = context.parameters["weight"]
        return (1 - w) * np.mean(pushes, axis=0) + w * context.previous
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from slsgd_mx.registry import Registry
from slsgd_mx.rules.rule import (
    PreAggregation,
    Rule,
    RuleContext,
    needs_majority,
    rule_from,
)
from slsgd_mx.rules.trimmed_mean import (
    kept_by_mean,
    kept_by_median,
    kept_by_trim,
    mean_rows,
    median_rows,
    trim,
)

__all__ = ["PRE_AGGREGATIONS", "RULES", "PreAggregation", "Rule", "RuleContext", "register_rule"]

RULES: Registry[Rule] = Registry(
    "rule",
    {
        "trimmed-mean": Rule(
            "Option II: Trmean_b, b values cut at each end",
            trim,
            legal=needs_majority,
            kept=kept_by_trim,
        ),
        "mean": Rule(
            "Option I: the plain mean, the same as b=0", mean_rows, uses_b=False, kept=kept_by_mean
        ),
        "median": Rule(
            "coordinate-wise median, the same as the largest b",
            median_rows,
            uses_b=False,
            kept=kept_by_median,
        ),
    },
)
PRE_AGGREGATIONS: Registry[PreAggregation] = Registry("pre-aggregation", {})


def register_rule(
    name: str, rule: Optional[Rule] = None, kind: str = "coordinate-wise", **attributes: Any
) -> Callable:
    """Add a rule under a new name: a decorator of its function, or a call with a ``Rule``.

    The function is ``f(pushes, context) -> aggregate`` on a part of the coordinates
    (``kind="coordinate-wise"``) or on all of them (``"whole-model"``), or
    ``f(gram, context) -> weights`` (``"mixing"``, see ``Rule``).  The other arguments are
    attributes of ``Rule``: ``parameters``, ``legal``, ``uses_b``, ``random``, ``summary``.
    """

    def register(function: Callable) -> Callable:
        RULES.register(name, rule_from(function, kind, **attributes), function)
        return function

    if rule is not None:
        RULES.register(name, rule, rule.aggregate or rule.mix)
    return register
