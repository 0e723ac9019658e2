"""Configurations by name: as published, for a day on a laptop, for a few seconds."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Dict, Iterable, List, Mapping, Tuple

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.partitions import PARTITIONS
from slsgd_mx.tasks.cifar.presets import PRESETS as CIFAR
from slsgd_mx.tasks.lstm.presets import PRESETS as LSTM
from slsgd_mx.validation import plain, require_name
from slsgd_mx.workloads import WORKLOADS

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


def released_switches(task: str, base: RunConfig) -> Dict[str, Any]:
    """What ``--released`` changes in a preset's configuration of a task.

    On the LSTM, alpha acts in the decay epoch itself, and the losses are measured at least every
    10 epochs.
    """
    switches = dict(RELEASED[task])
    if task == "lstm":
        switches["alpha_decay_epoch"] = base.alpha_decay_epoch - 1
        switches["eval_every"] = min(base.eval_every, 10)
    return switches


def trainable() -> List[str]:
    """The tasks that have presets, including those of plug-ins."""
    return [*PRESETS, *(name for name in WORKLOADS if WORKLOADS[name].presets)]


def preset_names() -> List[str]:
    """The names of presets: those that the paper's tasks have, then those of other tasks."""
    others = [name for workload in WORKLOADS.values() for name in workload.presets]
    return list(dict.fromkeys([*NAMES, *others]))


def divides_by_labels(task: str) -> bool:
    """Whether a user may choose the task's partition, among those of labels (``PARTITIONS``)."""
    sizes = WORKLOADS[task].sizes
    chosen = "partition" in {field.name for field in fields(sizes)}
    return chosen and sizes().partition.partition(":")[0] in PARTITIONS


def presets_of(task: str) -> Dict[str, RunConfig]:
    """The presets of a task, by name."""
    if task in PRESETS:
        return PRESETS[task]
    require_name("task", task, trainable())
    workload = WORKLOADS[task]
    made = {}
    for name, changes in workload.presets.items():
        try:
            _check_names(workload.sizes, changes)
            inner, outer = _split(workload.sizes, changes)
            sizes = workload.sizes().within(n=outer.get("n", RunConfig.n), **inner)
            made[name] = RunConfig(sizes=sizes, **outer)
        except (ConfigError, TypeError) as error:  # a plug-in wrote it
            raise ConfigError(f"preset {name!r} of task {task!r}: {error}") from error
    return made


def preset(task: str, name: str, **changes: object) -> RunConfig:
    """The configuration of a preset, with changes by the names of ``RunConfig`` and its sizes.

    Parameters
    ----------
    task : str
        "cifar", "lstm", "images", or a workload of a plug-in.
    name : str
        "paper" (as published), "laptop" (real data, minutes a run on 2 cores) or "smoke" (embedded
        synthetic data, seconds); "images" has no "paper", plug-ins name their own.
    **changes
        Fields of ``RunConfig`` and of its sizes.  Sizes that depend on a changed one follow it.

    Returns
    -------
    RunConfig

    Raises
    ------
    ConfigError
        If a name is unknown or a value is out of range.

    Examples
    --------
    >>> from slsgd_mx import preset
    >>> config = preset("cifar", "smoke", b=2, q=2, partition="unbalanced")
    >>> (config.n, config.b, config.sizes.partition)
    (20, 2, 'unbalanced')
    """
    known = presets_of(task)
    require_name("preset", name, known)
    return change(known[name], changes)


def change(base: RunConfig, changes: Mapping[str, object]) -> RunConfig:
    """A configuration with changes by the names of ``RunConfig`` and its sizes.

    With another attack, what belongs to the old one (its start and scale) gives way to the new
    one's own, unless it was changed as well.

    >>> change(RunConfig(), {"b": 2, "train_images": 1000}).sizes.loss_images
    1000
    """
    _check_names(base.sizes, changes)
    asked = {name: plain(value) for name, value in changes.items()}
    if asked.get("attack", base.attack) != base.attack:
        asked = {"attacker_start": None, "attack_scale": None, **asked}
    sizes, asked = _split(base.sizes, asked)
    n = asked.get("n", base.n)
    try:
        within = base.sizes.within(n=n if isinstance(n, int) else base.n, **sizes)
        return replace(base, sizes=within, **asked)
    except TypeError as error:  # a text instead of a number
        raise ConfigError(f"not a change of a configuration: {error}") from error


def _check_names(sizes: Any, changes: Iterable[str]) -> None:
    """Raise a ConfigError if a name is neither a size nor another field that a user may change."""
    fixed = ("sizes", "sources")  # the latter are looked up
    outer = [field.name for field in fields(RunConfig) if field.name not in fixed]
    legal = [*outer, *(field.name for field in fields(sizes))]
    for name in changes:
        if name not in legal:
            raise ConfigError(
                f"{name!r} is not part of a configuration: choose one of {', '.join(legal)}"
            )


def _split(sizes: Any, changes: Mapping[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Changes of the sizes, and of the rest of a configuration."""
    names = {field.name for field in fields(sizes)}
    inner = {name: value for name, value in changes.items() if name in names}
    return inner, {name: value for name, value in changes.items() if name not in names}
