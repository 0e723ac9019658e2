"""From a configuration to a finished run folder: epochs, evaluations, checkpoints, resuming."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from slsgd_mx.config import RunConfig
from slsgd_mx.core.algorithm import EpochReport, initialize, pull, run_epoch
from slsgd_mx.core.model_server import ModelServer
from slsgd_mx.core.server import Server, settings_of
from slsgd_mx.core.task import Task
from slsgd_mx.errors import ConfigError, RunError
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.manifest import describe
from slsgd_mx.runs.metrics import Row
from slsgd_mx.runs.pushes import Pushes
from slsgd_mx.runs.status import is_finished
from slsgd_mx.system import signals
from slsgd_mx.system.files import Values
from slsgd_mx.system.precision import use_precision
from slsgd_mx.tasks.build import build_task, complete


@dataclass(frozen=True)
class Progress:
    """Passed to a listener after every epoch, and once before the first."""

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
    resumed_from: int = 0  # the epoch this call started after; T if the run was already done
    diverged: str = ""  # why the run ended early, if it did


Listener = Callable[[Progress], None]


def train(
    config: RunConfig,
    out: Union[str, Path],
    data_dir: Optional[Union[str, Path]] = None,
    listener: Optional[Listener] = None,
    checkpoint_seconds: float = 30.0,
    prefix: Optional[Union[str, Path]] = None,
    task: Any = None,
) -> RunResult:
    """Run Algorithm 1 to the end, or from where an earlier call stopped.

    Parameters
    ----------
    config : RunConfig
        What to compute; ``preset`` makes one.
    out : path of the run folder
        A folder with the same configuration is resumed, or returned if it is done.
    data_dir : path, optional
        Where the real data are; by default where ``slsgd-mx data fetch`` puts them.
    listener : callable, optional
        Called with a ``Progress`` after every epoch.
    checkpoint_seconds : float
        Minimum time between two checkpoints.
    prefix : path, optional
        The folder of a finished run that equals this one up to its last epoch; this run continues
        from there (see ``slsgd_mx.runs.prefix``).
    task : slsgd_mx.ArraysTask, optional
        A network and data that the configuration only describes (``config.sizes`` is
        ``task.sizes``).  By default the task that ``config.sizes`` names.

    Returns
    -------
    RunResult
        The run folder, and the rows of its ``metrics.csv``.

    Raises
    ------
    RunError
        If the folder belongs to another run or was computed on other data, a checkpoint is
        corrupt, or the disk is full.
    DivergedError
        If the global model stops being finite, or a metric is NaN; the rows up to there are kept.
    FailedError
        If no epoch changed the model, because too few pushes were finite or arrived; the rows are
        kept.

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
            f"deadline={config.deadline:g} applies to separate processes only: use slsgd-mx launch"
        )
    run_folder = RunFolder(Path(out), config)
    data_dir = None if data_dir is None else Path(data_dir)
    if is_finished(run_folder, data_dir):
        run_folder.complete()
        return RunResult(run_folder.path, run_folder.rows(), resumed_from=config.epochs)
    run_folder.check_free()  # before loading the data
    config.check_sources()
    use_precision(config.precision)
    built = build_task(config, data_dir) if task is None else complete(task.build(config), config)
    with run_folder:
        if run_folder.finished():  # by another process, while the data were loading
            return RunResult(run_folder.path, run_folder.rows(), resumed_from=config.epochs)
        if prefix is not None:
            run_folder.adopt(Path(prefix))
        server = ModelServer(*settings_of(config), slot_folder=run_folder.path)
        return run(config, built, server, run_folder, listener, checkpoint_seconds)


