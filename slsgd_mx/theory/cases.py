"""Which runs the theory is measured on: a case is a configuration that is run with many seeds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Dict, List

from slsgd_mx.config import RunConfig
from slsgd_mx.tasks.problems.sizes import Problem

VERSION = 1  # of the meaning of a row; a new one invalidates every table

NOISY = dict(heterogeneity=0.0, noise=3.0)  # one population, noisy minibatches
DRIFT = dict(heterogeneity=3.0, curvature=0.8)  # devices that pull in different directions
EXACT = dict(heterogeneity=0.0, noise=0.0, samples=4)  # nothing that could cause a floor


@dataclass(frozen=True)
class Case:
    """One configuration (with seed 0) and its name, which is also that of its file."""

    name: str
    title: str
    config: RunConfig
    times: int = 1  # how many times as many seeds as other cases

    @property
    def file(self) -> str:
        what = f"{VERSION} {self.config.identity}"
        return f"{self.name}-{hashlib.sha256(what.encode()).hexdigest()[:8]}.csv"

    def seeded(self, seed: int) -> RunConfig:
        return replace(self.config, seed=seed)


def run(problem: Dict[str, Any], **changes: Any) -> RunConfig:
    """Algorithm 1 at the size that all cases have: n=40, k=10, gamma=0.1, 2 to 6 local steps."""
    size: Dict[str, Any] = dict(n=40, k=10, gamma=0.1, local_steps=(2, 6), batch_size=4)
    size.update(alpha_schedule="constant", warm_up=False, eval_every=1, epochs=80)
    return RunConfig(sizes=Problem(**problem), **{**size, **changes})


# The problems of Theorem 1, with learning rates below min(1/L, 2).
PROBLEMS: Dict[str, Dict[str, Any]] = {
    "quadratic": dict(title="Quadratic (strongly convex)", problem={}, gamma=0.1),
    "least-squares": dict(
        title="Least squares (strongly convex)",
        problem=dict(objective="least-squares", curvature=0.3),
        gamma=0.2,
    ),
    "flat": dict(title="Flat quadratic (mu = 0)", problem=dict(mu=0.0), gamma=0.1),
    "logistic": dict(
        title="Logistic (convex)", problem=dict(objective="logistic", L=1.0), gamma=0.8
    ),
    "waves": dict(title="Waves (mu < 0)", problem=dict(objective="waves", L=1.0), gamma=0.1),
    "trap": dict(
        title="Waves with local minima (mu < 0)",
        problem=dict(objective="waves", L=1.0, waves=1.5, radius=9.0, heterogeneity=0.5, noise=0.5),
        gamma=0.1,
    ),
}

ALPHAS = (1.0, 0.6, 0.4, 0.2)
STEPS = (1, 2, 4, 8, 16)
HORIZONS = (2, 5, 10, 20, 50)
WORLDS = {"noise": (NOISY, "Noise only"), "drift": (DRIFT, "Heterogeneous devices")}


def problem_cases() -> Dict[str, Case]:
    """Theorem 1 on every problem, alpha=0.5, until the rate's part of the bound has vanished."""
    size = dict(alpha=0.5, epochs=160)
    return {
        name: Case(f"thm1-{name}", p["title"], run(p["problem"], gamma=p["gamma"], **size))
        for name, p in PROBLEMS.items()
    }


def rate_cases() -> Dict[str, Case]:
    """Nothing that causes a floor: full batches, equal devices (or a single one), alpha=1."""
    whole = dict(batch_size=200, epochs=100)
    alone = dict(objective="logistic", L=1.0, heterogeneity=0.0, samples=200)
    single = run(alone, n=1, k=1, gamma=0.8, **whole)
    return {
        "strong": Case("thm1-rate-strong", "mu=1", run(EXACT, **whole)),
        "weak": Case("thm1-rate-weak", "mu=0.01", run({**EXACT, "mu": 0.01}, **whole)),
        "logistic": Case("thm1-rate-logistic", "logistic", single),
    }


