"""Curves of any stored runs, side by side; no MXNet."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence, Tuple, Union

from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.captions import attackers
from slsgd_mx.figures.panels import decay_epoch_of, title_of
from slsgd_mx.figures.plot import Curve, Panel, composed
from slsgd_mx.figures.style import Paths, as_paths, literal, write
from slsgd_mx.runs.metrics import align
from slsgd_mx.runs.records import Run, load_run
from slsgd_mx.runs.selection import brief, describe, in_common, labels, show
from slsgd_mx.tasks.sizes import SIZES
from slsgd_mx.workloads import OWN, WORKLOADS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAIN = ("b", "q", "gamma", "alpha", "rule", "attack")  # shown if nothing differs
SEEDS = ("seed", "partition_seed")  # runs that differ in nothing else are one curve


def plot_runs(
    runs: Sequence[Union[Run, str, Path]],
    metric: Optional[Union[str, Sequence[str]]] = None,
    path: Optional[Paths] = None,
) -> Figure:
    """Draw metrics of runs over the epochs, with a curve for each configuration.

    Runs that differ only in their seed are one curve, their mean, with a band from minimum to
    maximum.  The legend names what differs, the small print what they have in common.

    Parameters
    ----------
    runs : sequence of runs or run folders
        As ``load_run`` and ``load_runs`` return them.
    metric : str or sequence of str, optional
        Columns of metrics.csv, a panel for each.  Default: those of the paper's figures.
    path : path or paths, optional
        Where to write the picture, .png or .svg.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If no run has been evaluated, or the metric is unknown.

    Examples
    --------
    >>> import tempfile
    >>> from slsgd_mx import plot_runs, preset, train
    >>> small = dict(epochs=1, k=4, train_images=100, width=2, batch_size=5, eval_every=1)
    >>> with tempfile.TemporaryDirectory() as home:
    ...     for b in (0, 1):
    ...         done = train(preset("cifar", "smoke", b=b, **small), f"{home}/b{b}")
    ...     figure = plot_runs([f"{home}/b0", f"{home}/b1"], metric="test_loss")
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['b=0', 'b=1']
    """
    paths = [] if path is None else as_paths(path)
    loaded = [run if isinstance(run, Run) else load_run(run) for run in runs]
    shown = [run for run in loaded if len(run.columns.get("epoch", ()))]
    if not shown:
        raise ConfigError(f"none of the {len(loaded)} runs has been evaluated: nothing to draw")
    panels = [_panel(name, shown) for name in _choose_metrics(shown, metric)]
    with composed(panels, literal(_title(shown)), _note(shown, len(loaded) - len(shown))) as figure:
        write(figure, paths)
    return figure


def _choose_metrics(runs: Sequence[Run], metric: Optional[Union[str, Sequence[str]]]) -> List[str]:
    known = list(dict.fromkeys(name for run in runs for name in (*run.metrics, *run.columns)))
    known = [name for name in known if any(is_numeric(run, name) for run in runs)]
    if metric is None:
        paper = [SIZES[run.config["task"]].panels for run in runs if run.config["task"] in SIZES]
        usual = [name for panels in paper for name in panels if name in known]
        for run in runs:  # one of another workload may have none of these
            if not any(is_numeric(run, name) for name in usual):
                usual += run.metrics
        return [name for name in dict.fromkeys(usual) if name in known]
    chosen = [metric] if isinstance(metric, str) else list(metric)
    for name in chosen:
        if name not in known:
            raise ConfigError(f"metric={name!r} is unknown: choose one of {', '.join(known)}")
    return chosen


def is_numeric(run: Run, column: str) -> bool:
    return column != "epoch" and column in run.columns and run[column].dtype.kind in "if"


def _panel(metric: str, runs: Sequence[Run]) -> Panel:
    groups: Dict[str, List[Run]] = {}
    for run, label in zip(runs, group_labels(runs)):
        groups.setdefault(label, []).append(run)
    curves, shown = [], []
    for style, (label, members) in enumerate(groups.items()):
        having = [run for run in members if is_numeric(run, metric)]
        if having:
            shown += [SimpleNamespace(**run.symbols) for run in having]
            points = align([run["epoch"] for run in having], [run[metric] for run in having])
            curves.append(Curve(literal(label), *points, style, _remark(members)))
    title, ylabel = title_of(metric, *(run.config["task"] for run in runs))
    known = all(hasattr(run, "alpha_decay_epoch") for run in shown)
    return Panel(title, ylabel, curves, decay_epoch=decay_epoch_of(shown) if known else None)


def group_labels(runs: Sequence[Run]) -> List[str]:
    """A label for each run; runs that differ only in their seed share one."""
    seen: Dict[Tuple[str, str], int] = {}
    texts = []
    for run, label in zip(runs, labels(runs, but=SEEDS)):
        key = (label, show([run.symbols.get(name) for name in SEEDS]))
        seen[key] = seen.get(key, 0) + 1
        text = label or describe(run, MAIN)
        texts.append(text if seen[key] == 1 else f"{text} ({run.path.name})")  # a second folder
    return texts


def _remark(runs: Sequence[Run]) -> str:
    states = [run.status for run in runs if run.status != "done"]
    if not states:
        return ""
    which = states[0] if len(set(states)) == 1 else "unfinished"
    return which if len(runs) == 1 else f"{len(states)} of {len(runs)} {which}"


def _title(runs: Sequence[Run]) -> str:
    """The workload, its data, and the attack if all runs have the same."""
    tasks = dict.fromkeys(run.config["task"] for run in runs)
    data = dict.fromkeys(filter(None, map(_data_of, runs)))
    names = ["synthetic data" if name == "synthetic" else name for name in data]
    symbols = ("attack", "q", "poisoned_devices")
    threats = {tuple(run.symbols.get(name) for name in symbols) for run in runs}
    words = [" and ".join(tasks), *[" and ".join(names)] * bool(names)]
    if len(threats) == 1:
        threat = SimpleNamespace(**dict(zip(symbols, threats.pop())))
        words += [f"{threat.attack}, {attackers(threat)}"] * bool(threat.attack)
    precisions = {run.symbols.get("precision", "float32") for run in runs}
    words += sorted(precisions) if precisions != {"float32"} else []
    return ", ".join(words)


def _note(runs: Sequence[Run], left_out: int) -> str:
    common = {k: v for k, v in in_common(runs).items() if k not in ("task", "data")}
    text = ", ".join(f"{name}={brief(value)}" for name, value in common.items())
    same = f"In common: {text}." if text else ""
    missing = f" {left_out} runs without an evaluation are not shown." if left_out else ""
    return f"{_about_data(runs)}{same}{missing}"


def _about_data(runs: Sequence[Run]) -> str:
    """Whether data are synthetic, and of which workload if not of all."""
    names = dict.fromkeys(_data_of(run) for run in runs)
    if "synthetic" not in names:
        return ""
    if len(names) == 1:
        return "Synthetic data. "
    each = dict.fromkeys(f"{_data_of(run) or 'its own'} ({run.config['task']})" for run in runs)
    return f"Data: {', '.join(each)}. "


def _data_of(run: Run) -> str:
    """The name of the data; empty for the own data of a plug-in's workload."""
    task = run.config["task"]
    usual = WORKLOADS[task].sizes.data if task in WORKLOADS else OWN
    name = str(run.symbols.get("data", usual))
    return "" if name == OWN else name
