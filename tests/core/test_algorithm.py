"""Algorithm 1 on real, tiny tasks: every feature has its documented effect."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from slsgd_mx.attacks import ATTACKS
from slsgd_mx.core import algorithm
from slsgd_mx.core.algorithm import initialize, run_epoch, select_devices, select_poisoned
from slsgd_mx.core.model_server import ModelServer
from slsgd_mx.randomness import integer_seed, stream
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.sizes import SIZES

pytestmark = pytest.mark.parametrize("tiny", SIZES, indirect=True)

OWN_ATTACKS = [name for name, attack in ATTACKS.items() if not attack.colludes]
LABEL_ATTACKS = [name for name in OWN_ATTACKS if ATTACKS[name].labels]


class SpyServer(ModelServer):
    """Records what was pushed, by slot and key."""

    def push(self, key, value, slot):
        self.__dict__.setdefault("pushed", {}).setdefault(slot, {})[key] = value.asnumpy()
        super().push(key, value, slot)


def serve(config, task, values=None):
    server = SpyServer(config.k, config.b, config.rule, config.nonfinite)
    if values is None:
        initialize(config, task, server)
    else:
        for key, value in values.items():
            server.init(key, mx.nd.array(value), moving_average=task.moving_average[key])
    return server


def run(config, task):
    """Models after every epoch, x_0 first, as bytes."""
    server = serve(config, task)
    models = [as_bytes(server.values())]
    for t in range(1, config.epochs + 1):
        run_epoch(t, config, task, server)
        models.append(as_bytes(server.values()))
    return models


def as_bytes(values):
    return b"".join(values[key].tobytes() for key in sorted(values))


def one_epoch(config, task, x, t):
    """Run epoch t from x; return what each slot pushed and the next x."""
    server = serve(config, task, x)
    run_epoch(t, config, task, server)
    return server.pushed, server.values()


def statistics(key):
    return "running" in key  # of batch normalisation: not trained by the optimiser


@pytest.fixture(scope="module")
def task(tiny, tiny_task):
    return tiny_task(tiny())


@pytest.fixture(scope="module")
def x0(tiny, task):
    return serve(tiny(), task).values()


@pytest.fixture(scope="module")
def honest(tiny, task):
    """The models of three epochs without attack."""
    return run(tiny(), task)


def test_repeating_an_epoch_gives_the_same_bytes(tiny, task, x0):
    """MXNet's engine does not know that the backward pass updates the running statistics."""
    results = {as_bytes(one_epoch(tiny(k=8), task, x0, 1)[1]) for _ in range(8)}
    assert len(results) == 1


# ---- every feature has its own effect, and no other ----------------------------------------


@pytest.mark.parametrize("attack", LABEL_ATTACKS)
def test_a_label_attack_acts_through_the_labels_only(tiny, task, honest, monkeypatch, attack):
    attacked = tiny(q=2, attack=attack, attacker_start="pulled")
    assert run(attacked, task)[-1] != honest[-1]
    harmless = replace(ATTACKS[attack], labels=lambda y, context: y)
    monkeypatch.setitem(ATTACKS, attack, harmless)
    assert run(attacked, task) == honest  # so only the labels made the difference


@pytest.mark.parametrize("attack", LABEL_ATTACKS)
def test_poisoned_devices_train_on_poisoned_labels(tiny, task, x0, monkeypatch, attack):
    """Poisoned devices see other labels with the same inputs; honest devices see their own."""
    seen, batches = [], task.batches
    monkeypatch.setattr(task, "batches", lambda *args: seen.append(args[2]) or batches(*args))
    config = tiny(q=2, attack=attack, attack_scale=7)
    one_epoch(config, task, x0, 1)
    poisoned = select_poisoned(config, 1).tolist()
    assert [slot for slot, poison in enumerate(seen) if poison is not None] == poisoned
    inputs, y = one_pass(task, batches, None)
    same, bad = one_pass(task, batches, seen[poisoned[0]])
    assert same == inputs and bad != y
    if attack == "label-flip":
        assert bad == [task.classes - 1 - label for label in y]
    elif attack == "label-shift":
        assert bad == [max(label - 7, 0) for label in y]
    elif tiny().sizes.task != "problem":  # which draws with replacement
        assert sorted(bad) == sorted(y)


