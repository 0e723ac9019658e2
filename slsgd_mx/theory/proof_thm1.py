"""Theorem 1 and its remark, step by step, with the counterexamples; no MXNet."""

from __future__ import annotations

from typing import Dict, List

import numpy as np

from . import cases, summary
from .bounds import bound, contraction, explicit_floor, inverse_square_limit, rate
from .findings import EMPTY, FAILS, HIDDEN, HOLDS, NOT_SHOWN, Find, Finding
from .tables import Table


def opposed_step(n: int) -> Dict[str, float]:
    """The one-step inequality for a device whose gradient opposes everybody else's.

    In one dimension, ``f^i(x) = huber(x - c_i)`` with slopes in [-1, 1], so V_1 = 1, L = 1 and
    mu = 0; c_i = -10 on n-1 devices and +10 on one.  From x = 0 with gamma = 1 that one goes to 1.

    >>> {name: round(value, 2) for name, value in opposed_step(10).items()}
    {'left': 0.8, 'printed': 0.68, 'mended': 1.68}
    """
    centres = np.array([-10.0] * (n - 1) + [10.0])

    def value(x: float) -> float:
        u = np.abs(x - centres)
        return float(np.mean(np.where(u <= 1.0, u**2 / 2.0, u - 0.5)))

    def slopes(x: float) -> np.ndarray:
        return np.clip(x - centres, -1.0, 1.0)

    x, gamma, v1 = 0.0, 1.0, 1.0
    after = x - gamma * slopes(x)[-1]
    descent = gamma / 2.0 * float(slopes(x).mean()) ** 2
    return {
        "left": value(after) - value(x),
        "printed": -descent + gamma * v1,
        "mended": -descent + 2.0 * gamma * v1,
    }


def pushes_from_optimum() -> Dict[str, float]:
    """One step of every device from x_* itself: V_2 as printed is 0, the pushes differ."""
    config = cases.problem_cases()["quadratic"].config
    objective = summary.objective_of(config)
    x = objective.x_star
    pushes = np.array(
        [
            x - config.gamma * objective.gradient(x, i, objective.inputs[i], objective.labels[i])
            for i in range(config.n)
        ]
    )
    spread = ((pushes - pushes.mean(axis=0)) ** 2).sum() / (config.n - 1)
    chosen = (1 / config.k - 1 / config.n) * (objective.L + 1) / 2 * spread
    return {"left": float(chosen), "printed": 0.0}


def theorem_1(find: Find) -> List[Finding]:
    """Theorem 1 and its remark."""
    return [*local_steps(), *floor(find), *rates(find), *weight(find), *schedules(find)]


def local_steps() -> List[Finding]:
    """One step of one device, and the pushes."""
    opposed, pushes = opposed_step(10), pushes_from_optimum()
    return [
        Finding(
            "one local step",
            "E F(x_h) - F(x_{h-1}) <= -gamma/2 |grad F|^2 + gamma V_1",
            "one of 10 devices opposes the others (Huber losses, gamma=1, V_1=1); "
            f"2 gamma V_1 instead gives {opposed['mended']:.4g}",
            opposed["left"],
            opposed["printed"],
            FAILS if opposed["left"] > opposed["printed"] else HOLDS,
        ),
        Finding(
            "V_2 without the pushes (h <= H-1)",
            "(1/k - 1/n)/(n-1) sum (L+1)/2 |x_i - mean|^2 <= (1/k - 1/n) O(V_2)",
            "one step from x_0 = x_* on unlike devices, where V_2 = 0; with h <= H it holds",
            pushes["left"],
            pushes["printed"],
            FAILS if pushes["left"] > pushes["printed"] else HOLDS,
        ),
        Finding(
            "the sum over epochs",
            "O() depends neither on gamma nor on H_min",
            "it carries 1/(1 - (1-gamma/2)^H_min); here gamma=0.1, H_min=1",
            1.0 / (1.0 - contraction(0.1, 1)),
            1.0,
            HIDDEN,
        ),
    ]


def floor(find: Find) -> List[Finding]:
    """What O(V_1 + V_2) amounts to."""
    tables = {name: find(case) for name, case in cases.problem_cases().items()}
    reports = [summary.assumptions(table) for table in tables.values()]
    smallest = min(reports, key=lambda report: report.explicit_by_first)
    by_smoothness = max(
        float((t["error"] / (summary.objective_of(t.case.config).L / 2 * t["v2_pushed"])).max())
        for t in tables.values()
    )
    stuck = tables["trap"]
    return [
        Finding(
            "the floor, with the proof's constants",
            "converges to a global optimum",
            f"floor by first error F(x_0) - F(x_*), least of all problems ({smallest.objective}): "
            "above 1 the bound is never below the start",
            smallest.explicit_by_first,
            1.0,
            NOT_SHOWN if smallest.explicit_by_first > 1 else HOLDS,
        ),
        Finding(
            "the floor, V_2 alone",
            "E[F(x_T) - F(x_*)] <= ... + O(V_2)",
            "largest F(x_t) - F(x_*) by L/2 V_2 over problems, seeds and epochs: L-smoothness "
            "alone gives at most 1",
            by_smoothness,
            1.0,
            EMPTY,
        ),
        Finding(
            "mu < 0, with local minima",
            "converges to a global optimum",
            "share of the first error that stays, from a start in a local minimum's basin, "
            f"T={stuck.case.config.epochs}",
            float(stuck.floors.mean() / stuck.first),
            0.0,
            NOT_SHOWN if stuck.floors.mean() > 0.01 * stuck.first else HOLDS,
        ),
    ]


