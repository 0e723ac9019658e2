"""Aggregation rules: k pushed models -> one model (Algorithm 1, line 14).

A rule is chosen by ``NAME:key=value,...``; pre-aggregations come before it, joined with ``+``.  To
add a rule to this package, write its function in the module of its family and list it in ``RULES``.
To add one from outside::

    from slsgd_mx import register_rule
    from slsgd_mx.registry import number

    WEIGHT = {"weight": number(0.5, least=0, most=1)}

    @register_rule("pulled-mean", parameters=WEIGHT, uses_b=False, uses_previous=True)
    def pulled_mean(pushes, context):
        "The mean of the pushes, pulled towards x_{t-1}."
        w = context.parameters["weight"]
        return (1 - w) * np.mean(pushes, axis=0) + w * context.previous
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from slsgd_mx.registry import Registry, whole
from slsgd_mx.rules.clipping import CENTERED, CLIP, arc, centered_clipping, clip
from slsgd_mx.rules.covariance_filter import caf
from slsgd_mx.rules.geometric_median import PARAMETERS as GEOMETRIC_MEDIAN
from slsgd_mx.rules.geometric_median import geometric_median
from slsgd_mx.rules.krum import (
    bulyan,
    bulyan_picks,
    kept_by_bulyan,
    krum,
    multi_krum,
    needs_bulyan,
    needs_krum,
    needs_multi_krum,
)
from slsgd_mx.rules.medians import (
    kept_around_median,
    kept_by_phocas,
    mean_around_median,
    phocas,
)
from slsgd_mx.rules.pre_aggregations import BUCKETING, bucket_count, bucketing, nnm
from slsgd_mx.rules.rule import (
    PreAggregation,
    Rule,
    RuleContext,
    needs_majority,
    rule_from,
)
from slsgd_mx.rules.subsets import mda, needs_few_subsets, smea
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
        "mean-around-median": Rule(
            "per coordinate, the mean of the k-b values nearest to the median",
            mean_around_median,
            legal=needs_majority,
            kept=kept_around_median,
        ),
        "phocas": Rule(
            "per coordinate, the mean of the k-b values nearest to Trmean_b",
            phocas,
            legal=needs_majority,
            kept=kept_by_phocas,
        ),
        "geometric-median": Rule(
            "the point of least total distance to the pushes (RFA)",
            mix=geometric_median,
            parameters=GEOMETRIC_MEDIAN,
            uses_b=False,
        ),
        "krum": Rule("the push nearest to its k-b-2 nearest others", mix=krum, legal=needs_krum),
        "multi-krum": Rule(
            "the mean of the m pushes of least Krum score",
            mix=multi_krum,
            parameters={"m": whole()},
            legal=needs_multi_krum,
        ),
        "bulyan": Rule(
            "k-2b picks by Krum, then the mean of the values nearest to their median",
            bulyan,
            mix=bulyan_picks,
            legal=needs_bulyan,
            kept=kept_by_bulyan,
        ),
        "mda": Rule(
            "the mean of the k-b pushes of least diameter", mix=mda, legal=needs_few_subsets
        ),
        "smea": Rule(
            "the mean of the k-b pushes of least largest variance",
            mix=smea,
            legal=needs_few_subsets,
        ),
        "caf": Rule(
            "covariance filter: weights reduced along the direction of largest variance",
            mix=caf,
            legal=needs_majority,
        ),
        "centered-clipping": Rule(
            "x_{t-1} plus the mean of the updates, clipped to length tau",
            mix=centered_clipping,
            parameters=CENTERED,
            uses_b=False,
            uses_previous=True,
        ),
    },
)
PRE_AGGREGATIONS: Registry[PreAggregation] = Registry(
    "pre-aggregation",
    {
        "nnm": PreAggregation(
            "each push becomes the mean of its k-b nearest", nnm, legal=needs_majority
        ),
        "bucketing": PreAggregation(
            "means of random groups of s pushes",
            bucketing,
            bucket_count,
            parameters=BUCKETING,
            uses_b=False,
        ),
        "clip": PreAggregation(
            "updates are scaled down to length c",
            clip,
            parameters=CLIP,
            uses_b=False,
            uses_previous=True,
        ),
        "arc": PreAggregation(
            "the floor(2b(k-b)/k) longest updates are scaled down to the next longest",
            arc,
            legal=needs_majority,
            uses_previous=True,
        ),
    },
)


def register_rule(
    name: str, rule: Optional[Rule] = None, kind: str = "coordinate-wise", **attributes: Any
) -> Callable:
    """Add a rule under a new name: a decorator of its function, or a call with a ``Rule``.

    Parameters
    ----------
    name : str
        What ``--rule`` takes; it must be new.
    rule : Rule, optional
        Instead of a function to decorate.
    kind : str
        What the function is: "coordinate-wise", ``f(pushes, context)`` on a part of the
        coordinates, which returns their aggregate; "whole-model", the same on all coordinates (one
        server only); "mixing", ``f(gram, context)``, which returns the weights of the k pushes
        from the inner products of their updates x_i - x_{t-1}.
    **attributes
        Of ``slsgd_mx.rules.Rule``: ``parameters``, ``legal``, ``uses_b``, ``uses_previous``,
        ``random``, ``kept``, ``summary``.

    Raises
    ------
    ConfigError
        If the name is taken or is not a name, or the kind is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from slsgd_mx import aggregate, register_rule
    >>> @register_rule("example-midrange", uses_b=False)
    ... def midrange(pushes, context):
    ...     "The mean of the smallest and the largest value."
    ...     return (np.min(pushes, axis=0) + np.max(pushes, axis=0)) / 2
    >>> aggregate(np.array([[1.0], [2.0], [9.0]]), rule="example-midrange")
    array([5.], dtype=float32)
    >>> RULES.remove("example-midrange")  # so that the example leaves nothing behind
    """

    def register(function: Callable) -> Callable:
        RULES.register(name, rule_from(name, function, kind, **attributes), function)
        return function

    if rule is not None:
        RULES.register(name, rule, rule.aggregate or rule.mix)
    return register
