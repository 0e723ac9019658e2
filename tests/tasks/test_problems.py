"""Problems as tasks: local SGD, minibatches, metrics and the visited region."""

from itertools import islice

import numpy as np
import pytest

from slsgd_mx.config import RunConfig
from slsgd_mx.core.algorithm import initialize, run_epoch
from slsgd_mx.core.model_server import ModelServer
from slsgd_mx.errors import ConfigError
from slsgd_mx.randomness import stream
from slsgd_mx.runs.trainer import train
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.build import build_task
from slsgd_mx.tasks.problems.sizes import Problem
from slsgd_mx.tasks.problems.task import ProblemTask


def config(problem=None, **changes):
    size = dict(n=8, k=4, gamma=0.1, local_steps=(2, 5), batch_size=5, epochs=4, eval_every=2)
    size.update(warm_up=False, alpha_schedule="constant")
    return RunConfig(sizes=Problem(**{"dimension": 3, **(problem or {})}), **{**size, **changes})


@pytest.mark.parametrize("objective", ["quadratic", "waves", "least-squares", "logistic"])
def test_local_sgd_equals_a_loop_over_the_batches(objective):
    task = ProblemTask(config(dict(objective=objective)))
    task.initialize(0)
    x, far, steep = task.objective.x_0, [], []
    assert task.values["x"].asnumpy().tolist() == x.tolist()
    for batch in islice(task.batches(2, stream(7, "shuffle"), None), 4):
        slope = task.objective.gradient(x, 2, *batch)
        far.append(((x - task.objective.x_star) ** 2).sum())
        steep.append((slope**2).sum())
        x = x - 0.1 * slope
    task.train(2, 4, 0.1, 7)
    assert task.units_per_step == 5
    assert task.values["x"].asnumpy().tolist() == x.astype(np.float32).tolist()
    last = ((x - task.objective.x_star) ** 2).sum()
    seen = task.visited
    assert (seen.gradient, seen.before, seen.pushed) == pytest.approx(
        (max(steep), max(far), max([*far, last]))
    )


def test_minibatches_are_drawn_from_the_devices_own_samples():
    task = ProblemTask(config(dict(objective="logistic", samples=12)))
    own = {row.tobytes() for row in task.objective.inputs[3]}
    batches = list(islice(task.batches(3, stream(0, "x"), None), 40))
    drawn = {row.tobytes() for inputs, _ in batches for row in inputs}
    assert drawn == own and {len(inputs) for inputs, _ in batches} == {5}
    flipped = list(islice(task.batches(3, stream(0, "x"), lambda y: 1 - y), 40))
    assert all((a[1] == 1 - b[1]).all() for a, b in zip(batches, flipped))
    assert all((a[0] == b[0]).all() for a, b in zip(batches, flipped))


def test_a_batch_of_all_samples_has_no_noise():
    task = ProblemTask(config(dict(samples=4), batch_size=50))
    assert task.batch_size == 4 and task.steps_per_pass(0) == 1
    results = []
    for seed in (1, 2):
        task.initialize(0)
        task.train(1, 3, 0.1, seed)
        results.append(task.values["x"].asnumpy().tobytes())
    assert results[0] == results[1]


def test_fedavg_on_a_quadratic_in_closed_form():
    """Every device, no noise, H=3: each coordinate contracts by (1 - gamma l)^3."""
    problem = dict(heterogeneity=0.0, noise=0.0, samples=2)
    c = config(problem, n=4, k=4, batch_size=2, local_steps=(3, 3))
    task, server = build_task(c), ModelServer(4)
    initialize(c, task, server)
    run_epoch(1, c, task, server)
    o = task.objective
    expected = o.x_star + (1 - 0.1 * o.total) ** 3 * (o.x_0 - o.x_star)
    np.testing.assert_allclose(server.values()["x"], expected, rtol=1e-6)


def test_metrics_are_the_error_and_the_distance():
    task = ProblemTask(config())
    task.values["x"][:] = mx.nd.array(task.objective.x_star + np.array([2.0, 0, 0]))
    found = task.evaluate()
    assert tuple(found) == Problem.metrics
    assert found["distance"] == pytest.approx(2.0, rel=1e-6)
    assert found["error"] == pytest.approx(0.5 * task.objective.total[0] * 4, rel=1e-5)
    assert found["train_loss"] == pytest.approx(found["error"] + task.objective.least)


def test_the_trainer_runs_problems_like_any_task(tmp_path):
    result = train(config(dict(heterogeneity=0.1), q=1, b=1, epochs=20), tmp_path / "run")
    errors = [float(row["error"]) for row in result.rows]
    assert len(errors) == 10 and errors[-1] < errors[0] / 3
    again = RunConfig.from_json((tmp_path / "run" / "config.json").read_text())
    assert again.sizes == Problem(dimension=3, heterogeneity=0.1) and again.attack == "negation"


@pytest.mark.parametrize(
    "problem, said",
    [
        (dict(objective="cubic"), "objective='cubic' is unknown: choose one of quadratic, waves"),
        (dict(population="odd"), "population='odd' is unknown: choose one of symmetric, skewed"),
        (dict(dimension=0), "dimension=0 is out of range: needs dimension >= 1"),
        (dict(samples=1.5), "samples=1.5 must be a whole number"),
        (dict(curvature=1.0), "curvature=1.0 is out of range: needs 0 <= curvature < 1"),
        (dict(mu=5.0), "mu=5.0 is out of range: needs 0 <= mu <= L=4.0"),
        (dict(L=0.0), "L=0.0 is out of range: needs 0 < L <= 1e6"),
        (dict(noise=-1.0), "noise=-1.0 is out of range: needs 0 <= noise <= 1e6"),
    ],
)
def test_sizes_out_of_range(problem, said):
    with pytest.raises(ConfigError, match=said):
        config(problem)
