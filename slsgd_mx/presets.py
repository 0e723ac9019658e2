"""Configurations by name: as published, for a day on a laptop, for a few seconds."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Dict

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.tasks.cifar.presets import PRESETS as CIFAR
from slsgd_mx.tasks.lstm.presets import PRESETS as LSTM
from slsgd_mx.validation import require_name

PRESETS: Dict[str, Dict[str, RunConfig]] = {"cifar": CIFAR, "lstm": LSTM}
NAMES = ("paper", "laptop", "smoke")  # every task has these

# The switches of the released code; docs/paper-vs-code.md lists what has no switch.
SWITCHES = dict(
    attacker_start="fresh",
    nonfinite="keep",
    partition_seed=0,
    selection="permutation",
    warm_up=True,
)
RELEASED: Dict[str, Dict[str, object]] = {
    "cifar": dict(SWITCHES, attack="label-flip"),
    "lstm": dict(SWITCHES, attack="label-shift"),
}


def preset(task: str, name: str, **changes: object) -> RunConfig:
    """The configuration of a preset, with changes by the names of ``RunConfig`` and its sizes.

    >>> from slsgd_mx import preset
    >>> config = preset("cifar", "smoke", b=2, q=2, partition="unbalanced")
    >>> (config.n, config.b, config.sizes.partition)
    (20, 2, 'unbalanced')
    """
    require_name("task", task, tuple(PRESETS))
    require_name("preset", name, NAMES)
    base = PRESETS[task][name]
    names = {field.name for field in fields(base.sizes)}
    inner = {key: changes.pop(key) for key in list(changes) if key in names}
    n = changes.get("n", base.n)
    try:
        sizes = base.sizes.within(n=n if isinstance(n, int) else base.n, **inner)
        return replace(base, sizes=sizes, **changes)
    except TypeError as error:  # an unknown name, or a text instead of a number
        raise ConfigError(f"not a change of a configuration: {error}") from error
