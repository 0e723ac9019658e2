"""A rule with a parameter that looks at x_{t-1}: no coordinate moves by more than a limit.

    slsgd-mx cifar --preset smoke --q 2 --plugin examples/rule_with_memory.py \
        --rule bounded-median:limit=0.05
"""

import numpy as np

from slsgd_mx import register_rule
from slsgd_mx.registry import number


@register_rule(
    "bounded-median",
    parameters={"limit": number(0.1, above=0)},
    uses_b=False,
    uses_previous=True,
)
def bounded_median(pushes, context):
    """The coordinate-wise median, at most ``limit`` away from x_{t-1}."""
    limit = context.parameters["limit"]
    update = np.median(pushes, axis=0) - context.previous
    return context.previous + np.clip(update, -limit, limit)