def one_pass(task, batches, poison):
    """Inputs and labels of one pass of device 3."""
    inputs, labels = [], []
    for *parts, y in islice(batches(3, stream(0, "x"), poison), task.steps_per_pass(3)):
        inputs += [part if isinstance(part, int) else as_array(part).tolist() for part in parts]
        labels += as_array(y).ravel().tolist()
    return inputs, labels


def as_array(part):
    return part if isinstance(part, np.ndarray) else part.asnumpy()


def test_fresh_models_of_poisoned_workers_differ_by_epoch_and_device(tiny, task, monkeypatch):
    fresh = tiny(q=2, attacker_start="fresh")
    pulled = run(tiny(q=2, attacker_start="pulled"), task)
    assert run(fresh, task)[-1] != pulled[-1]
    seeds = []
    monkeypatch.setattr(task, "start_fresh", seeds.append)
    assert run(fresh, task) == pulled  # so only the start made the difference
    poisoned = [(t, select_devices(fresh, t)[select_poisoned(fresh, t)]) for t in (1, 2, 3)]
    assert seeds == [integer_seed(0, "afresh", t, int(i)) for t, both in poisoned for i in both]
    assert len(set(seeds)) == 6


@pytest.mark.parametrize("seed", [0, 1])
def test_warm_up_is_five_passes_at_gamma_0_01_over_one_random_device(tiny, task, seed):
    config = tiny(seed=seed)
    x0 = as_bytes(serve(config, task).values())
    device = int(stream(seed, "warm-up").integers(config.n))
    task.initialize(integer_seed(seed, "initialize"))
    cold = as_bytes({key: value.asnumpy() for key, value in task.values.items()})
    assert as_bytes(serve(tiny(seed=seed, warm_up=False), task).values()) == cold
    task.initialize(integer_seed(seed, "initialize"))
    task.train(device, 5 * task.steps_per_pass(device), 0.01, integer_seed(seed, "warm-up"))
    warm = as_bytes({key: value.asnumpy() for key, value in task.values.items()})
    assert x0 == warm != cold


def test_warm_up_counts_passes_not_steps(tiny, task, monkeypatch):
    """Some of the tiny devices hold one minibatch, so that a pass is a step; here it is seven."""
    seen = []
    monkeypatch.setattr(task, "steps_per_pass", lambda device: 7)
    monkeypatch.setattr(task, "train", lambda device, steps, gamma, seed: seen.append(steps))
    serve(tiny(), task)
    assert seen == [35]


def test_random_pushes_differ_by_epoch_device_and_parameter(tiny, task, x0, monkeypatch):
    drawn = []

    def draw(x, context):
        drawn.append(tuple(context.rng.standard_normal(3)))
        return x

    monkeypatch.setitem(ATTACKS, "gaussian", replace(ATTACKS["gaussian"], model=draw))
    for t in (1, 2):
        one_epoch(tiny(q=2, attack="gaussian"), task, x0, t)
    assert len(drawn) == 2 * 2 * len(x0)
    assert len(set(drawn)) == len(drawn)