def run(
    config: RunConfig,
    task: Task,
    server: Server,
    run_folder: RunFolder,
    listener: Optional[Listener] = None,
    checkpoint_seconds: float = 30.0,
    engine: Optional[Dict[str, Any]] = None,
) -> RunResult:
    """Compute the epochs of a run from its newest checkpoint to the end, on any server.

    The caller holds ``run_folder``'s lock; ``engine`` describes the server in the manifest.
    """
    start, tally = _start(config, task, server, run_folder, engine or {})
    notify = listener or (lambda progress: None)
    notify(Progress(start, config))
    saver = _Checkpointer(run_folder, checkpoint_seconds)
    try:
        for t in range(start + 1, config.epochs + 1):
            began = time.perf_counter()
            report = run_epoch(t, config, task, server, server.begin(t))
            seconds = time.perf_counter() - began
            tally.add(t, report, seconds)
            run_folder.append_pushes(_pushes(t, report))
            diverged, metrics = not server.is_finite(), None
            if config.is_evaluated(t) or diverged:
                pull(task, server)
                metrics = server.evaluate(task) if config.is_evaluated(t) else task.evaluate()
                task.check_metrics(metrics)
                diverged = diverged or any(math.isnan(value) for value in metrics.values())
                first = {"epoch": t, "alpha": config.alpha_at(t)}
                run_folder.append({**first, **metrics, **tally.cells()})
                tally = _Tally()
            if diverged:
                run_folder.mark_diverged(t)
            saver.keep(t, server.values(), tally)
            notify(Progress(t, config, seconds, report.units, metrics))
            signals.check()  # for an interrupt that arrived while saving
        run_folder.finish(server.values())
    except BaseException:  # including Ctrl-C and a full disk: save what was computed
        saver.write()
        raise
    return RunResult(run_folder.path, run_folder.rows(), resumed_from=start)


def _start(
    config: RunConfig, task: Task, server: Server, run_folder: RunFolder, engine: Dict[str, Any]
) -> Tuple[int, _Tally]:
    """Give the server x_0, or the model of the last checkpoint; return that model's epoch."""
    epoch, values, notes = run_folder.resume()
    used = [dict(name=name, sha256=digest) for name, digest in config.sources]
    plugins = {"plugins": used} if used else {}
    session = {**describe(epoch, task.data_digest), "precision": config.precision}
    run_folder.begin_session({**session, **plugins, **engine})
    if values is None:
        initialize(config, task, server)
    else:
        _check_model(values, task, run_folder)
        for key in task.values:
            server.init(key, values[key], task.moving_average[key])
    server.start(epoch)
    return epoch, _Tally.from_notes(notes, run_folder.path / "checkpoint")


def _check_model(values: Values, task: Task, run_folder: RunFolder) -> None:
    """Raise a RunError if a checkpoint holds other parameters than the task."""
    expected = {key: tuple(value.shape) for key, value in task.values.items()}
    if {key: value.shape for key, value in values.items()} != expected:
        raise RunError(
            f"{run_folder.path / 'checkpoint'} holds a model with other parameters than this run: "
            "move it away to start again from epoch 1"
        )


def _pushes(t: int, report: EpochReport) -> Pushes:
    """What an epoch leaves in pushes.csv."""
    devices, poisoned = report.selected.tolist(), report.poisoned.tolist()
    return Pushes(t, tuple(devices), tuple(poisoned), report.update.shares)


@dataclass
class _Tally:
    """Counts of accepted and refused pushes since the last row, and the time they took."""

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

    @classmethod
    def from_notes(cls, notes: Dict[str, Any], folder: Path) -> _Tally:
        """The counts in the notes of a checkpoint; a RunError if they are something else."""
        kinds = {each.name: (int, float) for each in fields(cls)}
        kinds["refused_devices"] = (list,)
        wrong = [n for n, value in notes.items() if not isinstance(value, kinds.get(n, ()))]
        if wrong or not all(isinstance(name, str) for name in notes.get("refused_devices", [])):
            raise RunError(
                f"{folder} holds a checkpoint whose notes this version does not understand "
                f"({', '.join(wrong) or 'refused_devices'}): move it away to start again"
            )
        return cls(**notes)

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
    """Keeps the model of the last complete epoch; writes it when enough time has passed."""

    def __init__(self, run_folder: RunFolder, seconds: float) -> None:
        self.run_folder, self.seconds = run_folder, seconds
        self.written_at = time.monotonic()
        self.kept: Optional[Tuple[int, Values, Dict[str, Any]]] = None

    def keep(self, epoch: int, values: Values, tally: _Tally) -> None:
        self.kept = (epoch, values, asdict(tally))
        if time.monotonic() - self.written_at >= self.seconds:
            self.write()

    def write(self) -> None:
        with signals.held():  # a save that is interrupted would be made again at once
            if self.kept is not None:
                self.run_folder.save_checkpoint(*self.kept)
                self.kept, self.written_at = None, time.monotonic()
