"""Summaries of a table: assumptions on the region visited, bounds and floors; no MXNet."""

from __future__ import annotations

from functools import lru_cache
from typing import List, NamedTuple, Optional, Tuple

import numpy as np

from slsgd_mx.config import RunConfig
from slsgd_mx.tasks.problems.objectives import Objective, build_objective
from slsgd_mx.tasks.problems.sizes import Problem
from slsgd_mx.theory import bounds
from slsgd_mx.theory.tables import Table


class Assumptions(NamedTuple):
    """The constants of Assumptions 1 to 3 for a problem, computed and observed."""

    case: str
    objective: str
    L: float
    mu: float  # for every sample
    mu_F: float  # for F, which is what the proof uses
    gamma: float
    gamma_limit: float  # min(1/L, 2)
    gamma_is_legal: bool
    slope_at_optimum: float  # |grad F(x_*)|, 0 up to rounding
    F_star: float
    first_error: float  # F(x_0) - F(x_*)
    gradient_bounded_everywhere: bool  # Assumption 3 as printed, on all of R^d
    V_1_seen: float  # largest |grad f|^2 of the minibatches drawn
    V_1_region: float  # no |grad f(x; z)|^2 is larger within sqrt(V_2) of x_*, for any sample
    V_2: float  # as printed: h = 0..H-1
    V_2_pushed: float  # with the pushes, h = H
    paper_sum: float  # V_1_seen + weight V_2, both as printed
    weight: float  # of V_2: 1 + 1/k - 1/n, or Theorem 2's beta; nan where b < q: no theorem
    fitted: float  # the least floor with which the bound holds
    explicit: float  # floor with every constant of the proof, V_1_region and V_2_pushed
    fitted_constant: float  # fitted / paper_sum
    explicit_by_first: float  # explicit / first_error: above 1 the bound is never below the start


def objective_of(config: RunConfig) -> Objective:
    return build_objective(config.sizes, config.n)


@lru_cache(maxsize=None)
def steepest_at_optimum(sizes: Problem, n: int) -> float:
    """``max_z |grad f(x_*; z)|`` over the samples of all n devices."""
    objective = build_objective(sizes, n)
    return float(np.sqrt((objective.sample_gradients(objective.x_star) ** 2).sum(axis=2).max()))


def region_gradient(config: RunConfig, v2: float) -> float:
    """An upper bound on ``|grad f(x; z)|^2`` for any sample where ``|x - x_*|^2 <= V_2``.

    ``(max_z |grad f(x_*; z)| + L sqrt(V_2))^2``, by L-smoothness of every f.
    """
    at_optimum = steepest_at_optimum(config.sizes, config.n)
    return float((at_optimum + objective_of(config).L * np.sqrt(v2)) ** 2)


def step_bounds(config: RunConfig) -> Tuple[int, int]:
    """H_min and H_max."""
    if config.local_steps is None:
        raise AssertionError("a case without bounds on its local steps")
    return config.local_steps


def constants_of(table: Table, seen: Optional[Table] = None) -> bounds.Constants:
    """What the explicit floor of a case is made of, over all its seeds.

    V_2, and with it V_1, are of the region visited in this table, or in another one (``seen``).
    """
    config, objective = table.case.config, objective_of(table.case.config)
    low, high = step_bounds(config)
    v2 = float((seen or table)["v2_pushed"].max())
    v1 = region_gradient(config, v2)
    return bounds.Constants(
        config.n, config.k, config.gamma, low, high, objective.L, objective.mu_F, v1, v2
    )


def remaining(config: RunConfig) -> np.ndarray:
    """The paper's factor of F(x_0) - F(x_*), for t = 0..T; (T+1,)."""
    alphas = [config.alpha_at(t) for t in range(1, config.epochs + 1)]
    return bounds.decay(alphas, config.gamma, step_bounds(config)[0])


def explicit(table: Table, seen: Optional[Table] = None) -> float:
    """The floor with the proof's constants: Theorem 2's where there is trimming, else 1's.

    nan where b < q, of which the theorems say nothing.
    """
    config, c = table.case.config, constants_of(table, seen)
    if config.b < config.q:
        return float("nan")
    if config.b:
        return bounds.explicit_attacked_floor(c, config.b, config.q)
    return bounds.explicit_floor(c)


def explicit_bound(table: Table, seen: Optional[Table] = None) -> np.ndarray:
    """The theorem with the proof's constants, by epoch; (T+1,)."""
    return bounds.bound(table.first, explicit(table, seen), remaining(table.case.config))


def fitted_bound(table: Table) -> np.ndarray:
    """The theorem with the least floor under which it holds, by epoch; (T+1,)."""
    left = remaining(table.case.config)
    return bounds.bound(table.first, bounds.fitted_floor(table.mean, left), left)


def exceeds(table: Table, seen: Optional[Table] = None) -> float:
    """The share of epochs in which the mean error lies above the explicit bound.

    An error that is not finite lies above any bound, even above an infinite one.
    """
    mean, slack = table.mean, 1.0 + 1e-9
    return float(np.mean(~np.isfinite(mean) | ~(mean <= explicit_bound(table, seen) * slack)))


