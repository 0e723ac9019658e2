"""A workload of a plug-in that trains in a moment: logistic regression on four blobs of points."""

from pathlib import Path

import numpy as np

BLOBS = """
import numpy as np

from slsgd_mx import Task, register_task

SMALL = dict(n=12, k=10, q=1, epochs=2, alpha_decay_epoch=1, eval_every=1, gamma=0.05)
SMALL["warm_up"] = False


@register_task(
    "blobs",
    sizes={"spread": 1.0},
    presets={"small": SMALL, "long": {**SMALL, "epochs": 4}},
    metrics=("train_loss", "test_accuracy"),
    default_attack="label-flip",
)
class Blobs(Task):
    "Which of four blobs a point belongs to."

    classes = 4

    def __init__(self, config, data_dir=None):
        rng = np.random.default_rng(config.data_seed)
        self.y, self.n = np.arange(96) % 4, config.n
        centres = np.array([[0, 0], [3, 0], [0, 3], [3, 3]])
        self.x = centres[self.y] + config.sizes.spread * rng.normal(size=(96, 2))
        self.values = {"w": np.zeros((4, 2)), "v": np.zeros(4)}

    def initialize(self, seed):
        self.values["w"][...] = np.random.default_rng(seed).normal(0, 0.1, (4, 2))
        self.values["v"][...] = 0

    def shares(self, x):
        scores = np.exp(x @ self.values["w"].T + self.values["v"])
        return scores / scores.sum(axis=1, keepdims=True)

    def train(self, device, steps, gamma, seed, poison=None):
        x, y = self.x[device :: self.n], self.y[device :: self.n]
        y = y if poison is None else poison(y)
        for _ in range(steps):
            slope = self.shares(x) - np.eye(4)[y]
            self.values["w"] -= gamma * slope.T @ x / len(y)
            self.values["v"] -= gamma * slope.mean(axis=0)

    def evaluate(self):
        shares = self.shares(self.x)
        loss, right = -np.log(shares[np.arange(96), self.y]), shares.argmax(axis=1) == self.y
        return {"train_loss": float(loss.mean()), "test_accuracy": float(right.mean())}


@register_task("distances", metrics=("distance",))
class Distances(Blobs):
    "A workload without accuracy."

    def evaluate(self):
        return {"distance": float(np.linalg.norm(self.values["w"]))}
"""


def write_plugin(path):
    """Write the plug-in; its task is called blobs."""
    Path(path).write_text(BLOBS)


def write_arrays(path):
    """Write 60 images of three classes, (6, 6), as arrays in a file."""
    y = np.arange(60) % 3
    x = np.random.default_rng(0).integers(0, 200, (60, 6, 6), np.uint8)
    x[np.arange(60), y] = 255
    np.savez(path, x_train=x, y_train=y, x_test=x[:12], y_test=y[:12])
