"""Networks for images other than the paper's."""

from __future__ import annotations

from slsgd_mx.system.mxnet import mx


def mlp(classes: int, width: int = 64) -> mx.gluon.nn.HybridSequential:
    """Return two hidden layers of ``width`` units with ReLU, for inputs of any shape."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Flatten())
    net.add(nn.Dense(width, activation="relu"), nn.Dense(width, activation="relu"))
    net.add(nn.Dense(classes))
    return net
