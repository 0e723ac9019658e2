"""Your own images, networks and tasks: what makes a run, and that it trains."""

import dataclasses
import json

import numpy as np
import pytest

from slsgd_mx import ArraysTask, RunConfig, Task, preset, register_network, register_task, train
from slsgd_mx.core.algorithm import as_pushed, pull, push_values
from slsgd_mx.core.model_server import ModelServer
from slsgd_mx.errors import ConfigError
from slsgd_mx.presets import presets_of
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.sweeps.forecast import measure, network
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.build import build_task
from slsgd_mx.tasks.images.arrays import structure_of
from slsgd_mx.tasks.images.sizes import Images
from slsgd_mx.tasks.images.task import shuffled_batches
from slsgd_mx.tasks.sizes import SIZES
from slsgd_mx.workloads import WORKLOADS, Sizes

nn = mx.gluon.nn
Y = np.arange(60) % 3
X = np.random.default_rng(0).normal(Y[:, None], 0.5, (60, 4))
TINY = dict(n=6, k=3, epochs=2, batch_size=5, eval_every=1)


def dense(*units, classes=3, dropout=0.0):
    net = nn.HybridSequential()
    for width in units:
        net.add(nn.Dense(width, activation="relu"), nn.Dropout(dropout))
    net.add(nn.Dense(classes))
    return net


def own_task(net=None, **changes):
    arrays = {"x_train": X, "y_train": Y, "x_test": X[:9], "y_test": Y[:9], **changes}
    return ArraysTask(dense(5) if net is None else net, **arrays)


# ---- a network and arrays of a script ------------------------------------------------------


def test_a_network_and_arrays_make_a_run(tmp_path):
    task = own_task()
    config = RunConfig(sizes=task.sizes, q=1, b=1, **TINY)
    first = train(config, tmp_path / "a", task=task)
    again = train(config, tmp_path / "b", task=own_task())  # another object, the same run
    models = [(result.folder / "model.params").read_bytes() for result in (first, again)]
    assert models[0] == models[1]
    assert train(config, tmp_path / "a", task=task).resumed_from == 2
    (session,) = RunFolder(tmp_path / "a", config).sessions()
    assert session["data_sha256"] == config.sizes.sha256
    assert float(first.rows[-1]["train_loss"]) < float(first.rows[0]["train_loss"])
    assert RunConfig.from_json(config.to_json()) == config
    with pytest.raises(ConfigError, match="a network of a script: train.config, out, task="):
        build_task(config)
    with pytest.raises(ConfigError, match="other sizes: RunConfig.sizes=task.sizes"):
        train(RunConfig(), tmp_path / "c", task=task)


def test_data_network_and_partition_are_part_of_the_identity():
    tasks = [
        own_task(),
        own_task(dense(6)),
        own_task(dense(5, dropout=0.5)),
        own_task(dense(5, 5)),
        own_task(y_test=Y[1:10]),
        own_task(partition="shards"),
        own_task(classes=3, loss_images=9),
    ]
    assert len({RunConfig(sizes=task.sizes, **TINY).identity for task in tasks}) == len(tasks)
    assert own_task(classes=3).sizes == tasks[0].sizes


def test_the_structure_does_not_depend_on_gluons_counters():
    digests = set()
    for _ in range(2):
        net = dense(5)
        net.initialize()
        net(mx.nd.zeros((1, 4)))
        digests.add((structure_of(net), net.name))
    assert len(digests) == 2 and len({digest for digest, _ in digests}) == 1


class Shifted(nn.HybridBlock):
    """A layer with an initialiser and a constant."""

    def __init__(self, sigma=0.1, shift=1.0):
        super().__init__()
        with self.name_scope():
            self.layer = nn.Dense(3, in_units=4, weight_initializer=mx.init.Normal(sigma))
            self.shift = self.params.get_constant("shift", [shift])

    def hybrid_forward(self, F, x, shift):
        return F.broadcast_add(self.layer(x), shift)


def test_initialisers_and_constants_are_part_of_the_structure():
    """By their values, not by their addresses."""
    assert structure_of(Shifted()) == structure_of(Shifted())
    others = [Shifted(), Shifted(sigma=0.2), Shifted(shift=2.0)]
    assert len({structure_of(net) for net in others}) == 3


