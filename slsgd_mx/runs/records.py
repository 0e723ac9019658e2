"""Read run folders back: numbers as NumPy arrays, the rest as plain dictionaries; no MXNet."""

from __future__ import annotations

import fcntl
import functools
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple, Union

import numpy as np

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError, RunError
from slsgd_mx.frozen import FROZEN
from slsgd_mx.runs.checkpoints import latest_epoch
from slsgd_mx.runs.folder import PUSH_COLUMNS, TIME_COLUMNS
from slsgd_mx.runs.manifest import read_manifest
from slsgd_mx.runs.metrics import Row, read_metrics, read_reason
from slsgd_mx.runs.proof import problems, read_closing
from slsgd_mx.runs.stored_config import MOST_CONFIG
from slsgd_mx.system.files import open_lock, parse_json, read_text, warn

MOST_FOLDERS = 100
MOST_CELLS = 10**7  # of a table: half a million evaluations, about a gigabyte of memory
NO_METRIC = {"epoch", "alpha", *PUSH_COLUMNS, *TIME_COLUMNS}


@dataclass(frozen=True, eq=False)
class Run:
    """What a run folder holds.

    ``run["test_accuracy"]`` is a column of metrics.csv, with one number for each evaluation.
    """

    path: Path
    config: Dict[str, Any] = field(repr=False)  # as in config.json, with today's names
    manifest: Dict[str, Any] = field(repr=False)  # {"sessions": [...]}: what computed the run
    columns: Dict[str, np.ndarray] = field(repr=False)  # of metrics.csv, by name
    status: str  # done, running, interrupted, diverged, failed or damaged
    epoch: int  # the last one that was computed and saved
    why: str = ""  # the reason, if the run diverged, failed or is damaged

    def __getitem__(self, column: str) -> np.ndarray:
        if column not in self.columns:
            known = ", ".join(self.columns) or "none yet"
            raise KeyError(f"{self.path} has no column {column!r}; its columns: {known}")
        return self.columns[column]

    @functools.cached_property
    def symbols(self) -> Dict[str, Any]:
        """Every value of the configuration by name, those of the sizes included."""
        sizes = [entry for entry in self.config.values() if isinstance(entry, dict)]
        inside = {name: value for entry in sizes for name, value in entry.items()}
        return {**inside, **{k: v for k, v in self.config.items() if not isinstance(v, dict)}}

    @property
    def metrics(self) -> Tuple[str, ...]:
        """The columns that measure the model, which are numbers."""
        others = (name for name in self.columns if name not in NO_METRIC)
        return tuple(name for name in others if self.columns[name].dtype.kind in "if")

    @property
    def last(self) -> Dict[str, float]:
        """The metrics of the last evaluation; empty before the first."""
        if not len(self.columns.get("epoch", ())):
            return {}
        return {name: self.columns[name][-1].item() for name in self.metrics}


def planned_run(config: RunConfig, folder: Path, status: str = "missing", epoch: int = 0) -> Run:
    """A run of which only the configuration is known: it is planned, or its folder is not read."""
    return Run(folder, config.to_dict(), {"sessions": []}, {}, status, epoch)


def load_run(folder: Union[str, Path]) -> Run:
    """Read one run folder, of this or an earlier version, finished or not.

    MXNet is not imported, and nothing in the folder is changed.  A finished run whose configuration
    or tables were changed has the status "damaged" and no columns; its model is not checked (see
    ``verify_run``).

    Parameters
    ----------
    folder : path
        A run folder: it holds ``config.json``.

    Returns
    -------
    Run
        ``run["test_accuracy"]`` is a column of ``metrics.csv``, ``run.config`` the configuration.

    Raises
    ------
    RunError
        If the folder holds no run, or its configuration cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from slsgd_mx import load_run, preset, train
    >>> config = preset("cifar", "smoke", epochs=1, k=2, train_images=100, width=2, batch_size=5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = load_run(train(config, folder + "/run").folder)
    >>> run.status, run["epoch"], run.config["k"], run.config["sizes"]["width"]
    ('done', array([1]), 2, 2)
    """
    folder = Path(folder)
    config, metrics = _read_configuration(folder)
    try:
        columns = to_columns(read_metrics(folder, MOST_CELLS))
        _check_columns(columns, metrics, folder)
        manifest = read_manifest(folder)
    except RunError as error:
        return Run(folder, config, {"sessions": []}, {}, "damaged", 0, str(error))
    changed = _changes(folder)
    if changed:
        return Run(folder, config, manifest, {}, "damaged", 0, changed)
    saved = latest_epoch(folder / "checkpoint")
    epochs = columns.get("epoch", np.zeros(0, int))
    rows = int(epochs[-1]) if epochs.dtype.kind == "i" and len(epochs) else 0
    status, why = _find_status(folder)
    if status == "done" and rows < config.get("epochs", 0):
        status, why = "damaged", f"{folder / 'metrics.csv'} ends before the last epoch"
    return Run(folder, config, manifest, columns, status, max(rows, saved), why)


def _check_columns(columns: Dict[str, np.ndarray], metrics: Sequence[str], folder: Path) -> None:
    """Raise a RunError if epochs are not whole numbers, or a metric holds something else."""
    kinds = {name: "if" for name in metrics if name in columns}
    for name, legal in {**kinds, "epoch": "i"}.items() if columns else ():
        values = columns.get(name, np.array([""]))
        if values.dtype.kind not in legal:
            numbers = "a number" if "f" in legal else "a whole number"
            raise RunError(
                f"{folder / 'metrics.csv'} is damaged: in the column {name!r} not every cell is "
                f"{numbers}"
            )


