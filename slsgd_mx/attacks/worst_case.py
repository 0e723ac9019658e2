"""The pushes that move a coordinate-wise rule farthest from a known target in one epoch."""

from __future__ import annotations

from typing import Callable, Sequence

import numpy as np

from slsgd_mx.attacks.collusion import Collusion
from slsgd_mx.rules.pipeline import find_rule
from slsgd_mx.rules.trimmed_mean import trimmed_mean_rows

FAR = 1e6  # and where b >= q farther than every honest value: how much does not matter then


def worst_case(seen: Collusion) -> np.ndarray:
    """Push the far end, up or down by coordinate, that moves the aggregate farthest from x_*.

    No attack does more harm in one epoch to a rule that grows with every push, such as the mean,
    the trimmed mean and the median.
    """
    pipeline, d = find_rule(seen.rule), seen.previous.size

    def aggregate(pushed: np.ndarray) -> np.ndarray:
        rows, out = [*seen.honest, *pushed.astype(np.float32)], np.empty(d, np.float32)
        if pipeline.obstacle(len(rows), seen.b):  # then the server keeps x_{t-1}
            return seen.previous.astype(np.float64)
        pipeline.aggregate(rows, seen.previous, seen.b, out, rng=seen.rng)
        return out.astype(np.float64)

    return farther_end(aggregate, seen.q, seen.target, seen.honest if seen.b >= seen.q else ())


def trimmed_with(honest: np.ndarray, b: int, pushed: np.ndarray) -> np.ndarray:
    """Trmean_b of honest and poisoned rows together, by the project's own rule; (d,)."""
    rows = np.concatenate([honest, pushed]).astype(np.float32)
    out = np.empty(rows.shape[1], np.float32)
    trimmed_mean_rows(list(rows), b, out)
    return out.astype(np.float64)


def away_from(honest: np.ndarray, b: int, q: int, x_star: np.ndarray) -> np.ndarray:
    """What q colluders push to move Trmean_b as far from x_* as one epoch allows; (q, d).

    Whatever they push, the trimmed mean of a coordinate lies between its values with all q at the
    lower end and with all q at the upper end; the farther of the two is the worst.  So no attack
    does more harm in one epoch if alpha = 1 and F is a sum of F_j that grow with |x_j - x_*j| alike
    on both sides.

    >>> away_from(np.array([[0.], [1.], [3.]]), 1, 1, np.array([0.0])).tolist()
    [[1000000.0]]
    """
    beyond = honest if b >= q else ()
    return farther_end(lambda pushed: trimmed_with(honest, b, pushed), q, x_star, beyond)


def farther_end(
    aggregate: Callable[[np.ndarray], np.ndarray],
    q: int,
    x_star: np.ndarray,
    beyond: Sequence[np.ndarray],
) -> np.ndarray:
    """By coordinate, the far end that moves the aggregate of q such pushes farther; (q, d).

    The ends are FAR and -FAR, or beyond all values of the rows ``beyond``.
    """
    far = np.full(x_star.size, FAR)
    for row in beyond:
        np.maximum(far, 2.0 * np.abs(row.astype(np.float64)), out=far)
    np.minimum(far, np.finfo(np.float32).max, out=far)  # what is not finite is refused
    ends = [aggregate(np.broadcast_to(end, (q, far.size))) for end in (-far, far)]
    lower, upper = (np.abs(end - x_star) for end in ends)
    return np.broadcast_to(np.where(upper >= lower, far, -far), (q, far.size))