def test_the_structure_does_not_depend_on_how_often_a_network_was_traced(tmp_path):
    """MXNet counts the uses of running statistics: without care, every task had another digest."""
    net = dense(5)
    net.add(nn.BatchNorm(), nn.Dense(3))
    task = own_task(net)
    config = RunConfig(sizes=task.sizes, **TINY)
    train(config, tmp_path / "run", task=task)
    again = own_task(net)
    assert again.sizes == task.sizes
    assert train(config, tmp_path / "run", task=again).resumed_from == 2


@pytest.mark.parametrize(
    "net, said",
    [
        (nn.Sequential(), "must be a Gluon HybridBlock, not Sequential"),
        (dense(classes=4), r"to shape \(1, 4\): needs \(1, 3\), a score for each class"),
        (nn.Conv2D(3, 3), r"cannot take images of shape \(4,\): "),
    ],
)
def test_a_network_that_does_not_fit(net, said):
    with pytest.raises(ConfigError, match=said):
        own_task(net)


def test_the_number_of_classes_is_limited():
    with pytest.raises(ConfigError, match="classes=100001 is out of range: .* <= 100000"):
        preset("images", "smoke", classes=100_001)


def test_a_device_without_data_is_refused_before_training():
    task = own_task()
    with pytest.raises(ConfigError, match="n=61 is out of range: needs n <= train_images=60"):
        RunConfig(sizes=task.sizes, **{**TINY, "n": 61})


# ---- images by name ------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", ["cnn:width=2", "mlp:width=4", "own:units=3"])
def test_every_network_trains(chosen, tmp_path, fresh_plugins):
    @register_network("own", parameters=WORKLOADS["images"].parameters or {})
    def own(classes, units=3):
        return dense(units, classes=classes)

    text = chosen if "own" not in chosen else "own"
    small = dict(train_images=60, test_images=20, classes=4, shape=(2, 5, 4), network=text)
    config = preset("images", "smoke", **small, **TINY)
    result = train(config, tmp_path / "run")
    assert len(result.rows) == 2 and config.sizes.network == text
    assert bool(config.sources) == (text == "own")


def test_presets_and_sizes_of_images():
    assert list(presets_of("images")) == ["laptop", "smoke"]
    config = preset("images", "smoke", network="cnn:width=64")
    assert config.sizes.network == "cnn" and config.sizes.data == "synthetic"
    assert isinstance(config.sizes, Images) and "images" not in SIZES
    assert RunConfig.from_json(config.to_json()) == config
    with pytest.raises(ConfigError, match="network='rnn' is unknown: choose one of cnn, mlp"):
        preset("images", "smoke", network="rnn")
    said = r"'cnn' needs images \(channels, height, width\) of at least 4 x 4 pixels, not \(7,\)"
    with pytest.raises(ConfigError, match=said):
        preset("images", "smoke", shape=(7,))
    with pytest.raises(ConfigError, match="needs the digest of its arrays: give --arrays"):
        preset("images", "smoke", data="my.npz")


# ---- initialisation and minibatches --------------------------------------------------------


def test_models_start_from_xavier_and_fresh_ones_from_msra():
    """Uniform up to sqrt(6 / (in + out)); Gaussian of variance 2 / (1 + 0.25^2) / mean(in, out)."""
    own = own_task(dense(50, 50))
    task = own.build(RunConfig(sizes=own.sizes, **TINY))
    (weight,) = (value for value in task.values.values() if value.shape == (50, 50))
    bound = np.sqrt(6 / 100)
    task.initialize(3)
    drawn = weight.asnumpy()
    assert 0.99 * bound < np.abs(drawn).max() <= bound
    assert drawn.std() == pytest.approx(bound / np.sqrt(3), rel=0.03)
    task.start_fresh(3)
    drawn = weight.asnumpy()
    assert drawn.std() == pytest.approx(np.sqrt(2 / (1 + 0.25**2) / 50), rel=0.05)
    assert np.abs(drawn).max() > 3 * drawn.std()  # no uniform distribution reaches that


