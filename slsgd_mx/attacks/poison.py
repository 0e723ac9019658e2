"""An attack as a function of arrays, for users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from slsgd_mx.attacks import find_attack
from slsgd_mx.attacks.attack import Attack
from slsgd_mx.attacks.collusion import Facts
from slsgd_mx.attacks.context import AttackContext
from slsgd_mx.attacks.engine import (
    WHAT,
    attack_block,
    attack_stream,
    block_products,
    coefficients_of,
    find_obstacle,
    pushes_from,
    require_given,
)
from slsgd_mx.errors import ConfigError
from slsgd_mx.registry import Choice
from slsgd_mx.rules.aggregate import base_of, flat_rows, like
from slsgd_mx.rules.pipeline import Pipeline, add_in_order, blocks, find_rule
from slsgd_mx.validation import check_between


def poison(
    honest: Sequence[Any],
    attack: str = "alie",
    q: int = 1,
    previous: Optional[Any] = None,
    rule: str = "trimmed-mean",
    b: int = 0,
    seed: int = 0,
    own: Optional[Sequence[Any]] = None,
    start: Optional[Sequence[Any]] = None,
    target: Optional[Any] = None,
) -> Any:
    """Return what q attackers push, as in a run with these k-q honest pushes.

    Parameters
    ----------
    honest : sequence of k-q arrays
        Equally shaped NDArrays or NumPy arrays, or one array with leading axis k-q.
    attack : str
        ``NAME:key=value,...``
    q : int
        Number of attackers.
    previous : array, optional
        The global model x_{t-1}, needed by attacks that use updates.
    rule, b : str, int
        What the server does, for attacks that depend on it.
    seed : int
        Of attacks that draw random numbers.
    own, start : sequence of q arrays, optional
        What the attackers trained, and what they started from, if the attack needs it; with
        ``boost=F`` they push ``start + F (own - start)`` (in a run: of trainable parameters).
    target : array, optional
        The model to stay away from, for ``worst-case``.

    Returns
    -------
    NDArray or numpy.ndarray
        The q pushes, with leading axis q: an NDArray if the honest pushes are NDArrays.

    Raises
    ------
    ConfigError
        If the attack is illegal for these k, q and b, or something it needs is missing.

    Examples
    --------
    ``ipm`` pushes x_{t-1} - epsilon (mu - x_{t-1}), mu being the mean of the honest pushes:

    >>> from slsgd_mx import poison
    >>> poison(np.array([[1.0], [2.0], [3.0]]), attack="ipm:epsilon=2", q=1, previous=np.zeros(1))
    array([[-4.]], dtype=float32)
    """
    choice, pipeline, models = find_attack(attack), find_rule(rule), list(honest)
    q, b = check_between("q", q, 1, 10**6), check_between("b", b, 0, 10**6)
    k = len(models) + q
    example = [*models, *(own if own is not None else ())][:1]
    rows, shape = flat_rows(models or example)
    rows = [row for row in rows[: len(models)] if np.isfinite(row).all()]
    given = dict(own=own, start=start, target=target)
    given = {name: _rows_of(name, value, q, shape) for name, value in given.items()}
    require_given(choice, given, rows)
    given["own"] = _boosted(choice, given["own"], given["start"])
    obstacle = find_obstacle(choice, k, q, b, rule)
    if obstacle:
        raise ConfigError(obstacle)
    depends = pipeline if choice.entry.whole and pipeline.uses_previous else choice.entry
    base = base_of(previous, shape, f"attack {choice.name}", depends)
    scene = Scene(choice, pipeline, rows, base, k, q, b, seed, given)
    return like(example[0], scene.pushes().reshape(q, *shape))


def _boosted(choice: Choice[Attack], own: Any, start: Any) -> Any:
    """What the attackers trained, moved away from their start if the attack has a ``boost``.

    One with a default is a parameter of an attack of a plug-in, which applies it itself.
    """
    boost, known = choice.parameters.get("boost"), choice.entry.parameters.get("boost")
    if boost in (None, 1.0) or known.default is not None or own is None:
        return own
    if start is None:
        raise ConfigError(f"{choice.text} needs start=: {WHAT['start']}")
    return [base + np.float32(boost) * (x - base) for x, base in zip(own, start)]


def _rows_of(name: str, value: Any, q: int, shape: tuple) -> Any:
    """q models as rows, or a target as one row, of the shape of the honest pushes."""
    if value is None:
        return None
    rows, found = flat_rows([value] if name == "target" else list(value))
    count = 1 if name == "target" else q
    if len(rows) != count or found != shape:
        raise ConfigError(
            f"{name} has {len(rows)} models of shape {found}: needs {count} of shape {shape}"
        )
    return rows[0] if name == "target" else rows


@dataclass(frozen=True)
class Scene:
    """One epoch in the eyes of the attackers."""

    choice: Choice[Attack]
    pipeline: Pipeline
    honest: List[np.ndarray]
    previous: np.ndarray
    k: int
    q: int
    b: int
    seed: int
    given: Dict[str, Any]  # own, start and target, or None

    @property
    def parts(self) -> Dict[str, Any]:
        """What the attack asks for, of what was given."""
        return {name: self.given[name] for name in self.choice.entry.needs}

    def facts(self, block: int = 0) -> Facts:
        rng = attack_stream(self.seed, self.choice.name, 0, block)
        text, parameters = self.pipeline.text, self.choice.parameters
        return Facts(0, self.k, self.q, self.b, text, parameters, rng)

    def pushes(self) -> np.ndarray:
        """What the q push, float32 (q, d)."""
        entry = self.choice.entry
        if entry.combine is not None:
            return self.combine()
        if entry.collude is not None:
            return self.collude_on_whole() if entry.whole else self.collude()
        if entry.model is not None:
            return self.change_models()
        raise ConfigError(
            f"attack {self.choice.name} does not compute pushes: it changes what a worker trains "
            "on, or nothing is pushed"
        )

    def collude(self) -> np.ndarray:
        pushed = np.empty((self.q, self.previous.size), np.float32)
        for number, block in enumerate(blocks(self.previous.size)):
            part = slice(*block)
            honest, previous = _cut(self.honest, part), self.previous[part]
            more = {name: _cut(value, part) for name, value in self.parts.items()}
            facts = self.facts(number)
            pushed[:, part] = attack_block(self.choice, facts, honest, previous, **more)
        return pushed

    def collude_on_whole(self) -> np.ndarray:
        self.pipeline.check(len(self.honest) + self.q, self.b)
        more = {**self.parts, "aggregate": self.aggregate}
        return attack_block(self.choice, self.facts(), self.honest, self.previous, **more)

    def combine(self) -> np.ndarray:
        own = self.parts.get("own", [])
        parts = [slice(*block) for block in blocks(self.previous.size)]
        gram = add_in_order(
            block_products(_cut(self.honest, p), _cut(own, p), self.previous[p]) for p in parts
        )
        found = coefficients_of(self.choice, self.facts(), gram, len(self.honest), len(own))
        return pushes_from(found, self.honest, own, self.previous)

    def aggregate(self, pushed: Sequence[np.ndarray]) -> np.ndarray:
        """The server's aggregate of the honest pushes and q others."""
        rows = [*self.honest, *pushed]
        return self.pipeline.combine(rows, self.previous, self.b, self.seed)

    def change_models(self) -> np.ndarray:
        """The pushes of workers that change what they trained."""
        entry, parameters = self.choice.entry, self.choice.parameters
        if self.given["own"] is None:
            raise ConfigError(f"attack {self.choice.name} needs own=: {WHAT['own']}")
        scale = parameters.get("scale")
        scale = entry.scale if scale is None else scale
        pushed = []
        for number, x in enumerate(self.given["own"]):
            rng = attack_stream(self.seed, self.choice.name, 0, number)
            pushed.append(entry.model(x, AttackContext(self.k, self.q, 0, scale, rng, parameters)))
        return np.stack(pushed)


def _cut(value: Any, part: slice) -> Any:
    """The same part of one row or of each row of a list."""
    return [row[part] for row in value] if isinstance(value, list) else value[part]
