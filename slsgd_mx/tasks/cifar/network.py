"""The network with four convolutions, in Gluon."""

from __future__ import annotations

from slsgd_mx.system.mxnet import mx


def cnn(classes: int = 10, width: int = 64) -> mx.gluon.nn.HybridSequential:
    """Return the network of the released code: four convolutions, two dense layers.

    Each convolution is 3x3 with padding 1 and ReLU, followed by batch normalisation; the first two
    have ``width`` channels, the last two twice as many.  At width 64 the model has 2,626,634
    values, including the running statistics of the batch normalisation.
    """
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    for channels in (width, 2 * width):
        for _ in range(2):
            net.add(nn.Conv2D(channels, kernel_size=3, padding=1, activation="relu"))
            net.add(nn.BatchNorm())
        net.add(nn.MaxPool2D(pool_size=2, strides=2), nn.Dropout(0.25))
    net.add(nn.Flatten())  # (batch, 2 * width * 6 * 6) from 24 x 24 images
    net.add(nn.Dense(8 * width, activation="relu"), nn.Dropout(0.25), nn.Dense(classes))
    return net
