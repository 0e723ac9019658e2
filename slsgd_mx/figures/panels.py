"""The curves, limits and derived panels of a figure, from the rows of its runs; no MXNet."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Callable, Dict, Iterable, List, Sequence, Tuple

import numpy as np

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.plot import Curve, Panel, band, frame
from slsgd_mx.figures.variants import Line, trimming
from slsgd_mx.rules.pipeline import find_rule
from slsgd_mx.runs.metrics import Row, align, column, mean_change
from slsgd_mx.runs.status import ENDED, Outcome

CLASSIFIERS = {"cifar", "lstm", "images"}  # tasks whose losses are cross entropies
TITLES = {  # metric -> title and y-label of its panel
    "train_loss": ("Cross entropy on training set", "Cross entropy"),
    "test_loss": ("Cross entropy on testing set", "Cross entropy"),
    "test_perplexity": ("Perplexity on testing set", "Perplexity"),
    "test_accuracy": ("Top-1 accuracy on testing set", "Accuracy"),
}


def title_of(metric: str, *tasks: str) -> Tuple[str, str]:
    """The title and y-label of a metric's panel; the loss of another task may be any.

    >>> title_of("train_loss", "cifar"), title_of("train_loss", "mine")
    (('Cross entropy on training set', 'Cross entropy'), ('Train loss', 'Train loss'))
    """
    words = metric.replace("_", " ").capitalize()
    return TITLES.get(metric, (words, words)) if set(tasks) <= CLASSIFIERS else (words, words)


Repeats = Sequence[Sequence[Row]]  # the rows of each repeat's metrics.csv


def metric_curve(label: str, runs: Repeats, metric: str) -> Curve:
    """A metric over the epochs of one or several repeats; NaN where a repeat has no row."""
    epochs, values = ([column(rows, name) for rows in runs] for name in ("epoch", metric))
    return Curve(label, *align(epochs, values))


def line_curve(
    line: Line, outcomes: Dict[RunConfig, Outcome], metric: str, style: int, remark: str
) -> Curve:
    """The curve of the stored seeds, with a cross where one diverged."""
    runs, diverged = [], []
    for run in line.runs:
        rows = outcomes[run].rows
        if rows and outcomes[run].state == "diverged":
            diverged.append(float(rows[-1]["epoch"]))
            rows = carried_on(rows, metric, run.evaluations(run.epochs, run.epochs))
        runs += [rows] * bool(rows)
    empty = Curve(line.label, np.array([]), np.zeros((1, 0)))
    curve = metric_curve(line.label, runs, metric) if runs else empty
    return replace(curve, style=style, remark=remark, diverged=tuple(sorted({*diverged})))


def carried_on(rows: Sequence[Row], metric: str, evaluations: Sequence[int]) -> List[Row]:
    """The rows of a run that diverged, and those that are drawn in place of the ones it lacks.

    A run that diverges is stopped. For pictures alone, its last value stays to the end, from the
    evaluation in which it diverged or else the next one; a loss that is NaN there is infinite.

    >>> rows = [{"epoch": "2", "loss": "0.5"}, {"epoch": "3", "loss": "nan"}]
    >>> carried_on(rows, "loss", [2, 4, 6])[1:]
    [{'epoch': '4', 'loss': 'inf'}, {'epoch': '6', 'loss': 'inf'}]
    """
    end, last = int(rows[-1]["epoch"]), float(rows[-1][metric])
    if math.isnan(last) and metric.endswith(("loss", "perplexity")):  # of which less is better
        last = math.inf
    later = [{"epoch": str(epoch), metric: repr(last)} for epoch in evaluations if epoch >= end]
    return [*rows[:-1], *later]


def remarks_on(
    lines: Dict[str, List[Line]], outcomes: Dict[RunConfig, Outcome]
) -> Dict[Tuple[str, str], str]:
    """How many seeds of a group's curve diverged, are missing or not finished, for the legend.

    It names the group unless all groups with that curve say the same.
    """
    said = {}
    for group, members in lines.items():
        for line in members:
            said[group, line.label] = lost_seeds([end_of(outcomes[run]) for run in line.runs])
    return by_group(said)


def by_group(said: Dict[Tuple[str, str], str]) -> Dict[Tuple[str, str], str]:
    """Remarks on (group, label) that name their group, unless all groups say the same of a label.

    >>> by_group({("q=2", "FedAvg"): "diverged", ("q=4", "FedAvg"): ""})
    {('q=2', 'FedAvg'): 'q=2: diverged', ('q=4', 'FedAvg'): ''}
    """
    return {
        (group, label): f"{group}: {words}"
        if words and any(said[other] != words for other in said if other[1] == label)
        else words
        for (group, label), words in said.items()
    }


def end_of(outcome: Outcome) -> str:
    """How far a run is drawn, in words.

    >>> end_of(Outcome("begun", rows=[{"epoch": "20"}])), end_of(Outcome("begun"))
    ('up to epoch 20', 'missing')
    """
    if outcome.state == "begun" and outcome.rows:
        return f"up to epoch {outcome.rows[-1]['epoch']}"
    if outcome.state == "failed" and outcome.rows:
        return "no update"
    return outcome.state if outcome.state in ENDED else "missing"


def lost_seeds(ends: Sequence[str]) -> str:
    """How many seeds of a curve diverged, are missing or not finished; empty if none.

    >>> lost_seeds(["done", "missing", "diverged"]), lost_seeds(["up to epoch 20"])
    ('1 of 3 diverged, 1 of 3 missing', 'up to epoch 20')
    """
    lost = Counter(end for end in ends if end != "done")
    many = "{} of " + f"{len(ends)} " if len(ends) > 1 else ""
    return ", ".join(many.format(count) + what for what, count in sorted(lost.items()))


def seeds_in_words(seeds: Sequence[int]) -> str:
    """
    >>> seeds_in_words([0]), seeds_in_words([0, 1, 2]), seeds_in_words([0, 2])
    ('seed 0', 'seeds 0 to 2', 'seeds 0, 2')
    """
    first, last = min(seeds), max(seeds)
    if first == last:
        return f"seed {first}"
    gaps = len({*seeds}) <= last - first
    return "seeds " + (", ".join(map(str, sorted({*seeds}))) if gaps else f"{first} to {last}")


def joined(*words: str) -> str:
    return ", ".join(filter(None, words))


def decay_epoch_of(configs: Iterable[RunConfig]) -> int | None:
    """The epoch to mark: the first at which the alpha of a curve decays."""
    for config in configs:
        decays = config.alpha < 1 and config.alpha_schedule == "step"
        if decays and config.alpha_decay_epoch < config.epochs:
            return config.alpha_decay_epoch
    return None


def limits(
    members: Sequence[Line], curves: Sequence[Curve], metric: str, zoom: bool
) -> tuple[float, float] | None:
    """y limits from the curves that may survive, in a zoom from their second half.

    None where no curve may be cut: without such a curve, and for accuracy outside a zoom.
    """
    if metric == "test_accuracy" and not zoom:
        return None
    surviving = [c for line, c in zip(members, curves) if _may_survive(line.runs[0]) and len(c.x)]
    after = max((c.x.max() for c in surviving), default=0) / 2 if zoom else -1
    bands = [band(c)[:, c.x > after] for c in surviving if c.x.max() > after]
    return frame(bands) if bands else None


def _may_survive(run: RunConfig) -> bool:
    """Whether b >= q, or the rule, other than the mean, needs no b."""
    if run.b >= _poisoned(run):
        return True
    try:
        rule = find_rule(run.rule)
    except ConfigError:  # of a plug-in, named in a table
        return False
    return not rule.uses_b and rule.rule.name != "mean"


def _poisoned(run: RunConfig) -> int:
    """q; of poisoned devices, the number that is selected on average."""
    if run.poisoned_devices is None:
        return run.q
    return round(run.k * run.poisoned_devices / run.n)


def _difference_panels(
    lines: Dict[str, List[Line]], outcomes: Dict[RunConfig, Outcome], styles: Dict[str, int]
) -> List[Panel]:
    """Test accuracy minus that of a group's first curve with the same seed, epoch by epoch."""
    metric, panels = "test_accuracy", []
    for group, members in lines.items():
        if len(members) == 1:  # chosen with --where
            continue
        curves = []
        for line in members:
            runs = []
            for run, base in zip(line.runs, members[0].runs):
                bases = {row["epoch"]: float(row[metric]) for row in outcomes[base].rows}
                shared = [row for row in outcomes[run].rows if row["epoch"] in bases]
                rows = [{**r, metric: float(r[metric]) - bases[r["epoch"]]} for r in shared]
                runs += [rows] * bool(rows)
            if runs:
                curve = metric_curve(line.label, runs, metric)
                curves.append(replace(curve, style=styles[line.label]))
        title = joined(f"Test accuracy minus that of {members[0].label}", group)
        decay = decay_epoch_of(line.runs[0] for line in members)
        panels.append(Panel(title, "Difference", curves, decay_epoch=decay))
    return panels