def test_the_last_minibatch_of_a_pass_wraps_around_to_its_first_rows():
    passed = np.concatenate(list(shuffled_batches(7, 3, np.random.default_rng(0))))
    assert sorted(passed[:7]) == list(range(7))
    assert passed[7:].tolist() == passed[:2].tolist()


def test_every_pass_has_its_own_order():
    own = own_task()
    task = own.build(RunConfig(sizes=own.sizes, **TINY))
    drawn = task.batches(0, np.random.default_rng(0), None)
    rows = [next(drawn)[0].asnumpy().tolist() for _ in range(3 * task.steps_per_pass(0))]
    passes = [sum(rows[start : start + 2], []) for start in (0, 2, 4)]
    assert sorted(passes[0]) == sorted(passes[1]) == sorted(passes[2])
    assert passes[0] != passes[1] != passes[2] != passes[0]


# ---- tasks of plug-ins, without Gluon ------------------------------------------------------


class Points(Task):
    """The mean of points, in NumPy."""

    def __init__(self, config, data_dir=None):
        rng = np.random.default_rng(config.data_seed)
        self.points = config.sizes.spread * rng.normal(size=(config.n, config.sizes.dimension))
        self.values = {"x": np.zeros(config.sizes.dimension), "steps": np.zeros(())}

    def initialize(self, seed):
        self.values["x"][...] = np.random.default_rng(seed).normal(size=self.points.shape[1])

    def train(self, device, steps, gamma, seed, poison=None):
        self.values["steps"] += steps
        for _ in range(steps):
            self.values["x"] -= gamma * (self.values["x"] - self.points[device])

    def evaluate(self):
        away = self.values["x"] - self.points.mean(axis=0)
        return {"distance": float(np.linalg.norm(away)), "steps": float(self.values["steps"])}


@pytest.fixture
def points(fresh_plugins):
    sizes, metrics = {"dimension": 3, "spread": 1.0}, ("distance", "steps")
    register_task("points", Points, sizes=sizes, metrics=metrics)
    return lambda **changes: preset("points", "small", **{**TINY, "warm_up": False, **changes})


@pytest.mark.parametrize("changes", [{}, dict(q=1, boost=1), dict(q=1, attack="gaussian"),
                                     dict(q=1, attack="label-flip", boost=3.0)])  # fmt: skip
def test_a_task_of_numpy_arrays_trains(points, tmp_path, changes):
    config = points(dimension=2, **changes)
    result = train(config, tmp_path / "run")
    assert float(result.rows[-1]["steps"]) > 0 and config.sources[0][0] == "test_images.py"
    assert config.sizes.task == "points" and config.slug.startswith("points-dimension2-T2-")
    model = RunFolder(tmp_path / "run", config).model()
    assert model["x"].shape == (2,) and model["x"].dtype == np.float32
    interrupted = json.loads(config.to_json())
    assert interrupted["sizes"] == {"dimension": 2, "spread": 1.0}


def test_the_sizes_of_a_registered_task_are_checked(points):
    for changes, said in (
        (dict(dimension=2.5), "dimension=2.5 must be a whole number"),
        (dict(spread="wide"), "spread='wide' must be a number"),
        (dict(spread=float("nan")), "spread=nan must be a number"),
        (dict(width=3), "width"),
    ):
        with pytest.raises(ConfigError, match=said):
            points(**changes)
    assert points(spread=2).sizes.spread == 2
    with pytest.raises(ConfigError, match="task 'points' exists already"):
        register_task("points", Points)
    with pytest.raises(ConfigError, match="attribute of the sizes='metric' is unknown"):
        register_task("more", Points, metric=("distance",))


@pytest.mark.parametrize("name", ["metrics", "n", "k", "seed", "rule", "sources", "slug", "within"])
def test_sizes_that_have_the_name_of_something_else_are_refused(fresh_plugins, name):
    said = f"sizes {name} cannot be fields of a workload's sizes: choose other names"
    with pytest.raises(ConfigError, match=said):
        register_task("more", Points, sizes={name: 3})
    assert "more" not in WORKLOADS


