"""Your own network on your own arrays, as a script; as a plug-in, the network by name.

python examples/own_network.py
slsgd-mx train images --arrays my.npz --plugin examples/own_network.py --network wide:units=32
"""

import numpy as np

from slsgd_mx import ArraysTask, RunConfig, register_network, train
from slsgd_mx.registry import whole


@register_network("wide", parameters={"units": whole(64)})
def wide(classes, units):
    """One hidden layer with batch normalisation."""
    from slsgd_mx.system.mxnet import mx  # not before the command has set its threads

    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(units, activation="relu"), mx.gluon.nn.BatchNorm())
    net.add(mx.gluon.nn.Dense(classes))
    return net


def two_moons(count, seed):
    """Points on two interleaved half circles, and which of the two they are on."""
    rng = np.random.default_rng(seed)
    y, angle = rng.integers(2, size=count), rng.uniform(0, np.pi, count)
    x = np.stack([np.cos(angle) + y, np.sin(angle) * (1 - 2 * y) + y / 2], axis=1)
    return x + rng.normal(0, 0.1, x.shape), y


def main(out="runs/two-moons", epochs=20):
    """Train under attack and print the last accuracy."""
    task = ArraysTask(wide(classes=2, units=16), *two_moons(400, 0), *two_moons(100, 1))
    config = RunConfig(
        sizes=task.sizes, n=20, k=10, b=2, q=2, epochs=epochs, batch_size=10, eval_every=2
    )
    result = train(config, out, task=task)
    print(result.rows[-1]["test_accuracy"])
    return result


if __name__ == "__main__":
    main()
