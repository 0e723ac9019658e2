"""A figure's declaration for another task than its own, or for poisoned devices instead of q.

The curves stay the same: alpha, b, q and, where a figure compares several, gamma.  What the task
does not have is refused (a metric) or replaced by its own (one gamma, the balanced partition), and
titles say so.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Callable, Dict, List

from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.declarations import (
    BALANCED,
    FIGURES,
    IID,
    Changes,
    Figure,
    MetricFigure,
    ReachFigure,
    attacked,
)
from slsgd_mx.figures.variants import Variant, groups, loss_to_reach
from slsgd_mx.presets import divides_by_labels, presets_of

ACCURACY, LOSS = "test_accuracy", "train_loss"


def figure_of(name: str, variant: Variant) -> Figure:
    """The declaration of a figure in a variant; a ConfigError if it makes no sense there."""
    figure = FIGURES[name]
    if variant.task is not None:
        figure = _on_task(name, figure, variant)
    if variant.poisoned_devices is not None:
        figure = _with_poisoned_devices(name, figure, variant.poisoned_devices)
    return figure


def labels_of_whole(figure: Figure, variant: Variant) -> List[str]:
    """The labels of the figure of which this one shows a part; none if it is whole itself.

    >>> labels_of_whole(FIGURES["fig13"], Variant("paper", {}))[:2]
    ['FedAvg, no attack', 'FedAvg']
    """
    if not isinstance(figure, MetricFigure) or not figure.whole:
        return []
    whole = groups(figure_of(figure.whole, variant), variant)
    return [line.label for members in whole.values() for line in members]


def _on_task(name: str, figure: Figure, variant: Variant) -> Figure:
    """The same curves on another task."""
    task, sizes = variant.task, presets_of(variant.task)[variant.preset].sizes

    def refuse(why: str) -> ConfigError:
        return ConfigError(f"{name} cannot show task {task!r}: it {why}")

    if isinstance(figure, ReachFigure):
        needed = [LOSS]
    else:
        needed = [ACCURACY] * bool(figure.derived)
        if figure.only:
            raise refuse(figure.only)
    if not set(needed) <= set(sizes.metrics):
        measured = ", ".join(sizes.metrics)
        raise refuse(f"needs the metric {needed[0]}, and the task measures {measured}")
    if isinstance(figure, ReachFigure):
        loss_to_reach(figure, variant)
    gammas = {changes.get("gamma") for changes in _all_changes(figure)}
    if len(gammas) == 1:  # not compared: the preset's fits the task better than the paper's
        figure = _changed(figure, lambda changes: _without("gamma", changes))
    if "partition" in figure.setup and not divides_by_labels(task):
        if figure.setup["partition"] != BALANCED["partition"]:
            raise refuse("needs the unbalanced partition, and the task has a partition of its own")
        title = figure.title.replace(IID, f"{sizes.partition} partition")
        figure = replace(figure, setup=_without("partition", figure.setup), title=title)
    return replace(figure, task=task)


def _with_poisoned_devices(name: str, figure: Figure, count: int) -> Figure:
    """The same curves with poisoned devices; groups that differ in q become one."""
    if not attacked(figure):
        raise ConfigError(f"{name} has no attack: leave out --poisoned-devices")
    words = f"{count} poisoned devices"

    def poison(changes: Changes) -> Changes:
        poisoned = {"poisoned_devices": count} if changes.get("q") else {}
        return {**_without("q", changes), **poisoned}

    q = r"\$q=\d+\$"
    title = re.sub(q, words, figure.title)
    figure = replace(figure, title=title if words in title else f"{title}, {words}")
    figure = _changed(figure, poison)
    if isinstance(figure, MetricFigure):
        groups: Dict[str, List[Changes]] = {}
        for group, curves in figure.groups.items():
            known = groups.setdefault(re.sub(q, "", group), [])
            known += [changes for changes in curves if changes not in known]
        figure = replace(figure, groups=groups)
    return figure


def _changed(figure: Figure, change: Callable[[Changes], Changes]) -> Figure:
    """The figure with a change in what all its curves have in common, and in each of them."""
    setup = change(dict(figure.setup))
    if isinstance(figure, ReachFigure):
        curves: Any = {label: change(changes) for label, changes in figure.curves.items()}
        return replace(figure, setup=setup, curves=curves)
    groups = {name: [change(each) for each in group] for name, group in figure.groups.items()}
    return replace(figure, setup=setup, groups=groups)


def _all_changes(figure: Figure) -> List[Changes]:
    """What every curve changes in the preset."""
    if isinstance(figure, ReachFigure):
        return [{**figure.setup, **changes} for changes in figure.curves.values()]
    return [{**figure.setup, **each} for group in figure.groups.values() for each in group]


def _without(name: str, changes: Any) -> Changes:
    return {key: value for key, value in changes.items() if key != name}