def alpha_cases() -> Dict[str, Dict[float, Case]]:
    """alpha from 1 to 0.2, with noisy minibatches and with heterogeneous devices."""

    def case(world: str, alpha: float) -> Case:
        config = run(WORLDS[world][0], alpha=alpha, epochs=100)
        return Case(f"thm1-alpha-{world}-{alpha:g}", f"alpha={alpha:g}", config)

    return {world: {alpha: case(world, alpha) for alpha in ALPHAS} for world in WORLDS}


def bias_cases() -> Dict[float, Case]:
    """Every device in every epoch, no noise, H=16: only the devices' drift is left."""
    fixed = dict(n=10, k=10, local_steps=(16, 16), batch_size=4, epochs=40)
    still = {**DRIFT, "noise": 0.0, "samples": 4}
    return {
        alpha: Case(f"thm1-bias-{alpha:g}", f"alpha={alpha:g}", run(still, alpha=alpha, **fixed))
        for alpha in ALPHAS
    }


def step_cases() -> Dict[str, Dict[int, Case]]:
    """One H for all, from 1 to 16, alpha=1."""

    def case(world: str, h: int) -> Case:
        config = run(WORLDS[world][0], local_steps=(h, h), epochs=40)
        return Case(f"thm1-steps-{world}-{h}", f"H={h}", config)

    return {world: {h: case(world, h) for h in STEPS} for world in WORLDS}


def schedule_cases() -> Dict[str, Case]:
    """alpha_t = 1/t^2, with noise and without, and constant alpha for comparison."""
    square = dict(alpha_schedule="inverse-square", local_steps=(4, 4), epochs=60)
    constant = dict(local_steps=(4, 4), epochs=60)
    return {
        "exact": Case("thm1-square-exact", "no noise", run(EXACT, batch_size=4, **square)),
        "noise": Case("thm1-square-noise", "noise", run(NOISY, **square)),
        "constant": Case("thm1-square-constant", "alpha=1", run(NOISY, **constant)),
    }


def horizon_cases() -> Dict[int, Case]:
    """alpha = 1/T^2 throughout, for growing T; no noise."""
    fixed = dict(batch_size=4, local_steps=(4, 4))
    return {
        T: Case(f"thm1-horizon-{T}", f"T={T}", run(EXACT, alpha=1 / T**2, epochs=T, **fixed))
        for T in HORIZONS
    }


POPULATIONS = {"symmetric": "Symmetric population", "skewed": "Skewed population"}
QS, BS, KS = (0, 1, 2, 3, 4), (1, 2, 3, 4), (5, 6, 8, 10, 14, 20)
Q_AT_B, B_AT_Q, K_AT = 4, 1, 2  # b of the sweep over q, q of that over b, both of that over k


def attack_cases() -> Dict[str, Case]:
    """q=2 of k=10, b=2: every attack, and runs without attack for comparison."""
    problem, epochs = dict(heterogeneity=1.0), 40
    plain = dict(epochs=epochs, b=2)
    kinds: Dict[str, Dict[str, Any]] = {
        "none": dict(b=0),
        "trimmed": dict(),
        "negation-1e2": dict(q=2, attack="negation", attack_scale=1e2),
        "negation-1e6": dict(q=2, attack="negation", attack_scale=1e6),
        "gaussian-1e2": dict(q=2, attack="gaussian", attack_scale=1e2),
        "gaussian-1e6": dict(q=2, attack="gaussian", attack_scale=1e6),
        "inf": dict(q=2, attack="inf", nonfinite="keep"),
        "nan": dict(q=2, attack="nan", nonfinite="keep"),
        "away": dict(q=2, attack="worst-case"),
    }
    titles = {
        "none": "no attack, b=0",
        "trimmed": "no attack, b=2",
        "away": "away from the optimum (worst found)",
        "inf": "+infinity",
        "nan": "NaN",
    }
    cases = {}
    for name, changes in kinds.items():
        title = titles.get(name, name.replace("-", ", c="))
        config = run(problem, **{**plain, **changes})
        cases[name] = Case(f"thm2-attack-{name}", title, config)
    for name in ("least-squares", "logistic", "waves"):
        p = PROBLEMS[name]
        config = run(p["problem"], gamma=p["gamma"], epochs=epochs, q=2, b=2, attack="worst-case")
        cases[f"away-{name}"] = Case(f"thm2-attack-away-{name}", p["title"], config)
    # the paper's own attack; only this problem has labels
    flip = replace(cases["away-logistic"].config, attack="label-flip", attacker_start="fresh")
    cases["flip"] = Case("thm2-attack-flip-logistic", "label flip, logistic", flip)
    return cases


