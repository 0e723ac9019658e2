"""The interface of a workload: everything in which one workload differs from another.

A task holds one worker's copy of the model, as arrays by name, and knows how to train it on a
device's data and how to evaluate it.  The arrays are NumPy arrays or NDArrays, so a workload need
not use Gluon.  The trainer, the server, the attacks and the run folder use only this interface.

A minimal task defines ``values``, ``initialize``, ``train`` and ``evaluate``; to use it by name,
decorate it with ``slsgd_mx.register_task``.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from slsgd_mx.errors import ConfigError

if TYPE_CHECKING:  # a plug-in that defines a task must not import MXNet before its threads are set
    from slsgd_mx.system.mxnet import mx

Poison = Callable[[np.ndarray], np.ndarray]  # one device's labels -> the labels it trains on
Values = Dict[str, Union[np.ndarray, "mx.nd.NDArray"]]


class PoisonSamples:
    """A ``Poison`` of inputs as well: ``poison_samples`` applies it."""

    def __init__(self, change: Callable[[np.ndarray, np.ndarray], tuple]) -> None:
        self.samples = change

    def __call__(self, y: np.ndarray) -> np.ndarray:
        raise ConfigError("this attack poisons inputs, and the task poisons labels only")


def poison_samples(
    poison: Optional[Poison], x: np.ndarray, y: np.ndarray
) -> Tuple[np.ndarray, np.ndarray]:
    """The inputs and labels of a device that a worker trains on, whatever is poisoned.

    >>> poison_samples(lambda y: 1 - y, np.array([0.5, 0.7]), np.array([0, 1]))
    (array([0.5, 0.7]), array([1, 0]))
    """
    if poison is None:
        return x, y
    if not isinstance(poison, PoisonSamples):
        return x, poison(y)
    inputs, labels = map(np.asarray, poison.samples(x, y))
    if inputs.shape != x.shape or labels.shape != y.shape:
        raise ConfigError(
            f"an attack returned inputs of shape {inputs.shape} and labels of shape "
            f"{labels.shape}: needs {x.shape} and {y.shape}"
        )
    return inputs, labels


class Task(abc.ABC):
    """One workload: one worker's copy of the model, the data of all devices, the metrics.

    Attributes
    ----------
    values : dict of str to numpy.ndarray or NDArray
        The worker's parameters.  A pull writes into these arrays and a push reads them, so
        ``train`` and ``initialize`` change them in place.  The server keeps float32.
    moving_average : dict of str to bool
        False: line 15 replaces the old value, whatever alpha is.  Default: True for all.
    classes : int
        Number of labels, for attacks on labels.
    largest : float
        The largest value of an input, for attacks on inputs.
    data_digest : str
        SHA-256 of the data; a resumed run must continue on the same data.
    units_per_step : int
        Samples in a minibatch, for throughput.
    target : dict of arrays, optional
        What a colluding attack may be after; the sizes then have ``has_target=True``.
    metric_names : tuple of str
        The names that ``evaluate`` returns, filled in from the sizes.

    Examples
    --------
    The least that a task defines.  Every device moves the model towards a point of its own:

    >>> from slsgd_mx import Task
    >>> class Points(Task):
    ...     def __init__(self, config=None, data_dir=None):
    ...         self.values = {"x": np.zeros(1)}
    ...     def initialize(self, seed):
    ...         self.values["x"][...] = 0
    ...     def train(self, device, steps, gamma, seed, poison=None):
    ...         for _ in range(steps):
    ...             self.values["x"] -= gamma * (self.values["x"] - device)
    ...     def evaluate(self):
    ...         return {"distance": float(abs(self.values["x"][0]))}
    >>> task = Points()
    >>> task.train(device=4, steps=2, gamma=0.5, seed=0)
    >>> task.evaluate()
    {'distance': 3.0}
    """

    values: Values
    classes: int = 2
    largest: float = 1.0
    data_digest: str = ""
    units_per_step: int = 1
    target: Optional[Values] = None
    metric_names: Tuple[str, ...] = ()

    @property
    def moving_average(self) -> Dict[str, bool]:
        return self.__dict__.get("moving_average") or dict.fromkeys(self.values, True)

    @moving_average.setter
    def moving_average(self, flags: Dict[str, bool]) -> None:
        self.__dict__["moving_average"] = flags

    @abc.abstractmethod
    def initialize(self, seed: int) -> None:
        """Set ``values`` to x_0 before any training (line 2)."""

    def start_fresh(self, seed: int) -> None:
        """Set ``values`` to the random model that a poisoned worker may start from instead."""
        self.initialize(seed)

    def steps_per_pass(self, device: int) -> int:
        """Local iterations in one full pass over a device's data."""
        return 1

    @abc.abstractmethod
    def train(
        self, device: int, steps: int, gamma: float, seed: int, poison: Optional[Poison] = None
    ) -> None:
        """Run local SGD from ``values`` (lines 8-11); the seed decides all that is random.

        ``poison`` maps the labels of the device to those that a poisoned worker trains on.  A task
        whose sizes have ``poisons_inputs`` calls ``poison_samples`` instead.
        """

    def evaluate(self) -> Dict[str, float]:
        """The configured metrics of the model in ``values``."""
        if type(self).score is Task.score:
            raise NotImplementedError("a task defines evaluate, or score, score_sizes and metrics")
        return self.metrics([self.score(0, 1)])

    def check_metrics(self, found: Mapping[str, float]) -> None:
        """Raise a ConfigError if ``evaluate`` did not return all metrics that the sizes declare."""
        if not set(self.metric_names) <= set(found):
            raise ConfigError(
                f"{type(self).__name__}.evaluate returned {', '.join(found) or 'nothing'}, but the "
                f"metrics of the task are {', '.join(self.metric_names)}: use the same names"
            )

    # To divide an evaluation among workers, a task defines these three instead of ``evaluate``.

    def score_sizes(self, parts: int) -> List[int]:
        """The lengths of the arrays that ``score`` returns for each of ``parts`` parts."""
        return [len(self.metric_names)] + [0] * (parts - 1)

    def score(self, part: int, parts: int) -> np.ndarray:
        """Evaluate one of several parts of the data on the model in ``values``; a flat array."""
        if part > 0:
            return np.empty(0)
        found = self.evaluate()
        self.check_metrics(found)
        return np.array([found[name] for name in self.metric_names], np.float64)

    def metrics(self, scores: Sequence[np.ndarray]) -> Dict[str, float]:
        """The configured metrics, from the scores of all parts, however many there are."""
        return dict(zip(self.metric_names, scores[0].tolist()))
