"""ModelServer: slots, discarded pushes, the moving average, wrong calls, memory."""

import itertools
import math

import numpy as np
import pytest

from slsgd_mx import ModelServer
from slsgd_mx.attacks import ATTACKS
from slsgd_mx.core.server import Update
from slsgd_mx.errors import ConfigError
from slsgd_mx.rules.trimmed_mean import trimmed_mean_rows
from slsgd_mx.system.mxnet import mx

SHAPES = {"w": (3, 2), "v": (5,), "s": (1,)}


def models(k, seed=0):
    """k models of three parameters, as NumPy arrays."""
    rng = np.random.default_rng(seed)
    return [
        {key: rng.standard_normal(shape).astype(np.float32) for key, shape in SHAPES.items()}
        for _ in range(k)
    ]


def make(k=4, b=1, start=0.5, **options):
    server = ModelServer(k, b, **options)
    for key, shape in SHAPES.items():
        server.init(key, mx.nd.full(shape, start), moving_average=key != "s")
    return server


def push_all(server, pushed, slots=None):
    for slot in range(len(pushed)) if slots is None else slots:
        for key, value in pushed[slot].items():
            server.push(key, mx.nd.array(value), slot)


def aggregate(pushed, b, key):
    rows = [model[key].reshape(-1) for model in pushed]
    out = np.empty(rows[0].size, np.float32)
    trimmed_mean_rows(rows, b, out)
    return out.reshape(SHAPES[key])


def as_bytes(server):
    return {key: value.tobytes() for key, value in server.values().items()}


def one_parameter(value, k=1):
    """A server of one parameter, ``w``."""
    server = ModelServer(k)
    server.init("w", value)
    return server


def test_result_does_not_depend_on_the_order_of_arrival_or_of_slots():
    pushed = models(4)
    arrivals, results = [(slot, key) for slot in range(4) for key in SHAPES], []
    for seed, order in enumerate(itertools.permutations(range(4))):
        server = make()
        for index in np.random.default_rng(seed).permutation(len(arrivals)):
            slot, key = arrivals[index]
            server.push(key, mx.nd.array(pushed[order[slot]][key]), slot)
        server.update(0.3)
        results.append(as_bytes(server))
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("b", [0, 1])
def test_alpha_one_gives_the_bytes_of_the_aggregate(b):
    pushed, server = models(4), make(b=b)
    push_all(server, pushed)
    assert server.update(1.0) == Update((0, 1, 2, 3), (), (), True)
    for key in SHAPES:
        assert server.values()[key].tobytes() == aggregate(pushed, b, key).tobytes()


@pytest.mark.parametrize("alpha, b", [(0.8, 1), (0.25, 1), (1e-3, 1), (0.5, 0)])
def test_moving_average_of_each_epoch_with_the_model_of_the_previous_one(alpha, b):
    server = make(b=b)
    for epoch in range(3):
        before, pushed = server.values(), models(4, seed=epoch)
        push_all(server, pushed)
        assert server.update(alpha).accepted == (0, 1, 2, 3)
        for key in ("w", "v"):
            expected = (1 - alpha) * before[key] + alpha * aggregate(pushed, b, key)
            np.testing.assert_allclose(server.values()[key], expected, rtol=1e-6, atol=1e-7)
            assert np.abs(server.values()[key] - aggregate(pushed, b, key)).max() > 1e-3
        assert server.values()["s"].tobytes() == aggregate(pushed, b, "s").tobytes()  # replaced