@lru_cache(maxsize=None)
def unattacked_cases() -> Dict[RunConfig, Case]:
    """Every problem of Theorem 2 without attack (q=0) and without trimming, by configuration."""
    attacks = attack_cases()
    found = [attacks["none"]]
    for name in ("least-squares", "logistic", "waves"):
        config = unattacked_config(attacks[f"away-{name}"])
        found.append(Case(f"thm2-free-{name}", f"{PROBLEMS[name]['title']}, no attack", config))
    found += [sweep_case(population, k, 0, 0) for population in POPULATIONS for k in KS]
    return {case.config: case for case in found}


def unattacked_config(case: Case) -> RunConfig:
    return replace(case.config, b=0, q=0, nonfinite="reject")


def unattacked(case: Case) -> Case:
    """The same problem and sizes without attack, from which C11 takes V_1 and V_2."""
    return unattacked_cases()[unattacked_config(case)]


def sweep_case(population: str, k: int, b: int, q: int) -> Case:
    """The worst attack found, on devices that lie far apart."""
    attack = dict(attack="worst-case") if q else {}
    problem = dict(heterogeneity=3.0, population=population)
    config = run(problem, k=k, b=b, q=q, epochs=40, **attack)
    # b has the smallest effect of all that are judged: its two ends need more seeds
    times = 4 if (k, q) == (10, B_AT_Q) and b in (min(BS), max(BS)) else 1
    name = f"thm2-{population}-k{k}-b{b}-q{q}"
    return Case(name, f"k={k}, b={b}, q={q}", config, times)


def sweep_cases(population: str) -> Dict[str, Dict[int, Case]]:
    """Over q, over b and over k."""
    return {
        "q": {q: sweep_case(population, 10, Q_AT_B, q) for q in QS},
        "b": {b: sweep_case(population, 10, b, B_AT_Q) for b in BS},
        "k": {k: sweep_case(population, k, K_AT, K_AT) for k in KS},
    }


SCALES = (1e1, 1e2, 1e3, 1e4, 1e5, 1e6)
DEFENCES = {
    "plain": ("b=0, alpha=1", dict(b=0)),
    "averaged": ("b=0, alpha=0.2", dict(b=0, alpha=0.2)),
    "trimmed": ("b=2, alpha=1", dict(b=2)),
}


def negation_cases() -> Dict[str, Dict[float, Case]]:
    """Proposition 1: q=2 of k=10 push -((k-q)/q) x + c, on equal devices as in its sketch."""

    def case(name: str, c: float) -> Case:
        title, changes = DEFENCES[name]
        attack = dict(q=2, attack="negation", attack_scale=c)
        config = run(dict(heterogeneity=0.0), epochs=10, **attack, **changes)
        return Case(f"prop1-{name}-{c:.0e}".replace("+", ""), title, config)

    return {name: {c: case(name, c) for c in SCALES} for name in DEFENCES}


def cases_of(part: str) -> List[Case]:
    """Every case of thm1, thm2 or prop1, each once."""
    if part == "thm1":
        found = [*problem_cases().values(), *rate_cases().values()]
        found += [case for world in alpha_cases().values() for case in world.values()]
        found += [case for world in step_cases().values() for case in world.values()]
        found += [*schedule_cases().values(), *horizon_cases().values(), *bias_cases().values()]
    elif part == "thm2":
        sweeps = [sweep for name in POPULATIONS for sweep in sweep_cases(name).values()]
        found = [*attack_cases().values(), *(c for sweep in sweeps for c in sweep.values())]
        found += unattacked_cases().values()
    elif part == "prop1":
        found = [case for line in negation_cases().values() for case in line.values()]
    else:
        raise AssertionError(part)
    return list({case.name: case for case in found}.values())