def test_a_class_of_sizes_cannot_have_the_symbols_of_a_run(fresh_plugins):
    own = dataclasses.make_dataclass("Own", [("seed", int, 3)], bases=(Sizes,), frozen=True)
    with pytest.raises(ConfigError, match="sizes seed cannot be fields"):
        register_task("more", Points, sizes=own)


def test_data_and_partition_may_be_sizes(fresh_plugins):
    register_task("more", Points, sizes={"data": "synthetic", "partition": "rows"})
    assert preset("more", "small", partition="columns").sizes.partition == "columns"


def test_a_size_may_be_a_tuple(fresh_plugins):
    register_task("deep", Points, sizes={"hidden": (64, 32), "rates": (0.5,), "names": ()})
    sizes = preset("deep", "small", hidden=[8], rates=(1, 0.1), names=("a",)).sizes
    assert (sizes.hidden, sizes.rates, sizes.names) == ((8,), (1, 0.1), ("a",))
    for changes, said in (
        (dict(hidden="64,32"), r"hidden='64,32' must be a tuple such as \(64, 32\)"),
        (dict(hidden=64), r"hidden=64 must be a tuple such as \(64, 32\)"),
        (dict(hidden=("6", "4")), r"hidden=\('6', '4'\) must be a tuple such as \(64, 32\)"),
        (dict(hidden=(64, True)), r"hidden=\(64, True\) must be a tuple such as"),
        (dict(rates=(float("nan"),)), r"rates=\(nan,\) must be a tuple such as \(0.5,\)"),
        (dict(names="a"), "names='a' must be a tuple"),
    ):
        with pytest.raises(ConfigError, match=said):
            preset("deep", "small", **changes)


def test_sizes_may_be_a_class_of_their_own(fresh_plugins):
    @dataclasses.dataclass(frozen=True)
    class Own(Sizes):
        dimension: int = 3
        spread: float = 1.0

        def validate(self, n):
            if n > 5:
                raise ConfigError("too many")

    register_task("mine", sizes=Own, presets={"tiny": dict(n=5, k=5)}, metrics=("distance",))(
        Points
    )
    assert list(presets_of("mine")) == ["tiny"] and preset("mine", "tiny").k == 5
    with pytest.raises(ConfigError, match="too many"):
        preset("mine", "tiny", n=6)


def test_parts_of_an_evaluation_default_to_one(points):
    task = build_task(points())
    task.initialize(1)
    assert task.score_sizes(3) == [2, 0, 0] and list(map(len, map(task.score, range(3), [3] * 3)))
    assert task.metrics([task.score(part, 2) for part in range(2)]) == task.evaluate()

    class Neither(Points):
        evaluate = Task.evaluate

    with pytest.raises(NotImplementedError, match="a task defines evaluate, or score"):
        Neither(points()).evaluate()


def test_numpy_arrays_reach_the_server_and_come_back():
    values = {"w": np.arange(6.0).reshape(2, 3), "scalar": np.array(7.0)}
    server = ModelServer(1)
    for key, value in values.items():
        server.init(key, as_pushed(value))

    class Held:
        pass

    task = Held()
    task.values = values
    push_values({key: value + 1 for key, value in values.items()}, 0, server)
    server.update(1.0)
    pull(task, server)
    np.testing.assert_array_equal(values["w"], np.arange(1.0, 7.0).reshape(2, 3))
    assert values["scalar"] == 8.0


def test_forecasts_measure_every_task(points):
    for config in (points(poisoned_devices=2), preset("images", "smoke", **TINY, network="mlp")):
        measured = measure({"config": config.to_json()}, None)["measured"]
        assert measured["step"] > 0 and measured["model_bytes"] > 0
        assert hash(network(config))


def test_forecasts_give_a_task_its_data_as_a_path(fresh_plugins, tmp_path):
    class Stored(Points):
        def __init__(self, config, data_dir=None):
            super().__init__(config)
            self.points *= np.load(data_dir / "spread.npy")

    np.save(tmp_path / "spread.npy", np.float64(2))
    register_task("stored", Stored, sizes={"dimension": 3, "spread": 1.0}, metrics=("distance",))
    job = {"config": preset("stored", "small", **TINY).to_json(), "data_dir": str(tmp_path)}
    assert measure(job, None)["measured"]["loaded"] == 1