@pytest.mark.parametrize("averaged", [True, False])
def test_averaged_is_a_deprecated_name_of_moving_average(averaged):
    server = ModelServer(k=1)
    with pytest.warns(DeprecationWarning, match="use moving_average=") as caught:
        server.init("w", mx.nd.zeros(1), averaged=averaged)
    assert caught[0].filename == __file__
    server.push("w", mx.nd.ones(1), 0)
    server.update(0.25)
    assert server.values()["w"].tolist() == [0.25 if averaged else 1.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("key", SHAPES)
def test_one_nonfinite_value_discards_the_whole_push(bad, key):
    pushed, server = models(4), make(b=0)
    pushed[2][key].reshape(-1)[-1] = bad
    push_all(server, pushed)
    assert server.update(1.0) == Update((0, 1, 3), (2,), (), True)
    honest = [pushed[slot] for slot in (0, 1, 3)]
    for name in SHAPES:
        assert server.values()[name].tobytes() == aggregate(honest, 0, name).tobytes()
    assert server.is_finite()


def test_largest_finite_values_are_accepted():
    server = one_parameter(mx.nd.zeros(2), k=2)
    for slot in range(2):
        server.push("w", mx.nd.array([3.4028235e38, -3.4028235e38]), slot)
    assert server.update(1.0).accepted == (0, 1) and server.is_finite()


def test_keep_aggregates_nonfinite_pushes():
    pushed, server = models(4), make(b=0, nonfinite="keep")
    pushed[2]["w"][0, 0] = math.nan
    push_all(server, pushed)
    assert server.update(1.0) == Update((0, 1, 2, 3), (), (), True)
    assert not server.is_finite()
    trimmed = make(b=1, nonfinite="keep")
    push_all(trimmed, pushed)
    trimmed.update(1.0)
    assert trimmed.is_finite()


@pytest.mark.parametrize("b, needed", [(0, 1), (1, 3), (2, 5)])
def test_too_few_pushes_leave_the_model_unchanged(b, needed):
    pushed, server = models(5), make(k=5, b=b)
    before = as_bytes(server)
    push_all(server, pushed, slots=range(needed - 1))
    accepted, missing = tuple(range(needed - 1)), tuple(range(needed - 1, 5))
    assert server.update(1.0) == Update(accepted, (), missing, applied=False)
    assert as_bytes(server) == before
    push_all(server, pushed, slots=range(needed))
    assert server.update(1.0).applied and as_bytes(server) != before


def test_too_many_discarded_pushes_leave_the_model_unchanged():
    pushed, server = models(4), make(b=1)
    before = as_bytes(server)
    pushed[0]["w"][:] = math.nan
    pushed[3]["v"][:] = math.inf
    push_all(server, pushed)
    assert server.update(0.5) == Update((1, 2), (0, 3), (), False)
    assert as_bytes(server) == before


@pytest.mark.parametrize("name", [name for name, attack in ATTACKS.items() if attack.whole])
def test_optimal_attacks_leave_an_epoch_with_too_few_pushes_unchanged(name):
    pushed, server = models(5), make(k=5, b=2, attack=name)
    before = as_bytes(server)
    push_all(server, pushed, slots=[0, 1, 2])
    assert server.update(1.0, poisoned=[4]) == Update((0, 1, 2, 4), (), (3,), applied=False)
    assert as_bytes(server) == before
    push_all(server, pushed, slots=[0, 1, 2, 3])
    assert server.update(1.0, poisoned=[4]).applied


def test_incomplete_push_counts_as_missing():
    pushed, server = models(4), make(b=0)
    push_all(server, pushed, slots=[0, 2])
    server.push("w", mx.nd.array(pushed[1]["w"]), 1)
    assert server.update(1.0) == Update((0, 2), (), (1, 3), True)
    expected = aggregate([pushed[0], pushed[2]], 0, "w")
    assert server.values()["w"].tobytes() == expected.tobytes()


def test_next_epoch_starts_with_empty_slots():
    pushed, server = models(4), make(b=0)
    pushed[1]["w"][:] = math.nan
    push_all(server, pushed)
    server.update(1.0)
    assert server.update(1.0) == Update((), (), (0, 1, 2, 3), False)
    again = models(4, seed=9)
    push_all(server, again, slots=[1])
    server.update(1.0)
    assert server.values()["v"].tobytes() == again[1]["v"].tobytes()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda s: s.push("w", mx.nd.zeros((3, 2)), 4), "slot=4 is out of range: needs 0 <= slot"),
        (lambda s: s.push("w", mx.nd.zeros((3, 2)), -1), "slot=-1 is out of range"),
        (lambda s: s.push("w", mx.nd.zeros((2, 3)), 0), "has shape (2, 3), not (3, 2)"),
        (lambda s: s.push("x", mx.nd.zeros(1), 0), "'x' was not initialised; known: s, v, w"),
        (lambda s: s.pull("x", mx.nd.zeros(1)), "'x' was not initialised; known: s, v, w"),
        (lambda s: s.init("w", mx.nd.zeros(1)), "'w' is initialised already"),
        (lambda s: s.init("y", mx.nd.zeros(1)), "'y' comes too late: the server is in use"),
        (lambda s: s.update(0), "alpha=0 is out of range: needs 0 < alpha <= 1"),
        (lambda s: s.update(1.5), "alpha=1.5 is out of range"),
        (lambda s: s.update(math.nan), "alpha=nan is out of range"),
        (lambda s: ModelServer(4, 2), "b=2 is out of range for k=4"),
        (lambda s: ModelServer(4, rule="best"), "choose one of trimmed-mean, mean, median"),
        (lambda s: ModelServer(4, rule="krum", attack="worst-case"), "by itself, not krum"),
        (lambda s: ModelServer(4, nonfinite="maybe"), "choose one of reject, keep"),
    ],
)
def test_wrong_calls_name_the_legal_values(call, message):
    server = make()
    before = as_bytes(server)
    with pytest.raises(ConfigError) as error:
        call(server)
    assert message in str(error.value)
    assert as_bytes(server) == before