def cannot_exceed(table: Table) -> bool:
    """Whether no run could exceed a bound made of its own V_2: ``L/2 V_2`` lies below the bound."""
    c = constants_of(table)
    return bool((explicit_bound(table)[1:] >= c.L / 2.0 * c.V_2).all())


def excess_of_rate(table: Table) -> np.ndarray:
    """Error divided by ``rate^t (F(x_0) - F(x_*))`` from epoch 1 on: above 1 the rate is no bound.

    (seeds, T); 0 where float32 cannot distinguish the error from 0.
    """
    errors = table["error"][:, 1:]
    left = remaining(table.case.config)[1:] * table.first
    return np.where(errors <= 1e-9 * table.first, 0.0, errors / left)


def log_excess_of_rate(table: Table) -> List[float]:
    """Per seed, log10 of the largest excess over the rate."""
    with np.errstate(divide="ignore"):
        return np.log10(excess_of_rate(table).max(axis=1)).tolist()


def epochs_to(table: Table, share: float) -> List[float]:
    """Per seed, the first epoch with at most this share of the first error; T+1 if none."""
    never = table.case.config.epochs + 1.0
    below = table["error"] <= share * table.first
    return [float(np.argmax(row)) if row.any() else never for row in below]


def weight_of(config: RunConfig) -> float:
    """The factor of V_2 in the theorem: beta if something is trimmed; nan if b < q (no theorem)."""
    if config.b < config.q:
        return float("nan")
    if config.b:
        return bounds.beta(config.n, config.k, config.b, config.q)
    return 1.0 + 1.0 / config.k - 1.0 / config.n


def assumptions(table: Table) -> Assumptions:
    """The constants of a case's problem, and its floors."""
    config, objective = table.case.config, objective_of(table.case.config)
    c = constants_of(table)
    v1, v2 = float(table["gradient2"].max()), float(table["v2"].max())
    weight, floor = weight_of(config), explicit(table)
    paper_sum = v1 + weight * v2
    fitted = bounds.fitted_floor(table.mean, remaining(config)) if weight == weight else weight
    limit = min(1.0 / objective.L, 2.0)
    return Assumptions(
        case=table.case.name,
        objective=table.case.title,
        L=objective.L,
        mu=objective.mu,
        mu_F=objective.mu_F,
        gamma=config.gamma,
        gamma_limit=limit,
        gamma_is_legal=config.gamma <= limit,
        slope_at_optimum=float(np.linalg.norm(objective.full_gradient(objective.x_star))),
        F_star=objective.least,
        first_error=table.first,
        gradient_bounded_everywhere=objective.gradient_is_bounded,
        V_1_seen=v1,
        V_1_region=c.V_1,
        V_2=v2,
        V_2_pushed=c.V_2,
        paper_sum=paper_sum,
        weight=weight,
        fitted=fitted,
        explicit=floor,
        fitted_constant=fitted / paper_sum,
        explicit_by_first=floor / table.first,
    )


def slope(x: np.ndarray, y: np.ndarray) -> float:
    """The slope of the straight line through (log10 x, log10 y) with least squares."""
    u, v = np.log10(x), np.log10(y)
    u = u - u.mean()
    return float(u @ (v - v.mean()) / (u @ u))


def negation_slopes(tables: List[Tuple[float, Table]]) -> List[float]:
    """Per seed, how log10 of the last error grows with log10 c."""
    scales = np.array([c for c, _ in tables])
    last = np.array([table["error"][:, -1] for _, table in tables])  # (scales, seeds)
    last = np.where(np.isfinite(last), last, np.nan)  # no slope
    return [slope(scales, last[:, seed]) for seed in range(last.shape[1])]


def run_ratios(table: Table) -> np.ndarray:
    """Per seed, the largest deviation by variance over epochs."""
    return (table["deviation"][:, 1:] / table["variance"][:, 1:]).max(axis=1)


def square_limit(table: Table) -> float:
    """The error at which alpha_t = 1/t^2 ends on a quadratic without noise, by coordinate."""
    objective = objective_of(table.case.config)
    steps, _ = step_bounds(table.case.config)
    left = [
        bounds.inverse_square_limit((1.0 - table.case.config.gamma * curvature) ** steps)
        for curvature in objective.total
    ]
    x = objective.x_star + np.array(left) * (objective.x_0 - objective.x_star)
    return objective.error(x)


def drift_limit(config: RunConfig) -> float:
    """The error at which averaged local descent ends on unlike quadratics, whatever alpha.

    H steps from x take device i to ``c_i + (1 - gamma l_i)^H (x - c_i)`` on a coordinate; the mean
    over devices is x where ``sum_i w_i (x - c_i) = 0`` with ``w_i = 1 - (1 - gamma l_i)^H``.
    """
    objective = objective_of(config)
    steps, _ = step_bounds(config)
    weights = 1.0 - (1.0 - config.gamma * objective.curvatures) ** steps  # (n, d)
    centres = objective.inputs.mean(axis=1)
    return objective.error((weights * centres).sum(axis=0) / weights.sum(axis=0))
