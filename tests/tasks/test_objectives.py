"""Objectives: values, gradients, L, mu, x_* and the samples, against their definitions."""

import numpy as np
import pytest

from slsgd_mx.errors import ConfigError
from slsgd_mx.tasks.problems.objectives import OBJECTIVES, OMEGA, POPULATIONS, build_objective
from slsgd_mx.tasks.problems.sizes import OBJECTIVE_NAMES, POPULATION_NAMES, Problem

N = 6
SIZES = {
    "quadratic": Problem(dimension=4, curvature=0.5),
    "flat": Problem(dimension=4, mu=0.0),
    "skewed": Problem(dimension=4, population="skewed", heterogeneity=3.0),
    "waves": Problem(objective="waves", dimension=3, L=1.0),
    "trap": Problem(objective="waves", dimension=3, L=1.0, waves=1.5),
    "least-squares": Problem(objective="least-squares", dimension=4, curvature=0.3),
    "one-dimension": Problem(objective="least-squares", dimension=1),
    "logistic": Problem(objective="logistic", dimension=3, L=1.0),
}
every_problem = pytest.mark.parametrize("name", SIZES)


def find(name):
    return build_objective(SIZES[name], N)


def probes(objective, count=200, seed=0):
    rng = np.random.default_rng(seed)
    spread = rng.choice([0.01, 1.0, 5.0], size=(count, 1))
    return objective.x_star + spread * rng.standard_normal((count, len(objective.x_star)))


def sample_value(objective, x, i, s):
    """f(x; z) of one sample, by definition."""
    u, y, sizes = objective.inputs[i, s], objective.labels[i, s], objective.sizes
    if sizes.objective == "least-squares":
        return (u @ x - y) ** 2 / 2
    if sizes.objective == "logistic":
        return np.log(1 + np.exp(-(2 * y - 1) * (u @ x)))
    value = (objective.curvatures[i] * (x - u) ** 2).sum() / 2
    if sizes.objective == "waves":
        value += sizes.waves * (1 - np.cos(OMEGA * (x - objective.x_star))).sum()
    return value


def test_every_objective_and_population_is_implemented_and_tested():
    assert {sizes.objective for sizes in SIZES.values()} == set(OBJECTIVES) == set(OBJECTIVE_NAMES)
    assert {sizes.population for sizes in SIZES.values()} == set(POPULATIONS)
    assert set(POPULATIONS) == set(POPULATION_NAMES)


@every_problem
def test_F_is_the_mean_over_devices_and_samples(name):
    objective = find(name)
    for x in probes(objective, 5):
        m = objective.inputs.shape[1]
        by_hand = np.mean([sample_value(objective, x, i, s) for i in range(N) for s in range(m)])
        assert objective.value(x) == pytest.approx(by_hand, rel=1e-9)


@every_problem
def test_gradients_equal_finite_differences(name):
    objective = find(name)
    for x in probes(objective, 5):
        sample, whole = objective.sample_gradients(x)[2, 3], objective.full_gradient(x)
        for j, step in enumerate(1e-6 * np.eye(len(x))):
            rise = sample_value(objective, x + step, 2, 3) - sample_value(objective, x - step, 2, 3)
            assert sample[j] == pytest.approx(rise / 2e-6, abs=1e-4)
            rise = objective.value(x + step) - objective.value(x - step)
            assert whole[j] == pytest.approx(rise / 2e-6, abs=1e-4)


