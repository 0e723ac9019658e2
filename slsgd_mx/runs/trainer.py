"""From a configuration to a finished run folder: epochs, evaluations, checkpoints, resuming."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from slsgd_mx.config import RunConfig
from slsgd_mx.core.algorithm import EpochReport, initialize, pull, run_epoch
from slsgd_mx.core.server import ModelServer, Server
from slsgd_mx.core.task import Task
from slsgd_mx.errors import ConfigError
from slsgd_mx.runs.folder import RunStore
from slsgd_mx.runs.manifest import describe
from slsgd_mx.runs.metrics import Row
from slsgd_mx.system import signals
from slsgd_mx.system.files import Values
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.build import build_task


@dataclass(frozen=True)
class Progress:
    """What a listener hears after every epoch, and once before the first."""

    epoch: int
    config: RunConfig
    seconds: float = 0.0  # of this epoch, its evaluation aside
    units: int = 0  # images or tokens trained on in this epoch
    metrics: Optional[Dict[str, float]] = None  # if this epoch was evaluated


@dataclass(frozen=True)
class RunResult:
    """A finished run: its folder and the rows of its metrics.csv (values as text)."""

    folder: Path
    rows: List[Row]
    resumed_from: int = 0  # the epoch this call started after; T if the run was done already
    diverged: str = ""  # why the run ended early, if it did


Listener = Callable[[Progress], None]


def train(
    config: RunConfig,
    out: Union[str, Path],
    data_dir: Optional[Union[str, Path]] = None,
    listener: Optional[Listener] = None,
    checkpoint_seconds: float = 30.0,
    prefix: Optional[Union[str, Path]] = None,
) -> RunResult:
    """Run Algorithm 1 to the end, or from where an earlier call stopped.

    Parameters
    ----------
    config : RunConfig
    out : path of the run folder
        A folder of the same configuration is resumed (or returned, if it is done).
    data_dir : path, optional
        Where the real data is; by default where ``slsgd-mx data fetch`` puts it.
    listener : callable, optional
        Called with a ``Progress`` after every epoch.
    checkpoint_seconds : float
        Least time between two checkpoints.
    prefix : path, optional
        The folder of a finished run that is equal to this one up to its last epoch: this one goes
        on from there (see ``slsgd_mx.runs.prefix``).

    Raises
    ------
    RunError
        If the folder belongs to another run, a checkpoint is corrupt or the disk is full.
    DivergedError
        If the global model or a metric stops being finite; the rows up to there are kept.

    Examples
    --------
    >>> import tempfile
    >>> from slsgd_mx import Cifar, RunConfig, train
    >>> tiny = Cifar(data="synthetic", train_images=80, test_images=20, loss_images=80, width=2)
    >>> config = RunConfig(sizes=tiny, n=8, k=4, b=1, q=1, epochs=2, batch_size=10, eval_every=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = train(config, out=folder + "/run")
    >>> [row["epoch"] for row in result.rows]
    ['1', '2']
    """
    if config.deadline is not None:
        raise ConfigError(
            f"deadline={config.deadline:g} needs workers that can be too slow: slsgd-mx launch"
        )
    store = RunStore(Path(out), config)
    if store.finished():
        return RunResult(store.folder, store.rows(), resumed_from=config.epochs)
    store.check_free()  # before the data is loaded
    task = build_task(config, None if data_dir is None else Path(data_dir))
    with store:
        if store.finished():  # by another process, while the data was loading
            return RunResult(store.folder, store.rows(), resumed_from=config.epochs)
        if prefix is not None:
            store.adopt(Path(prefix))
        server = ModelServer(config.k, config.b, config.rule, config.nonfinite)
        return run(config, task, server, store, listener, checkpoint_seconds)


def run(
    config: RunConfig,
    task: Task,
    server: Server,
    store: RunStore,
    listener: Optional[Listener] = None,
    checkpoint_seconds: float = 30.0,
    engine: Optional[Dict[str, Any]] = None,
) -> RunResult:
    """The epochs of a run from its newest checkpoint to the end, on whatever server there is.

    ``store`` is entered; ``engine`` is what the manifest says of the server.
    """
    start, tally = _start(config, task, server, store, engine or {})
    notify = listener or (lambda progress: None)
    notify(Progress(start, config))
    saver = _Checkpointer(store, checkpoint_seconds)
    try:
        _run_epochs(start, config, task, server, store, tally, saver, notify)
        store.finish(server.values())
    except BaseException:  # Ctrl-C and full disks included: keep what was computed
        with signals.held():
            saver.write()
        raise
    return RunResult(store.folder, store.rows(), resumed_from=start)


def _start(
    config: RunConfig, task: Task, server: Server, store: RunStore, engine: Dict[str, Any]
) -> Tuple[int, _Tally]:
    """Give the server x_0, or the model of the last checkpoint; return the epoch it is of."""
    epoch, values, notes = store.resume()
    store.begin_session({**describe(epoch, task.data_digest), **engine})
    if values is None:
        initialize(config, task, server)
    else:
        for key in task.values:
            server.init(key, mx.nd.array(values[key]), averaged=task.averaged[key])
    server.start(epoch)
    return epoch, _Tally(**notes)


def _run_epochs(
    start: int,
    config: RunConfig,
    task: Task,
    server: Server,
    store: RunStore,
    tally: _Tally,
    saver: _Checkpointer,
    notify: Listener,
) -> None:
    for t in range(start + 1, config.epochs + 1):
        began = time.perf_counter()
        report = run_epoch(t, config, task, server, server.begin(t))
        seconds = time.perf_counter() - began
        tally.add(t, report, seconds)
        diverged = not server.is_finite()
        metrics = None
        if config.is_evaluated(t) or diverged:
            pull(task, server)
            metrics = server.evaluate(task) if config.is_evaluated(t) else task.evaluate()
            diverged = diverged or any(math.isnan(value) for value in metrics.values())
            store.append({"epoch": t, "alpha": config.alpha_at(t), **metrics, **tally.cells()})
            tally = _Tally()
        if diverged:
            store.mark_diverged(t)
        saver.keep(t, server.values(), tally)
        notify(Progress(t, config, seconds, report.units, metrics))


@dataclass
class _Tally:
    """What became of the pushes since the last row, and the time they took."""

    accepted: int = 0
    refused: int = 0
    missing: int = 0
    skipped: int = 0  # epochs with too few pushes: x_t = x_{t-1}
    refused_devices: List[str] = field(default_factory=list)  # "epoch:device"
    seconds: float = 0.0
    units: int = 0
    training: float = 0.0  # seconds, as in Costs
    transfer: float = 0.0
    aggregation: float = 0.0
    sent: int = 0

    def add(self, t: int, report: EpochReport, seconds: float) -> None:
        update = report.update
        self.accepted += len(update.accepted)
        self.refused += len(update.refused)
        self.missing += len(update.missing)
        self.skipped += not update.applied
        self.refused_devices += [f"{t}:{report.selected[slot]}" for slot in update.refused]
        self.seconds += seconds
        self.units += report.units
        for name, cost in asdict(update.costs).items():
            setattr(self, name, getattr(self, name) + cost)

    def cells(self) -> Dict[str, Any]:
        """The columns of a row."""
        cells = asdict(self)
        cells["refused_devices"] = " ".join(self.refused_devices)
        cells["units_per_second"] = cells.pop("units") / max(self.seconds, 1e-9)
        cells["bytes_sent"] = cells.pop("sent")
        for name in ("training", "transfer", "aggregation"):
            cells[f"{name}_seconds"] = cells.pop(name)
        return cells


class _Checkpointer:
    """Keeps the model of the last whole epoch; writes it when enough time has gone by."""

    def __init__(self, store: RunStore, seconds: float) -> None:
        self.store, self.seconds = store, seconds
        self.written_at = time.monotonic()
        self.kept: Optional[Tuple[int, Values, Dict[str, Any]]] = None

    def keep(self, epoch: int, values: Values, tally: _Tally) -> None:
        self.kept = (epoch, values, asdict(tally))
        if time.monotonic() - self.written_at >= self.seconds:
            self.write()

    def write(self) -> None:
        if self.kept is not None:
            self.store.save_checkpoint(*self.kept)
            self.kept, self.written_at = None, time.monotonic()
