"""A server that keeps notes, and an adversary who sees every honest push before making its own.

The threat model allows arbitrary pushes, so poisoned workers may know everything.  They stay
``silent`` in the algorithm; what they push is made here, when the honest have pushed.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Optional

import numpy as np

from slsgd_mx.core.server import ModelServer, Update
from slsgd_mx.system.arrays import as_numpy
from slsgd_mx.system.mxnet import mx
from slsgd_mx.theory.lemma import trimmed_with

Adversary = Callable[[np.ndarray, int, int, np.ndarray], np.ndarray]


class WatchingServer(ModelServer):
    """A ``ModelServer`` of one parameter that notes what was pushed.

    Parameters
    ----------
    adversary : callable, optional
        ``adversary(honest, b, q, x_star)`` fills the slots of silent workers.
    x_star : (d,)
        What the adversary wants to keep the model from.

    After ``update``: ``variance`` of the honest pushes (sum over coordinates, over k-q) and
    ``deviation``, ``|Trmean_b - honest mean|^2``.  Set ``poisoned`` before every epoch.
    """

    def __init__(
        self,
        k: int,
        b: int,
        nonfinite: str,
        x_star: np.ndarray,
        adversary: Optional[Adversary] = None,
    ) -> None:
        super().__init__(k, b, nonfinite=nonfinite)
        self.trim, self.refuses = b, nonfinite == "reject"
        self.x_star, self.adversary = x_star, adversary
        self.poisoned: List[int] = []
        self.variance = self.deviation = 0.0
        self._seen: Dict[int, np.ndarray] = {}

    def push(self, key: str, value: mx.nd.NDArray, slot: int) -> None:
        self._seen[slot] = as_numpy(value).astype(np.float64)
        super().push(key, value, slot)

    def update(self, alpha: float) -> Update:
        honest = np.array([x for slot, x in self._seen.items() if slot not in self.poisoned])
        if self.adversary is not None and self.poisoned:
            pushed = self.adversary(honest, self.trim, len(self.poisoned), self.x_star)
            for slot, x in zip(self.poisoned, pushed):
                self.push("x", mx.nd.array(x, dtype=np.float32), slot)
        self._note(honest)
        self._seen.clear()
        return super().update(alpha)

    def _note(self, honest: np.ndarray) -> None:
        mean = honest.mean(axis=0)
        pushed = [x for slot, x in self._seen.items() if slot in self.poisoned]
        if self.refuses:
            pushed = [x for x in pushed if np.isfinite(x).all()]
        with np.errstate(over="ignore"):
            together = trimmed_with(
                honest, self.trim, np.array(pushed).reshape(-1, honest.shape[1])
            )
        self.variance = float(((honest - mean) ** 2).sum() / len(honest))
        self.deviation = float(((together - mean) ** 2).sum())