def test_trimming_averages_the_middle_ranks(tiny, task, x0):
    config = tiny(q=1, b=1, attack="negation", attack_scale=50)
    pushed, x1 = one_epoch(config, task, x0, 1)
    _, mean = one_epoch(tiny(q=1, b=0, attack="negation", attack_scale=50), task, x0, 1)
    for key in x0:
        ranked = np.sort([pushed[slot][key] for slot in range(4)], axis=0).astype(np.float64)
        np.testing.assert_allclose(x1[key], ranked[1:3].mean(axis=0), rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(mean[key], ranked.mean(axis=0), rtol=1e-5, atol=1e-5)
        assert np.abs(mean[key] - x1[key]).min() > 5


def test_moving_average_weighs_the_aggregate_by_alpha(tiny, task, x0):
    """x_t = (1 - alpha) x_{t-1} + alpha x'_t, running statistics aside."""
    _, plain = one_epoch(tiny(b=1), task, x0, 1)
    _, x1 = one_epoch(tiny(b=1, alpha=0.25, alpha_schedule="constant"), task, x0, 1)
    assert any(map(statistics, x0)) == (tiny().sizes.task == "cifar")
    for key in x0:
        assert plain[key].tobytes() != x0[key].tobytes()
        if statistics(key):
            assert x1[key].tobytes() == plain[key].tobytes()
            continue
        expected = 0.75 * x0[key].astype(np.float64) + 0.25 * plain[key]
        np.testing.assert_allclose(x1[key], expected, rtol=1e-5, atol=1e-8)
        assert x1[key].tobytes() != plain[key].tobytes()


def test_dropped_workers_push_nothing_and_the_others_as_always(tiny, task, x0):
    config, everyone = tiny(drop_rate=0.5), one_epoch(tiny(), task, x0, 1)[0]
    server = serve(config, task, x0)
    reports = [run_epoch(1, config, task, server)]
    pushed = {slot: as_bytes(model) for slot, model in server.pushed.items()}
    assert pushed == {s: as_bytes(everyone[s]) for s in range(4) if s in pushed}
    assert reports[0].update.missing == tuple(s for s in range(4) if s not in pushed)
    reports += [run_epoch(t, config, task, server) for t in range(2, 7)]
    missing = [len(report.update.missing) for report in reports]
    assert 0 < sum(missing) < 24 and len({report.update.missing for report in reports}) > 2
    each = task.steps_per_pass(0) * task.units_per_step
    assert [report.units for report in reports] == [each * (4 - m) for m in missing]


def test_refused_pushes_count_as_trained(tiny, task, x0):
    config = tiny(q=1, attack="nan")
    report = run_epoch(1, config, task, serve(config, task, x0))
    assert len(report.update.refused) == 1
    assert report.units == 4 * task.steps_per_pass(0) * task.units_per_step


# ---- exactly q poisoned --------------------------------------------------------------------


@pytest.fixture(scope="module")
def honest_epochs(tiny, task, x0):
    """Three epochs without attack: t, x_{t-1}, what each slot pushed, and x_t."""
    epochs, x = [], x0
    for t in (1, 2, 3):
        epochs.append((t, x, *one_epoch(tiny(), task, x, t)))
        x = epochs[-1][-1]
    return epochs


@pytest.mark.parametrize(
    "attack, q", [*((name, 1) for name in OWN_ATTACKS), ("label-flip", 3), ("negation", 4)]
)
def test_exactly_q_pushes_an_epoch_are_poisoned(tiny, task, honest_epochs, attack, q):
    config, everyone = tiny(q=q, attack=attack), set()
    for t, x, honest, honest_next in honest_epochs:
        pushed, after = one_epoch(config, task, x, t)
        assert as_bytes(after) != as_bytes(honest_next)
        assert len(honest) == config.k
        same = {s for s in pushed if as_bytes(pushed[s]) == as_bytes(honest[s])}
        differ = set(range(config.k)) - same
        assert len(differ) == q and differ == set(select_poisoned(config, t).tolist())
        everyone |= differ
    assert q == config.k or len(everyone) > q  # redrawn each epoch


@pytest.mark.parametrize(
    "attack", [x for x in ATTACKS if x not in ("silent", "worst-case", "backdoor")]
)
def test_with_b_equal_to_q_the_model_stays_in_the_honest_range(tiny, task, x0, attack):
    config = tiny(q=1, b=1, attack=attack, attack_scale=1e6, nonfinite="keep")
    pushed, x1 = one_epoch(config, task, x0, 1)
    bad = select_poisoned(config, 1)
    for key in x0:
        honest = np.stack([pushed[slot][key] for slot in pushed if slot not in bad])
        assert np.all(honest.min(axis=0) <= x1[key]) and np.all(x1[key] <= honest.max(axis=0))


def test_negation_drags_the_mean_to_q_over_k_times_c(tiny, task, x0):
    attacked = dict(q=1, attack="negation", attack_scale=8.0, gamma=1e-7)
    _, dragged = one_epoch(tiny(**attacked), task, x0, 1)
    _, defended = one_epoch(tiny(b=1, **attacked), task, x0, 1)
    for key in x0:
        if not statistics(key):
            np.testing.assert_allclose(dragged[key], 1 / 4 * 8.0, atol=1e-4)
            np.testing.assert_allclose(defended[key], x0[key], atol=1e-4)


def test_poisoned_slots_are_drawn_once_an_epoch_and_counted(tiny, task, x0, monkeypatch):
    """With a fixed number of poisoned devices, drawing them takes time proportional to n."""
    config = tiny(poisoned_devices=5, attack="gaussian", attacker_start="pulled")
    drawn, counted, select = [], [], algorithm.select_poisoned

    def count(x, context):
        counted.append(context.q)
        return x

    monkeypatch.setattr(algorithm, "select_poisoned", lambda c, t: drawn.append(t) or select(c, t))
    monkeypatch.setitem(ATTACKS, "gaussian", replace(ATTACKS["gaussian"], model=count))
    one_epoch(config, task, x0, 1)
    q = len(select(config, 1))
    assert drawn == [1] and q > 1 and counted == [q] * q * len(x0)


# ---- special cases -------------------------------------------------------------------------


def test_defaults_equal_a_plain_loop_of_fedavg(tiny, task, x0):
    config, x = tiny(), x0
    server = serve(config, task)
    for t in range(1, 4):
        trained = []
        for device in select_devices(config, t).tolist():
            for key, value in x.items():
                task.values[key][:] = mx.nd.array(value)
            steps = task.steps_per_pass(device)
            task.train(device, steps, config.gamma, integer_seed(0, "train", t, device))
            trained.append({key: value.asnumpy() for key, value in task.values.items()})
        x = {key: np.mean([m[key] for m in trained], axis=0, dtype=np.float64) for key in x}
        run_epoch(t, config, task, server)
        for key, value in server.values().items():
            np.testing.assert_allclose(value, x[key], rtol=1e-4, atol=1e-6)


def test_runs_are_identical_until_alpha_decays(tiny, task):
    decays = dict(epochs=4, alpha_decay_epoch=2, q=1, b=1)
    runs = [run(tiny(alpha=alpha, **decays), task) for alpha in (1.0, 0.8, 0.4)]
    for t in (0, 1, 2):
        assert runs[0][t] == runs[1][t] == runs[2][t]
    for t in (3, 4):
        assert len({models[t] for models in runs}) == 3


def test_local_sgd_depends_on_the_epoch_and_the_device(tiny, task, x0):
    config = tiny(n=8, k=8)
    pushed = [model for t in (1, 2) for model in one_epoch(config, task, x0, t)[0].values()]
    assert len(set(map(as_bytes, pushed))) == 16


def test_heterogeneous_steps_are_counted(tiny, task):
    config = tiny(local_steps=(2, 5), epochs=1)
    report = run_epoch(1, config, task, serve(config, task))
    steps = [algorithm.local_iterations(1, int(i), config, task) for i in report.selected]
    assert report.units == task.units_per_step * sum(steps) and len(set(steps)) > 1


def test_permutation_selection_visits_every_device_once(tiny, task, honest):
    config = tiny(selection="permutation")
    server = serve(config, task)
    visited = [run_epoch(t, config, task, server).selected.tolist() for t in (1, 2)]
    assert sorted(sum(visited, [])) == list(range(8))
    assert run(config, task)[-1] != honest[-1]


def test_only_the_given_slots_are_trained(tiny, task, x0):
    config = tiny()
    server = serve(config, task, x0)
    report = run_epoch(1, config, task, server, slots=[1, 3])
    whole = one_epoch(config, task, x0, 1)[0]
    assert report.update.missing == (0, 2)
    assert set(server.pushed) == {1, 3}
    assert all(as_bytes(server.pushed[slot]) == as_bytes(whole[slot]) for slot in (1, 3))


# ---- boost ---------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["fresh", "pulled"])
def test_boosted_pushes_are_moved_away_from_where_the_worker_started(tiny, task, x0, start):
    plain = tiny(q=2, attack=LABEL_ATTACKS[0], attacker_start=start)
    before, _ = one_epoch(plain, task, x0, 1)
    after, _ = one_epoch(replace(plain, boost=3.0), task, x0, 1)
    poisoned, devices = select_poisoned(plain, 1).tolist(), select_devices(plain, 1)
    for slot in range(plain.k):
        starts = x0
        if slot in poisoned and start == "fresh":
            task.start_fresh(integer_seed(plain.seed, "afresh", 1, int(devices[slot])))
            starts = {key: value.asnumpy() for key, value in task.values.items()}
        for key, pushed in before[slot].items():
            expected = pushed
            if slot in poisoned and not statistics(key):
                w0 = np.float32(starts[key])
                expected = w0 + np.float32(3) * (pushed - w0)
            assert after[slot][key].tobytes() == expected.tobytes()
