"""A colluding attack: the poisoned workers push what lies just outside the honest pushes.

    slsgd-mx cifar --preset smoke --q 2 --b 2 --plugin examples/colluding_attack.py \
        --attack outside:margin=0.5
"""

import numpy as np

from slsgd_mx import register_attack
from slsgd_mx.registry import number


@register_attack("outside", parameters={"margin": number(0.1, least=0)}, uses_previous=True)
def outside(seen):
    """Push a little more than the largest honest value wherever the honest mean falls."""
    honest = np.array(seen.honest)  # (honest pushes, coordinates)
    falling = seen.mu < seen.previous
    margin = seen.parameters["margin"] * seen.sigma
    return np.where(falling, honest.max(axis=0) + margin, honest.min(axis=0) - margin)
