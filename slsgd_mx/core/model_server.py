"""The server of Algorithm 1 in this process: it keeps the model and the pushes in its memory."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Dict, Iterable, Optional, Sequence, Union

import numpy as np

from slsgd_mx.core.collusion import Plot, Settings, collude, products
from slsgd_mx.core.flat_model import Shard
from slsgd_mx.core.server import Parameters, Server, Update, aggregate, check_alpha, share_memory
from slsgd_mx.rules.pipeline import sampled
from slsgd_mx.system.slot_memory import SlotMemory
from slsgd_mx.system.stopwatch import Costs


class ModelServer(Server):
    """Keeps the global model, takes one push per slot and aggregates them.

    A slot is a worker's position in S_t.  Because pushes are kept by slot, the result does not
    depend on the order in which they arrive, not even in the last bit.

    Parameters
    ----------
    k : int
        Slots: workers selected in an epoch.
    b : int
        Values trimmed at each end, ``0 <= b <= ceil(k/2) - 1``.
    rule : str
        ``NAME:key=value,...``, a rule of ``slsgd_mx.rules.RULES``.
    nonfinite : {"reject", "keep"}
        Whether a push with a NaN or an infinity is discarded as a whole, or aggregated.
    attack : str, optional
        A colluding attack, which ``update`` carries out in the slots that it is given.
    seed : int
        Of rules and attacks that draw random numbers.
    slot_folder : path, optional
        Where pushes are kept in a file if they would exceed the limit of memory for them
        (``SLSGD_MX_SLOT_MEMORY``).  Default: they are all in memory.

    Raises
    ------
    ConfigError
        If the rule cannot aggregate k pushes with this b, or a name is unknown; later, if a push
        has a wrong shape, an unknown key or a slot that has pushed already.

    Examples
    --------
    >>> from slsgd_mx import ModelServer
    >>> from slsgd_mx.system.mxnet import mx
    >>> server = ModelServer(k=4, b=1)
    >>> server.init("w", mx.nd.zeros(2))
    >>> for slot, value in enumerate([1, 2, 3, float("nan")]):
    ...     server.push("w", mx.nd.array([value, 0]), slot)
    >>> server.update(alpha=0.5)
    Update(accepted=(0, 1, 2), refused=(3,), missing=(), applied=True)
    >>> out = mx.nd.empty(2)
    >>> server.pull("w", out=out)
    >>> out.asnumpy()
    array([1., 0.], dtype=float32)
    """

    def __init__(
        self,
        k: int,
        b: int = 0,
        rule: str = "trimmed-mean",
        nonfinite: str = "reject",
        attack: Optional[str] = None,
        seed: int = 0,
        slot_folder: Optional[Union[str, Path]] = None,
    ) -> None:
        super().__init__(Settings(k, b, rule, nonfinite, attack, seed))
        self._t = 1
        self._memory = SlotMemory(slot_folder)

    def start(self, epoch: int) -> None:
        """Reserve the slots, whichever epoch the model is of: a full disk is noticed now."""
        self._shard.release()

    @property
    def slot_bytes(self) -> int:
        """The size of the file in which the pushes are; 0 if they are in memory."""
        return self._memory.mapped_bytes

    def begin(self, t: int) -> None:
        """Begin epoch t; all workers of S_t run in this process."""
        self._t = t
        self._watch.reset()

    def update(self, alpha: float, poisoned: Sequence[int] = ()) -> Update:
        from slsgd_mx.system.mxnet import mx

        check_alpha(alpha)
        self._watch.switch("aggregation")
        mx.nd.waitall()  # MXNet's engine copies pushes asynchronously
        update = self._conclude(self._t, alpha, poisoned)
        self._forget_pushes()
        self._t += 1
        self._watch.switch("")
        return dataclasses.replace(update, costs=Costs(**self._watch.take()))

    def _finite_slots(self) -> Dict[int, bool]:
        complete = [slot for slot in range(self.settings.k) if self._is_complete(slot)]
        return {slot: self._shard.is_finite(slot) for slot in complete}

    def _products(self, plot: Plot) -> Iterable[np.ndarray]:
        return products(self._shard, self.settings, plot)

    def _collude(self, plot: Plot, combination: Optional[np.ndarray]) -> Dict[int, bool]:
        places = {key: (p.start, p.stop) for key, p in self.model.places.items()}
        collude(self._shard, self.settings, plot, places, combination)
        return {slot: self._shard.is_finite(slot) for slot in plot.poisoned}

    def _grams(self, slots: Sequence[int]) -> Iterable[np.ndarray]:
        return self._shard.grams(slots)

    def _kept(self, slots: Sequence[int], matrix: Optional[np.ndarray]) -> Iterable[np.ndarray]:
        settings, stride = self.settings, sampled(self.model.size, self.settings.k)
        return self._shard.kept(slots, settings.rule, settings.b, matrix, stride)

    def _apply(self, t: int, update: Update, matrix: Optional[np.ndarray], alpha: float) -> None:
        if update.applied:
            aggregate(self._shard, self.settings, t, update.accepted, alpha, matrix)

    def _destination(self, slot: int) -> Parameters:
        if slot not in self._slots:
            self._slots[slot] = share_memory(self.model, self._shard.row(slot))
        return self._slots[slot]

    def _send(self, slot: int) -> None:
        if self._memory.mapped:
            for value in self._slots[slot].values():
                value.wait_to_read()  # MXNet's engine copies pushes asynchronously
            self._shard.release()

    @functools.cached_property
    def _shard(self) -> Shard:
        """One shard: the whole model."""
        model, settings = self.model, self.settings
        rows = dict(memory=self._memory, extra=settings.extra)
        return Shard(model.vector, settings.k, model.replaced, **rows)

    @functools.cached_property
    def _slots(self) -> Dict[int, Parameters]:
        return {}