def _roughness_panel(
    lines: Dict[str, List[Line]], outcomes: Dict[RunConfig, Outcome], styles: Dict[str, int]
) -> List[Panel]:
    """How much test accuracy changes after the decay, over alpha; a line for each group and b."""
    found: Dict[str, Dict[float, List[float]]] = {}  # label -> alpha -> by seed
    for group, members in lines.items():
        for line in members:
            label = joined(group, trimming(line.runs[0]))
            found.setdefault(label, {})[line.changes["alpha"]] = [
                mean_change(outcomes[run].rows, "test_accuracy", run.alpha_decay_epoch)
                if outcomes[run].state == "done"
                else math.nan
                for run in line.runs
            ]
    curves = []
    for style, (label, over) in enumerate(found.items(), start=len(styles)):
        alphas, by_alpha = zip(*sorted(over.items()))
        curves.append(Curve(label, alphas, np.transpose(by_alpha), style))
    title = "Roughness after the decay: mean |change| of test accuracy between evaluations"
    options = {"xlabel": r"$\alpha$ after the decay", "dots": True, "own_legend": True}
    return [Panel(title, "Roughness", curves, **options)]


DERIVED: Dict[str, Callable[..., List[Panel]]] = {
    "difference": _difference_panels,
    "roughness": _roughness_panel,
}