def rates(find: Find) -> List[Finding]:
    """The rate, which does not depend on mu, where nothing makes a floor."""
    found = []
    for case in cases.rate_cases().values():
        worst = worst_after_start(find(case))
        found.append(
            Finding(
                f"the rate, {case.title}",
                "rate^T bounds the decay, whatever mu",
                "no noise, equal devices: error by rate^t first error, largest after epoch 0",
                worst,
                1.0,
                HOLDS if worst <= 1 else "holds by the floor only",
            )
        )
    return found


def worst_after_start(table: Table) -> float:
    """The largest mean error by ``rate^t (F(x_0) - F(x_*))``, t >= 1, above float32's rounding."""
    left = summary.remaining(table.case.config)[1:] * table.first
    errors = table.mean[1:]
    seen = (errors > 1e-9 * table.first) & (left > 1e-9 * table.first)
    return float((errors[seen] / left[seen]).max())


def weight(find: Find) -> List[Finding]:
    """What alpha does to the error, and to the bound."""
    noise = {alpha: find(case) for alpha, case in cases.alpha_cases()["noise"].items()}
    bias = {alpha: find(case) for alpha, case in cases.bias_cases().items()}
    low, high = min(noise), max(noise)
    c, epochs = summary.constants_of(noise[high]), noise[high].case.config.epochs
    left = np.array([rate(alpha, c.gamma, c.h_min) ** epochs for alpha in (low, high)])
    at_low, at_high = bound(noise[high].first, explicit_floor(c), left)
    fall = float(noise[low].floors.mean() / noise[high].floors.mean())
    pair = f"alpha={low:g} by alpha={high:g}"
    return [
        Finding(
            "alpha, error measured",
            "a smaller alpha reduces the error",
            f"{pair}, noise only: error that stays",
            fall,
            1.0,
            HOLDS if fall < 1 else FAILS,
        ),
        Finding(
            "alpha, in the bound",
            "alpha trades rate for error",
            "the bound mixes first error and floor, alpha cancels from the floor, so its best "
            f"alpha is an end of (0, 1]; {pair} after {epochs} epochs, noise only",
            float(at_low / at_high),
            1.0,
            NOT_SHOWN,
        ),
        Finding(
            "alpha, against drift",
            "a smaller alpha reduces the error",
            f"every device, no noise, H=16: error at {pair}; predicted for every alpha: "
            f"{summary.drift_limit(bias[high].case.config):.4g}, "
            f"measured: {bias[low].mean[-1]:.4g}, {bias[high].mean[-1]:.4g}",
            float(bias[low].mean[-1] / bias[high].mean[-1]),
            1.0,
            FAILS if bias[low].mean[-1] > 0.99 * bias[high].mean[-1] else HOLDS,
        ),
    ]


def schedules(find: Find) -> List[Finding]:
    """The remark on vanishing alpha."""
    exact = find(cases.schedule_cases()["exact"])
    longest = find(list(cases.horizon_cases().values())[-1])
    limit = summary.square_limit(exact)
    factor = inverse_square_limit(contraction(0.1, 4))
    return [
        Finding(
            "alpha_t = 1/t^2, error measured",
            "take alpha_t proportional to 1/t^2",
            f"no noise: share of the first error left at T={exact.case.config.epochs}; predicted "
            f"for T -> infinity: {limit / exact.first:.4g}",
            float(exact.mean[-1] / exact.first),
            0.0,
            NOT_SHOWN,
        ),
        Finding(
            "alpha_t = 1/t^2, in the bound",
            "take alpha_t proportional to 1/t^2",
            "product of the rates, gamma=0.1, H_min=4, T -> infinity: sin(pi z)/(pi z), z^2 = 1 - "
            "(1-gamma/2)^H_min",
            factor,
            0.0,
            NOT_SHOWN,
        ),
        Finding(
            "alpha_T = 1/T^2",
            "lim [1 - rate^T] = 0",
            "true, and so the factor of the first error goes to 1: share of it measured at "
            f"T={longest.case.config.epochs}",
            float(longest.mean[-1] / longest.first),
            0.0,
            EMPTY,
        ),
    ]