@every_problem
def test_L_and_mu_bound_every_sample_and_are_nearly_reached(name):
    """Assumption 2 between pairs of points, near and far; mu for F too."""
    objective, seen = find(name), []
    near = np.random.default_rng(1).standard_normal((60, len(objective.x_star)))
    for x, step in zip(probes(objective, 60), near):
        y = x + 1e-2 * step
        for i, s in ((0, 0), (3, 1), (5, 7)):
            rise = sample_value(objective, y, i, s) - sample_value(objective, x, i, s)
            slope = objective.gradient(
                x, i, objective.inputs[i, s : s + 1], objective.labels[i, s : s + 1]
            )
            seen.append(2 * (rise - slope @ (y - x)) / ((y - x) @ (y - x)))
        rise = objective.value(y) - objective.value(x) - objective.full_gradient(x) @ (y - x)
        assert 2 * rise >= (objective.mu_F - 1e-6) * ((y - x) @ (y - x))
    assert objective.mu - 1e-4 <= min(seen) and max(seen) <= objective.L + 1e-4
    assert objective.mu <= objective.mu_F + 1e-12 and max(seen) > objective.L / 10


@every_problem
def test_x_star_is_a_global_minimum(name):
    objective = find(name)
    assert np.abs(objective.full_gradient(objective.x_star)).max() < 1e-9
    assert objective.error(objective.x_star) == 0
    assert min(objective.error(x) for x in probes(objective, 500)) >= -1e-12


@every_problem
def test_the_start_is_at_the_given_distance(name):
    objective = find(name)
    away = np.linalg.norm(objective.x_0 - objective.x_star)
    if name == "flat":  # the nearest minimum
        assert 0 < away < 5
    else:
        assert away == pytest.approx(5.0, rel=1e-6)
    assert objective.x_0.astype(np.float32).astype(float).tolist() == objective.x_0.tolist()


def test_of_several_minima_x_star_is_the_nearest_to_the_start():
    """With fewer samples than dimensions, least squares has a plane of them."""
    few = build_objective(Problem(objective="least-squares", dimension=50, samples=2), n=5)
    u = few.inputs.reshape(-1, 50)
    assert few.least < 1e-20
    away = few.x_0 - few.x_star
    along = away - u.T @ np.linalg.solve(u @ u.T, u @ away)  # its part along that plane
    assert np.linalg.norm(along) < 1e-6 * np.linalg.norm(away)


def test_convexity_of_each_kind():
    assert find("quadratic").mu > 0 and find("flat").mu_F == 0 and find("logistic").mu_F == 0
    assert find("waves").mu_F == 1 - 0.5 * 4 and find("trap").mu_F == 1 - 1.5 * 4
    strong = find("least-squares")
    assert strong.mu == 0 < strong.mu_F and find("one-dimension").mu > 0
    assert [find(name).gradient_is_bounded for name in ("logistic", "quadratic")] == [True, False]


def test_the_trap_has_a_local_minimum_and_the_waves_have_none():
    for name, caught in (("waves", False), ("trap", True)):
        objective = find(name)
        x = objective.x_star + 2.8
        for _ in range(300):
            x = x - 0.1 * objective.full_gradient(x)
        assert (objective.error(x) > 1) == caught


def test_heterogeneity_is_the_spread_of_the_devices_optima():
    for h in (0.0, 2.0):
        objective = build_objective(Problem(heterogeneity=h, dimension=5), 50)
        optima = objective.inputs.mean(axis=1)
        assert optima.std(axis=0) == pytest.approx([h] * 5, abs=1e-9)
    skew = build_objective(Problem(population="skewed", noise=0.0), 50).inputs.mean(axis=1)
    centred = skew - skew.mean(axis=0)
    assert np.all((centred < -1).sum(axis=0) == 10) and centred.max() == pytest.approx(0.5)


def test_the_instance_alone_decides_the_data():
    one, same = build_objective(Problem(), N), OBJECTIVES["quadratic"](Problem(), N)
    other = build_objective(Problem(instance=1), N)
    assert one.inputs.tobytes() == same.inputs.tobytes() != other.inputs.tobytes()


def test_a_problem_without_a_minimum_is_refused():
    separable = Problem(objective="logistic", dimension=10, samples=1, L=1.0)
    with pytest.raises(ConfigError, match="can be separated; choose another instance"):
        build_objective(separable, 2)
    with pytest.raises(ConfigError, match="mu=0.0 is out of range: waves need mu > 0"):
        build_objective(Problem(objective="waves", mu=0.0), 2)
