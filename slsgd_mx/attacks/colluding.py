"""Attacks by workers that collude: they see the honest pushes of the epoch and x_{t-1}.

mu and sigma are the mean and the standard deviation of the honest pushes, u = mu - x_{t-1}.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Callable, Mapping, Optional

import numpy as np

from slsgd_mx.attacks.collusion import Collusion, Facts, Products
from slsgd_mx.registry import Value


def alie(seen: Collusion) -> np.ndarray:
    """A little is enough (Baruch et al. 2019): push mu + z sigma."""
    z = seen.parameters["z"]
    return seen.mu + (max(0.0, hidden_z(seen.k, seen.q)) if z == "auto" else z) * seen.sigma


def hidden_z(k: int, q: int) -> float:
    """The normal quantile of (k-q-s)/(k-q) with s = floor(k/2+1) - q.

    With s more supporters among the honest the q have a majority.  If they have one already, s = 1.

    >>> hidden_z(50, 20) == NormalDist().inv_cdf(24 / 30), hidden_z(10, 2)
    (True, 0.0)
    """
    honest = k - q
    share = (honest - max(1, k // 2 + 1 - q)) / max(1, honest)
    return NormalDist().inv_cdf(share) if share > 0 else -math.inf


def needs_positive_z(k: int, q: int, b: int, parameters: Mapping[str, Value]) -> Optional[str]:
    """z=auto has to be positive, or there is no attack.

    >>> needs_positive_z(10, 2, 0, {"z": "auto"})
    'z > 0, and z=auto gives 0 for k=10, q=2'
    >>> needs_positive_z(20, 1, 0, {"z": "auto"})
    'z > 0, and z=auto gives -0.066 for k=20, q=1'
    """
    if parameters["z"] != "auto" or q == 0 or hidden_z(k, q) > 0:
        return None
    return f"z > 0, and z=auto gives {hidden_z(k, q):.3g} for k={k}, q={q}"


def ipm(seen: Collusion) -> np.ndarray:
    """Inner product manipulation (Xie et al. 2019): push x_{t-1} - epsilon u."""
    return _against(seen, seen.parameters["epsilon"])


def _against(seen: Collusion, epsilon: float) -> np.ndarray:
    return seen.previous - epsilon * (seen.mu - seen.previous)


def sign_flip(seen: Collusion) -> np.ndarray:
    """Push x_{t-1} - u_i, with its own trained u_i."""
    return np.stack([2.0 * seen.previous - own.astype(np.float64) for own in seen.own])


def replace_model(seen: Collusion) -> np.ndarray:
    """Model replacement (Bagdasaryan et al. 2020): x_{t-1} + factor (x_i - x_{t-1})."""
    factor = seen.parameters["factor"]
    factor = seen.k / seen.q if factor is None else factor
    previous = seen.previous.astype(np.float64)
    return np.stack([previous + factor * (own - previous) for own in seen.own])


def push_backdoor(seen: Collusion) -> np.ndarray:
    """What was trained on images with the backdoor, by model replacement if a factor is given."""
    return np.stack(seen.own) if seen.parameters["factor"] is None else replace_model(seen)


# ---------------------------------------------------------------------------- from inner products


def mimic(seen: Products, facts: Facts) -> np.ndarray:
    """Push a copy of an honest push: that in the lowest slot, or the farthest from mu."""
    if facts.parameters["of"] == "first":
        return seen.honest[0]
    return max(seen.honest, key=lambda one: seen.square(one - seen.mu))  # the first of equals


def min_max(seen: Products, facts: Facts) -> np.ndarray:
    """mu - g sigma, as far from an honest push as two honest ones are from each other at most.

    (Shejwalkar and Houmansadr 2021.)
    """
    return _push_away(seen, max)


def min_sum(seen: Products, facts: Facts) -> np.ndarray:
    """mu - g sigma, whose squared distances add up to no more than those of an honest push."""
    return _push_away(seen, sum)


def _push_away(seen: Products, measure: Callable) -> np.ndarray:
    """mu - g sigma with the largest g whose squared distances have at most the honest measure.

    ``|mu - g sigma - x_i|^2 = |mu - x_i|^2 - 2 g <sigma, mu - x_i> + g^2 |sigma|^2``.
    """
    honest, spread = seen.honest, seen.square(seen.sigma)
    limit = max(measure([seen.square(one - other) for other in honest]) for one in honest)
    squares = np.array([seen.square(seen.mu - one) for one in honest])
    slopes = np.array([seen.dot(seen.sigma, seen.mu - one) for one in honest])

    def is_hidden(g: float) -> bool:
        return measure(squares - 2.0 * g * slopes + g * g * spread) <= limit

    return seen.mu - (largest(is_hidden) if spread > 0 else 0.0) * seen.sigma


def largest(holds: Callable[[float], bool]) -> float:
    """The largest g >= 0 for which a condition holds that holds up to some g; by bisection.

    >>> round(largest(lambda g: g * g <= 2), 9)
    1.414213562
    """
    low, high = 0.0, 1.0
    while holds(high) and high < 1e30:
        low, high = high, 2.0 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


# ---------------------------------------------------------------------------- on the rule in use


def optimal_alie(seen: Collusion) -> np.ndarray:
    """mu + z sigma with the z that moves the server's aggregate farthest from mu."""
    return _best_push(seen, lambda z: seen.mu + z * seen.sigma)


def optimal_ipm(seen: Collusion) -> np.ndarray:
    """x_{t-1} - epsilon u with the epsilon that moves the server's aggregate farthest from mu."""
    return _best_push(seen, lambda epsilon: _against(seen, epsilon))


def _best_push(seen: Collusion, push: Callable[[float], np.ndarray]) -> np.ndarray:
    def moved(z: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            aggregate = seen.aggregate([push(z).astype(np.float32)] * seen.q)
            return float(((aggregate - seen.mu) ** 2).sum())

    return push(search_line(moved, seen.parameters["evaluations"]))


def search_line(measure: Callable[[float], float], evaluations: int) -> float:
    """The z of either sign, 0.1 <= |z| <= 10, with the largest measure that was found.

    Half of the evaluations form a grid of log |z| for both signs; the others halve the wider of the
    two intervals next to the best z.

    >>> round(search_line(lambda z: -abs(z + 3), 20), 1)
    -3.0
    """
    count = max(1, evaluations // 4)
    grid = [10.0**e for e in (np.linspace(-1.0, 1.0, count) if count > 1 else [0.0])]
    found = {z: measure(z) for size in grid for z in (size, -size)}
    best = max(found, key=lambda z: _rank(found[z]))
    for _ in range(evaluations - len(found)):
        sizes = sorted({0.1, 10.0} | {abs(z) for z in found if z * best > 0})
        place = sizes.index(abs(best))
        gaps = [pair for pair in (sizes[place - 1 : place + 1], sizes[place : place + 2])]
        gaps = [pair for pair in gaps if len(pair) == 2]
        low, high = max(gaps, key=lambda pair: pair[1] / pair[0])
        z = math.copysign(math.sqrt(low * high), best)
        found[z] = measure(z)
        best = max(found, key=lambda z: _rank(found[z]))
    return best


def _rank(value: float) -> float:
    return -math.inf if math.isnan(value) else value
