"""What an attack is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional, Tuple

import numpy as np

from slsgd_mx.attacks.collusion import Collusion, Facts, Products
from slsgd_mx.attacks.context import AttackContext
from slsgd_mx.registry import Parameter

Samples = Tuple[np.ndarray, np.ndarray]  # inputs and labels
NEEDS = ("own", "start", "target")  # what a colluding attack may ask for besides the honest pushes


@dataclass(frozen=True)
class Attack:
    """One attack; ``start`` and ``scale`` apply unless the configuration sets others.

    A poisoned worker trains on ``labels(y, context)`` or, where inputs are poisoned as well, on
    ``samples(x, y, context)``, which returns x and y; it pushes ``model(x, context)`` instead of a
    parameter x that it trained, or is ``silent``.  A colluding attack sees the honest pushes and is
    computed on the server, in one of three ways:

    * ``collude(collusion)`` returns the poisoned pushes, (q, d) or (d,), on a part of the
      coordinates;
    * ``combine(products, facts)`` returns the poisoned pushes as linear combinations of what the
      attackers see, found from inner products, see ``Products``;
    * ``collude`` with ``whole=True`` sees whole models, so only one server can run it.

    An attack with ``trigger(x, context)``, which changes test inputs, is measured: runs on images
    have the metric ``attack_success``, the share of changed test images of classes other than the
    parameter ``target`` that are classified as ``target``, and the accuracy of each class.
    """

    summary: str
    labels: Optional[Callable[[np.ndarray, AttackContext], np.ndarray]] = None
    samples: Optional[Callable[[np.ndarray, np.ndarray, AttackContext], Samples]] = None
    trigger: Optional[Callable[[np.ndarray, AttackContext], np.ndarray]] = None
    model: Optional[Callable[[np.ndarray, AttackContext], np.ndarray]] = None
    silent: bool = False
    start: str = "pulled"  # train from the pulled model, or from a "fresh" random one
    scale: float = 1.0
    collude: Optional[Callable[[Collusion], np.ndarray]] = None
    combine: Optional[Callable[[Products, Facts], np.ndarray]] = None
    whole: bool = False
    needs: Tuple[str, ...] = ()  # of a colluding attack: "own" trained models, "start", "target"
    honest: int = 1  # of a colluding attack: the least number of honest pushes that it needs
    by_coordinate: bool = False  # needs a rule that treats each coordinate by itself
    uses_previous: bool = False  # a colluding attack that depends on x_{t-1}
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    legal: Optional[Callable[..., Optional[str]]] = None  # legal(k, q, b, parameters)
    fits: Optional[Callable[[Any, Mapping], Optional[str]]] = None  # fits(sizes, parameters)

    @property
    def colludes(self) -> bool:
        return self.collude is not None or self.combine is not None

    @property
    def least_honest(self) -> int:
        """The least number of honest pushes without which there is no attack."""
        return self.honest if self.colludes else 0

    @property
    def poisons_data(self) -> bool:
        """Whether poisoned workers train on other data than their own."""
        return self.labels is not None or self.samples is not None

    @property
    def function(self) -> Callable:
        """The function that tells where the attack comes from."""
        given = (self.samples, self.collude, self.combine, self.labels, self.model)
        return next((each for each in given if each is not None), type(self))