def test_second_push_of_a_slot_is_an_error_and_the_first_counts():
    server = one_parameter(mx.nd.zeros(1))
    server.push("w", mx.nd.array([1]), 0)
    with pytest.raises(ConfigError, match="slot 0 has pushed 'w' already in this epoch"):
        server.push("w", mx.nd.array([2]), 0)
    server.update(1.0)
    assert server.values()["w"].tolist() == [1.0]
    server.push("w", mx.nd.array([3]), 0)  # a new epoch


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32"])
def test_pushes_of_other_types_are_cast(dtype):
    server = one_parameter(mx.nd.zeros(3))
    server.push("w", mx.nd.array([1, -2, 3], dtype=dtype), 0)
    server.update(1.0)
    assert server.values()["w"].dtype == np.float32
    assert server.values()["w"].tolist() == [1.0, -2.0, 3.0]


def test_arguments_and_results_do_not_share_memory():
    start = mx.nd.ones(4)
    server = one_parameter(start)
    start[:] = 5
    pulled = mx.nd.empty(4)
    server.pull("w", out=pulled)
    assert pulled.asnumpy().tolist() == [1.0] * 4
    pulled[:] = 6
    server.values()["w"][:] = 7
    mx.nd.waitall()
    assert server.values()["w"].tolist() == [1.0] * 4
    pushed = mx.nd.full(4, 2)
    server.push("w", pushed, 0)
    pushed[:] = 8
    server.update(1.0)
    pushed[:] = 9
    mx.nd.waitall()
    assert server.values()["w"].tolist() == [2.0] * 4


def test_pushing_a_result_that_is_still_being_computed():
    size = 300
    a = mx.nd.random.normal(shape=(size, size), dtype="float32")
    server = one_parameter(mx.nd.zeros((size, size)), k=2)
    product = mx.nd.dot(a, a)
    server.push("w", product, 0)
    product += 1  # the engine has to keep the order
    server.push("w", product, 1)
    pulled = mx.nd.empty((size, size))
    server.update(1.0)
    server.pull("w", out=pulled)
    np.testing.assert_allclose(pulled.asnumpy(), mx.nd.dot(a, a).asnumpy() + 0.5, atol=1e-4)


def test_numpy_arrays_work_like_ndarrays():
    pushed = models(4)
    one, other = ModelServer(4, 1), ModelServer(4, 1)
    for key, shape in SHAPES.items():
        one.init(key, mx.nd.full(shape, 0.5))
        other.init(key, np.full(shape, 0.5))
    push_all(one, pushed)
    for slot, model in enumerate(pushed):
        for key, value in model.items():
            mine = value.astype(np.float64)
            other.push(key, mine, slot)
            mine[...] = math.nan  # the server has its own copy
    one.update(0.7)
    other.update(np.float32(0.7))
    for key, shape in SHAPES.items():
        out, wide = mx.nd.empty(shape), np.full(shape, math.nan)
        one.pull(key, out=out)
        other.pull(key, out=wide)
        assert wide.astype(np.float32).tobytes() == out.asnumpy().tobytes()


def test_numpy_arrays_of_other_shapes_are_refused():
    server = make()
    with pytest.raises(ConfigError, match=r"pull of 'v' needs shape \(5,\), not \(1, 5\)"):
        server.pull("v", out=np.zeros((1, 5)))
    with pytest.raises(ConfigError, match=r"push to 'v' has shape \(1,\), not \(5,\)"):
        server.push("v", np.zeros(1), 0)
    with pytest.raises(ConfigError, match="not of type list"):
        server.push("v", [0.0] * 5, 0)
