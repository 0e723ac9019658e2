"""A workload without Gluon: scikit-learn's SGDClassifier under the same server, rules and attacks.

pip install scikit-learn
slsgd-mx train --plugin examples/scikit_learn.py sklearn-digits --q 2 --b 2
"""

import hashlib
import warnings

import numpy as np

from slsgd_mx import Task, register_task
from slsgd_mx.errors import ConfigError


@register_task(
    "sklearn-digits",
    sizes={"train_samples": 1500},
    presets={"small": dict(n=20, k=10, batch_size=10, epochs=20, gamma=0.01, warm_up=False)},
    metrics=("test_loss", "test_accuracy"),
    default_attack="label-flip",
    data="digits",
    has_network=False,  # none of Gluon, so --precision has no effect
)
class Digits(Task):
    """Logistic regression on scikit-learn's 1,797 images of digits."""

    classes = 10

    def __init__(self, config, data_dir=None):
        try:
            from sklearn.datasets import load_digits
        except ImportError as error:
            raise ConfigError("sklearn-digits needs pip install scikit-learn") from error

        x, y = load_digits(return_X_y=True)
        self.x, self.y = x / 16, y
        self.data_digest = hashlib.sha256(x.tobytes() + y.tobytes()).hexdigest()
        self.batch, self.units_per_step = config.batch_size, config.batch_size
        rows = np.random.default_rng(config.data_seed).permutation(config.sizes.train_samples)
        self.devices = np.array_split(rows, config.n)
        self.test = slice(config.sizes.train_samples, None)
        self.values = {"weight": np.zeros((10, 64)), "bias": np.zeros(10)}

    def initialize(self, seed):
        rng = np.random.default_rng(seed)
        self.values["weight"][...] = rng.normal(0, 0.01, (10, 64))
        self.values["bias"][...] = 0

    def steps_per_pass(self, device):
        return -(-len(self.devices[device]) // self.batch)

    def train(self, device, steps, gamma, seed, poison=None):
        model, rng = self._model(gamma), np.random.default_rng(seed)
        rows = self.devices[device]
        labels = self.y[rows] if poison is None else poison(self.y[rows])
        drawn = rng.integers(len(rows), size=steps * self.batch)
        model.partial_fit(self.x[rows[drawn]], labels[drawn])  # one sample after the other
        self.values["weight"][...], self.values["bias"][...] = model.coef_, model.intercept_

    def evaluate(self):
        from scipy.special import log_softmax

        scores = self.x[self.test] @ self.values["weight"].T + self.values["bias"]
        y = self.y[self.test]
        loss = -log_softmax(scores, axis=1)[np.arange(len(y)), y].mean()
        return {"test_loss": float(loss), "test_accuracy": float((scores.argmax(1) == y).mean())}

    def _model(self, gamma):
        """A classifier that starts from ``values`` and trains one class against the others."""
        from sklearn.linear_model import SGDClassifier

        model = SGDClassifier(
            loss="log_loss", alpha=0, learning_rate="constant", eta0=gamma, shuffle=False
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.partial_fit(self.x[:1], self.y[:1], classes=np.arange(10))  # makes the arrays
        model.coef_[...], model.intercept_[...] = self.values["weight"], self.values["bias"]
        return model
