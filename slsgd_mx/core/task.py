"""Tasks: all that differs between one workload and another.

To add one: a frozen dataclass of its sizes in ``slsgd_mx.sizes`` (``SIZES``), a module here with
a ``Task``, a line in ``build_task``.  The trainer, the server, the attacks and the run store know
nothing but the interface below.
"""

from __future__ import annotations

import abc
from typing import Callable, Dict, List, Optional, Sequence

import numpy as np

from slsgd_mx.system.mxnet import mx

Poison = Callable[[np.ndarray], np.ndarray]  # one device's labels -> what it trains on instead


class Task(abc.ABC):
    """One workload: a model that is one worker's copy, devices with data, metrics.

    Attributes
    ----------
    values : dict of str to NDArray
        The live parameters of the one worker there is; pulling writes into them.
    averaged : dict of str to bool
        Whether the moving average applies to a parameter.
    classes : int
        Number of labels, for attacks on them.
    data_digest : str
        SHA-256 of the data in use.
    units_per_step : int
        Images or tokens in a minibatch.
    """

    values: Dict[str, mx.nd.NDArray]
    averaged: Dict[str, bool]
    classes: int
    data_digest: str
    units_per_step: int

    @abc.abstractmethod
    def initialize(self, seed: int) -> None:
        """Set ``values`` to x_0 before any training (line 2)."""

    @abc.abstractmethod
    def start_afresh(self, seed: int) -> None:
        """Set ``values`` to what a poisoned worker that forgets the pulled model starts from."""

    @abc.abstractmethod
    def steps_per_pass(self, device: int) -> int:
        """Local iterations in one full pass of a device's data."""

    @abc.abstractmethod
    def train(
        self, device: int, steps: int, gamma: float, seed: int, poison: Optional[Poison] = None
    ) -> None:
        """Run local SGD from ``values`` (lines 8-11)."""

    @abc.abstractmethod
    def score_sizes(self, parts: int) -> List[int]:
        """How many numbers ``score`` gives for each of so many parts."""

    @abc.abstractmethod
    def score(self, part: int, parts: int) -> np.ndarray:
        """One of several parts of an evaluation of the model in ``values``, a flat array."""

    @abc.abstractmethod
    def metrics(self, scores: Sequence[np.ndarray]) -> Dict[str, float]:
        """What the configuration names, from the scores of all parts: the same for any number."""

    def evaluate(self) -> Dict[str, float]:
        """The metrics named in the task's configuration, for the model in ``values``."""
        return self.metrics([self.score(0, 1)])
