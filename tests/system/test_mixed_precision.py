"""What bfloat16 casts and refuses; MXNet is changed in a process of its own, on any CPU."""

import json
import subprocess
import sys

import pytest

from slsgd_mx.system import mixed_precision, precision
from slsgd_mx.system.mxnet import mx
from slsgd_mx.system.processes import environment
from slsgd_mx.tasks.cifar.network import cnn

CASTS = """
import json
from slsgd_mx.system import mixed_precision
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.cifar.network import cnn

mixed_precision.start()  # which any CPU can: this computes nothing

def casts(net, *operators):
    symbol = net(mx.sym.var("images"))
    nodes = json.loads(symbol.tojson(remove_amp_cast=False))["nodes"]
    return [
        [nodes[i].get("attrs", {}).get("dtype") for i, *_ in node["inputs"]]
        for node in nodes if node["op"] in operators
    ]

net = cnn(10, width=16)
net.initialize()
net[0].weight.shape = (16, 3, 3, 3)
mixed_precision.keep_first_in_float32(net)
found = [casts(net, "Convolution", "FullyConnected"), casts(mx.gluon.nn.PReLU(), "LeakyReLU")]
for module in (mx.nd, mx.sym):
    try:
        module.Deconvolution(None, None, kernel=(3, 3), num_filter=1)
    except Exception as error:
        found.append(f"{type(error).__name__}: {error}")
print(json.dumps(found))
"""


def test_what_is_cast_and_refused():
    call = [sys.executable, "-c", CASTS]
    done = subprocess.run(call, env=environment(1), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (first, *rest), prelu, *refused = json.loads(done.stdout)
    assert first == ["float32"] * 3
    assert rest == [["bfloat16"] * 3] * 5
    assert prelu == [["float32"] * 2]
    said = "precision='bfloat16' is not possible with transposed convolutions, because MXNet 1.9.1"
    assert refused == [f"ConfigError: {said} crashes: use --precision float32"] * 2


@pytest.mark.parametrize("channels, name", [(3, "Convolution_float32"), (16, "Convolution")])
def test_a_first_convolution_of_few_channels_stays_in_float32(channels, name):
    net = mx.gluon.nn.HybridSequential()
    net.add(cnn(10, width=4), cnn(10, width=4))
    net[0].initialize()
    net[0](mx.nd.zeros((1, channels, 24, 24)))
    for _ in range(2):  # the second time changes nothing
        mixed_precision.keep_first_in_float32(net)
        found = [block._op_name for block in mixed_precision._convolutions(net)]
        assert found == [name] + ["Convolution"] * 7


def test_channels_are_those_of_all_groups():
    net = mx.gluon.nn.Conv2D(32, kernel_size=3, groups=32, in_channels=32)
    mixed_precision.keep_first_in_float32(net)
    assert net._op_name == "Convolution"


@pytest.mark.parametrize("build", [lambda: cnn(10, width=4), lambda: mx.gluon.nn.Dense(2)])
def test_a_network_that_was_traced_before_is_traced_again(build, monkeypatch):
    net = build()
    net.initialize()
    net.hybridize()
    net(mx.nd.zeros((1, 3, 24, 24)))
    for used, kept in (["float32"], True), (["bfloat16"], False):
        monkeypatch.setattr(precision, "_used", used)
        precision.prepare(net)
        assert (net._cached_op is not None) is kept


def test_networks_without_a_convolution_and_processes_in_float32_are_left_alone(monkeypatch):
    mixed_precision.keep_first_in_float32(mx.gluon.nn.Dense(3))
    net = cnn(10, width=4)
    for used in ([], ["float32"]):
        monkeypatch.setattr(precision, "_used", used)
        precision.prepare(net)
    assert net[0]._op_name == "Convolution"
