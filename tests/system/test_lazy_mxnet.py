"""MXNet's operators are generated when they are first called."""

import subprocess
import sys
from contextlib import nullcontext
from operator import attrgetter
from types import SimpleNamespace

import numpy as np
import pytest

from slsgd_mx.system.lazy_mxnet import _first_call, import_lazily, make_lazy, stand_in
from slsgd_mx.system.mxnet import mx


def is_stand_in(function):
    return function.__code__ is _first_call.__code__


def double(x=1):
    """Return 2x."""
    return 2 * x


def make_double(handle, name, func_name):
    return double


def test_stand_in_becomes_the_operator_when_called():
    function = alias = stand_in(make_double, None, "_contrib_double", "double_it")
    assert (function.__name__, function.__qualname__) == ("double_it", "double_it")
    assert is_stand_in(function) and "_contrib_double" in function.__doc__
    assert function(x=3) == 6
    assert (alias(4), alias(), alias.__doc__) == (8, 2, "Return 2x.")
    assert alias.__code__ is double.__code__


def test_docstring_set_before_the_first_call_is_kept():
    function = stand_in(make_double, None, "double", "double")
    function.__doc__ = "MXNet's own."
    assert (function(5), function.__doc__) == (10, "MXNet's own.")


@pytest.mark.parametrize("text, error", [("x = 1", None), ("1 / 0", ZeroDivisionError)])
def test_package_without_mxnets_modules_is_imported_as_usual(tmp_path, monkeypatch, text, error):
    (tmp_path / "other_mxnet").mkdir()
    (tmp_path / "other_mxnet" / "__init__.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(error) if error else nullcontext():
        assert import_lazily("other_mxnet").x == import_lazily("other_mxnet").x == 1
    assert (sys.modules.pop("other_mxnet", None) is None) == bool(error)


def test_unexpected_internals_are_left_alone():

    def register(root, make_op_func):  # fmt: skip
        return make_op_func(None, "double", "double")

    def renamed(root, make):
        return make

    base = SimpleNamespace(_init_op_module=register, _init_np_op_module=renamed)
    make_lazy(base)
    assert is_stand_in(base._init_op_module("mxnet", make_op_func=make_double))
    assert base._init_op_module("mxnet", print.__call__) is None  # cannot be taken apart
    assert base._init_np_op_module is renamed
    make_lazy(SimpleNamespace())


X = np.array([[2.0, 1.0], [1.0, 3.0]], np.float32)
CHOLESKY = np.linalg.cholesky(X)


@pytest.mark.parametrize(
    "route, options, expected",
    [
        ("nd.rsqrt", {}, X**-0.5),
        ("nd.op.rcbrt", {}, 1 / np.cbrt(X)),
        ("nd._internal._maximum_scalar", {"scalar": 1.5}, np.maximum(X, 1.5)),
        ("nd.linalg.potrf", {}, CHOLESKY),
        ("nd.contrib.quadratic", {"a": 1, "b": 2, "c": 3}, X * X + 2 * X + 3),
        ("contrib.nd.quadratic", {"a": 1}, X * X),
        ("nd.random.uniform_like", {"low": 1, "high": 1.000001}, 0 * X + 1),
        ("nd.sparse.rint", {}, X),
        ("sym.rsqrt", {}, X**-0.5),
        ("sym.op.rcbrt", {}, 1 / np.cbrt(X)),
        ("sym.linalg.potrf", {}, CHOLESKY),
        ("sym.contrib.quadratic", {"a": 1, "b": 2, "c": 3}, X * X + 2 * X + 3),
        ("np.cumsum", {"axis": 0}, X.cumsum(0)),
        ("npx.relu", {}, X),
    ],
)
def test_operator_is_generated_by_every_route(route, options, expected):
    operator = attrgetter(route)(mx)
    assert is_stand_in(operator)  # no other test calls it
    if route.startswith("sym"):
        out = operator(mx.sym.var("x"), **options).eval(x=mx.nd.array(X))[0]
    else:
        out = operator((mx.np if route.startswith("np") else mx.nd).array(X), **options)
    np.testing.assert_allclose(out.asnumpy(), expected, rtol=1e-5)
    assert not is_stand_in(operator)


class Block(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.hard_sigmoid(x) + F.linalg.trmm(x, x)


def test_hybridized_block_equals_its_imperative_form():
    block, x = Block(), mx.nd.array(X)
    imperative = block(x).asnumpy()
    block.hybridize()
    assert block(x).asnumpy().tobytes() == imperative.tobytes()


MIXED_PRECISION = """
import json, sys
from slsgd_mx.system.mxnet import mx
assert "requests" not in sys.modules and mx.gluon.utils.requests.get.__module__ == "requests.api"
from mxnet.contrib import amp
amp.init("bfloat16")
x = mx.nd.ones((1, 4))
print(mx.nd.softmax(x).asnumpy().tolist())
net = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, name="dense")
print(*sorted(set(node["op"] for node in json.loads(net.tojson(remove_amp_cast=False))["nodes"])))
"""


def test_mixed_precision_wraps_operators():
    """amp.init replaces operators by functions that cast their arguments and call them."""
    command = [sys.executable, "-c", MIXED_PRECISION]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "[[0.25, 0.25, 0.25, 0.25]]",
        "FullyConnected amp_cast null",
    ]
