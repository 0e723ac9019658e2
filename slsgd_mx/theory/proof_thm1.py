"""Theorem 1 and its remark, step by step, with the counterexamples; no MXNet."""

from __future__ import annotations

from typing import List

import numpy as np

from slsgd_mx.claims.estimates import estimate
from slsgd_mx.theory import cases, summary
from slsgd_mx.theory.bounds import bound, contraction, explicit_floor, inverse_square_limit, rate
from slsgd_mx.theory.counterexamples import opposed_step
from slsgd_mx.theory.findings import EMPTY, FAILS, HIDDEN, HOLDS, NOT_SHOWN, Finding
from slsgd_mx.theory.tables import Find


def theorem_1(find: Find) -> List[Finding]:
    """Theorem 1 and its remark."""
    return [*local_steps(), *floor(find), *rates(find), *weight(find), *schedules(find)]


def local_steps() -> List[Finding]:
    """One step of one device, and the sum over epochs."""
    opposed, factor = opposed_step(10), 1.0 / (1.0 - contraction(0.1, 1))
    return [
        Finding(
            "one local step",
            "E F(x_h) - F(x_{h-1}) <= -gamma/2 |grad F|^2 + gamma V_1",
            "one of 10 devices opposes the others (Huber losses, gamma=1, V_1=1); "
            f"2 gamma V_1 instead gives {opposed['mended']:.4g}; averaged over devices, which is "
            f"what the first step needs, {opposed['mean_left']:.4g} where even gamma/2 V_1 gives "
            f"{opposed['mean_half']:.4g}",
            opposed["left"],
            opposed["printed"],
            FAILS if opposed["left"] > opposed["printed"] else HOLDS,
        ),
        Finding(
            "the sum over epochs",
            "alpha O(...) in each epoch sums to [1 - rate^T] O(...)",
            "the second O() is 1/(1 - (1-gamma/2)^H_min) times the first; here gamma=0.1, H_min=1",
            factor,
            1.0,
            HIDDEN if factor > 1 else HOLDS,
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
            f"floor by first error F(x_0) - F(x_*), least of these problems ({smallest.objective}),"
            " V_1 of the region: above 1 the bound is never below the start",
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
            EMPTY if by_smoothness <= 1 else FAILS,
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
        table = find(case)
        by_epoch = summary.excess_of_rate(table).mean(axis=0)
        below = np.flatnonzero(by_epoch <= 1) + 1  # epochs
        since = int(below[-1]) + 1 if len(below) else 1
        for_good = f"above from epoch {since} on, " if since <= case.config.epochs else ""
        worst = float(10 ** estimate(summary.log_excess_of_rate(table), 0.0).mean)
        found.append(
            Finding(
                f"the rate, {case.title}",
                "rate^T bounds the decay, whatever mu",
                f"no noise, equal devices: error by rate^t first error, {for_good}"
                f"{by_epoch[19]:.2g} at epoch 20, largest after epoch 0",
                worst,
                1.0,
                HOLDS if worst <= 1 else "holds by the floor only",
            )
        )
    return found


def weight(find: Find) -> List[Finding]:
    """What alpha does to the error, and to the bound."""
    noise = {alpha: find(case) for alpha, case in cases.alpha_cases()["noise"].items()}
    bias = {alpha: find(case) for alpha, case in cases.bias_cases().items()}
    low, high = min(noise), max(noise)
    c, epochs = summary.constants_of(noise[high]), noise[high].case.config.epochs
    left = np.array([rate(alpha, c.gamma, c.h_min) ** epochs for alpha in sorted(noise)])
    bounds = bound(noise[high].first, explicit_floor(c), left)
    at_an_end = int(np.argmin(bounds)) in (0, len(bounds) - 1)
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
            "the bound mixes first error and floor, alpha cancels from the floor, so at equal V_1 "
            f"and V_2 its best alpha is an end of (0, 1]; {pair} after {epochs} epochs, noise only",
            float(bounds[0] / bounds[-1]),
            1.0,
            NOT_SHOWN if at_an_end else HOLDS,
        ),
        Finding(
            "alpha, against drift",
            "alpha -> 0: the error (the bound's second term) is nearly reduced to 0",
            f"every device, no noise, H=16: error at {pair}; predicted for every alpha: "
            f"{summary.drift_limit(bias[high].case.config):.4g}, "
            f"measured: {bias[low].mean[-1]:.4g}, {bias[high].mean[-1]:.4g}",
            float(bias[low].mean[-1] / bias[high].mean[-1]),
            1.0,
            NOT_SHOWN if bias[low].mean[-1] > 0.99 * bias[high].mean[-1] else HOLDS,
        ),
    ]


def schedules(find: Find) -> List[Finding]:
    """The remark on vanishing alpha."""
    exact = find(cases.schedule_cases()["exact"])
    horizons = [find(case) for case in cases.horizon_cases().values()]
    shares, longest = [float(t.mean[-1] / t.first) for t in horizons], horizons[-1].case.config
    limit, last = summary.square_limit(exact) / exact.first, float(exact.mean[-1] / exact.first)
    factor = inverse_square_limit(contraction(0.1, 4))
    return [
        Finding(
            "alpha_t = 1/t^2, error measured",
            "take alpha_t proportional to 1/t^2",
            f"constant 1, no noise: share of the first error left at T={exact.case.config.epochs}; "
            f"predicted for T -> infinity: {limit:.4g}",
            last,
            0.0,
            NOT_SHOWN if min(last, limit) > 0.01 else HOLDS,
        ),
        Finding(
            "alpha_t = 1/t^2, in the bound",
            "take alpha_t proportional to 1/t^2",
            "constant 1, product of the rates, gamma=0.1, H_min=4, T -> infinity: sin(pi z)/(pi z),"
            " z^2 = 1 - (1-gamma/2)^H_min",
            factor,
            0.0,
            NOT_SHOWN if factor > 0.01 else HOLDS,
        ),
        Finding(
            "alpha_T = 1/T^2",
            "lim [1 - rate^T] = 0",
            "true, and so the factor of the first error goes to 1: share of it measured at "
            f"T={longest.epochs}",
            shares[-1],
            0.0,
            EMPTY if shares[-1] > shares[0] else HOLDS,
        ),
    ]
