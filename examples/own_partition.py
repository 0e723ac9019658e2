"""A partition: every device lacks some of the labels.

    slsgd-mx partition --data synthetic --plugin examples/own_partition.py \
        --partition without:labels=3
"""

import numpy as np

from slsgd_mx import register_partition
from slsgd_mx.registry import whole


@register_partition("without", parameters={"labels": whole(1)})
def without(y, n, rng, labels):
    """Deal out samples one by one; device i has none of the labels i, i+1, ... (modulo classes)."""
    classes = int(y.max()) + 1
    parts = [[] for _ in range(n)]
    for sample in rng.permutation(len(y)):
        takers = [i for i in range(n) if (y[sample] - i) % classes >= labels]
        if takers:  # with n < classes every device may lack a label: then nobody has it
            min((parts[i] for i in takers), key=len).append(sample)
    return [np.array(part, int) for part in parts]