def load_runs(folder: Union[str, Path] = "runs") -> List[Run]:
    """Read every run folder below a folder, or the folder itself if it is one, by name.

    A link to a run folder counts; links to other folders are not followed.  A folder whose
    configuration cannot be read is left out with a warning.

    Parameters
    ----------
    folder : path
        Searched with everything below it.

    Returns
    -------
    list of Run

    Raises
    ------
    RunError
        If the folder does not exist.

    Examples
    --------
    >>> import tempfile
    >>> from slsgd_mx import load_runs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_runs(folder)
    []
    """
    runs = []
    for path in find_folders(Path(folder)):
        try:
            runs.append(load_run(path))
        except (RunError, OSError) as error:
            warn(str(error))
    return runs


def find_folders(home: Path) -> List[Path]:
    """The run folders below a folder, and links to others; a RunError if it does not exist.

    Folders inside more than ``MOST_FOLDERS`` others are not searched.
    """
    if not home.is_dir():
        raise RunError(f"{home} is not a folder: name one that holds run folders with --runs")

    found, links = {}, []
    depth = len(home.parts) + MOST_FOLDERS
    for path, folders, files in os.walk(str(home)):
        folders[:] = [name for name in folders if name[0] != "."]  # an unpacking was killed
        if "config.json" in files or {"DONE", "metrics.csv"} <= {*files}:
            folders.clear()  # a run folder holds no other
            found[os.path.realpath(path)] = Path(path)
        links += [Path(path, name) for name in folders if os.path.islink(f"{path}/{name}")]
        if len(Path(path).parts) >= depth:
            folders.clear()
    for link in links:  # at last: a run that is here without one is not found twice
        if os.path.isfile(link / "config.json"):
            found.setdefault(os.path.realpath(link), link)
    return sorted(found.values())


def to_columns(rows: List[Row]) -> Dict[str, np.ndarray]:
    """Rows of text as one array for each column: int64 or float64 where possible, else text.

    >>> to_columns([{"epoch": "1", "loss": "0.5"}, {"epoch": "2", "loss": ""}])
    {'epoch': array([1, 2]), 'loss': array([0.5, nan])}
    """
    names = [name for name in (rows[0] if rows else ()) if name is not None]
    cells = {name: [row.get(name) or "" for row in rows] for name in names}
    return {name: _to_array(values) for name, values in cells.items()}


def _to_array(cells: List[str]) -> np.ndarray:
    if not any(cells):
        return np.array(cells)
    for kind in (int, float):
        try:
            return np.array([kind(c) if kind is int else float(c or "nan") for c in cells], kind)
        except (ValueError, OverflowError):
            continue
    return np.array(cells)


def _read_configuration(folder: Path) -> Tuple[Dict[str, Any], Sequence[str]]:
    """config.json with today's names, and the metrics of the run.

    If something in it is not registered here, it is left as it is, and the metrics are not known.
    """
    file = folder / "config.json"
    if not file.exists():
        raise RunError(f"{folder} holds no run: there is no config.json in it")
    try:
        config = RunConfig.from_json(read_text(file, MOST_CONFIG))
        plain = json.loads(json.dumps(config.to_dict()))  # tuples become lists, as in the file
        return plain, config.metrics
    except ConfigError:
        pass
    try:
        values = parse_json(read_text(file, MOST_CONFIG))
    except ValueError as error:
        raise RunError(f"{file} is damaged: {error}") from error
    if not isinstance(values, dict):
        raise RunError(f"{file} is not the configuration of a run")
    for name, kind, legal in (("task", str, "a name"), ("epochs", int, "a whole number")):
        value = values.get(name)
        if type(value) is not kind:
            wrong = f"{name}={value!r:.40} is not {legal}"
            raise RunError(f"{file} is not the configuration of a run: {wrong}")
    for name, value in values.items():
        if not _is_legal(name, value):
            wrong = f"{name}={value!r:.40} has a value of another kind"
            raise RunError(f"{file} is not the configuration of a run: {wrong}")
    return values, ()


def _is_legal(name: str, value: Any) -> bool:
    """Whether a value that this version cannot check is of the kind that others are."""
    if isinstance(value, dict):
        return name not in FROZEN and all(_is_plain(each) for each in value.values())
    kinds = {bool: (bool,), int: (int, float), float: (int, float), str: (str,)}
    usual = kinds.get(type(FROZEN.get(name)))
    if name == "attack":
        usual = (str,)
    return value is None or (isinstance(value, usual) if usual else _is_plain(value))


def _is_plain(value: Any) -> bool:
    """Whether a value is a number, a text, or a list of such."""
    if isinstance(value, list):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, (bool, int, float, str))


def _changes(folder: Path) -> str:
    """What was changed in a finished run since then, its model aside; "" if nothing was."""
    try:
        closing = read_closing(folder)
    except RunError as error:
        return str(error)
    return "; ".join(problems(folder, closing, ("config", "rows", "pushes"))) if closing else ""


def _find_status(folder: Path) -> Tuple[str, str]:
    """The status of a run and, if it diverged or failed, why."""
    for name in ("DIVERGED", "FAILED"):
        if (folder / name).exists():
            return name.lower(), read_reason(folder / name).strip()
    if (folder / "DONE").exists() or read_closing(folder):
        return "done", ""
    return ("running" if _is_locked(folder / ".lock") else "interrupted"), ""


def _is_locked(path: Path) -> bool:
    """Whether another process computes the run: it holds the folder's lock."""
    try:
        with open_lock(path, make=False) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except (OSError, RunError):  # there is no lock, or it cannot be read
        return False
