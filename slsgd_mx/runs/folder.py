"""Run folders: what a run is, how far it got, what it measured; safe against kill -9.

    config.json     what determines the numbers
    manifest.json   with what they were made: versions, CPU, threads, data hash, revision
    metrics.csv     a row an evaluation, flushed; the last columns say what it took
    checkpoint/     the two newest, epoch-<t>.<digest>.params
    model.params    the final model
    DONE            the last row and the model's digest, once the run is finished
    DIVERGED        instead of it, if the model stopped being finite
    logs/           what each process said, if several computed the run

Everything but the rows of metrics.csv is written beside and renamed.  Rows newer than the
checkpoint a run resumes from are cut off and computed again.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import IO, Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError, DivergedError, InUseError, RunError
from slsgd_mx.runs.checkpoints import list_checkpoints, load_newest, save_checkpoint
from slsgd_mx.runs.metrics import Row, read_metrics
from slsgd_mx.runs.prefix import check_prefix
from slsgd_mx.system.files import (
    Values,
    digest,
    disk_errors,
    load_arrays,
    read_text,
    save_arrays,
    warn,
    write_atomically,
)

KEPT_CHECKPOINTS = 2
PUSH_COLUMNS = ("accepted", "refused", "missing", "skipped", "refused_devices")  # since last row
COST_COLUMNS = ("training_seconds", "transfer_seconds", "aggregation_seconds", "bytes_sent")
TIME_COLUMNS = ("seconds", "units_per_second", *COST_COLUMNS)  # all that may differ in a repetition


class RunStore:
    """One run folder, held by one process at a time.

    Use it as a context manager: entering creates the folder or checks that it belongs to the
    configuration, and takes its lock.
    """

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self.folder, self.config = Path(folder), config
        self.columns = ("epoch", "alpha", *config.sizes.metrics, *PUSH_COLUMNS, *TIME_COLUMNS)
        self.old_columns = self.columns[: -len(COST_COLUMNS)]  # of folders made before there were
        self._lock: Optional[IO[str]] = None

    def __enter__(self) -> RunStore:
        with disk_errors(self.folder):
            check_folder(self.folder, self.config)
            (self.folder / "checkpoint").mkdir(parents=True, exist_ok=True)
            self._lock = open(self.folder / ".lock", "w")
            _take(self._lock, self.folder)
            if not (self.folder / "config.json").exists():
                write_atomically(self.folder / "config.json", self.config.to_json().encode())
            for leftover in self.folder.rglob("*.tmp"):
                leftover.unlink()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def check_free(self) -> None:
        """Raise an InUseError if another process holds the folder."""
        path = self.folder / ".lock"
        if path.exists():
            with disk_errors(self.folder), open(path, "r+") as lock:
                _take(lock, self.folder)

    def finished(self) -> bool:
        """Whether the run is done; an error if the folder is another's, or the run diverged."""
        with disk_errors(self.folder):
            check_folder(self.folder, self.config)
            if (self.folder / "DIVERGED").exists():
                raise DivergedError(read_text(self.folder / "DIVERGED"))
            if not (self.folder / "DONE").exists():
                return False
            rows = self._rows_until(self.config.epochs)
            if json.dumps(rows[-1]) != _lines(self.folder / "DONE")[0]:
                raise RunError(self._damaged(self.config.epochs))
            return True

    def rows(self) -> List[Row]:
        """The complete rows of metrics.csv."""
        return read_metrics(self.folder)

    def rows_until_divergence(self) -> List[Row]:
        """The rows of a run that diverged, of which there is one at least."""
        rows = self.rows()
        if not rows or not self._are_whole(rows):
            raise RunError(
                f"{self.folder / 'metrics.csv'} is damaged: put it back, or remove "
                f"{self.folder} to compute the run again"
            )
        return rows

    def resume(self) -> Tuple[int, Optional[Values], Dict[str, Any]]:
        """Epoch, model and pending notes of the newest sound checkpoint; (0, None, {}) if none."""
        epoch, values, notes = load_newest(self.folder / "checkpoint")
        rows = self._rows_until(epoch)
        with disk_errors(self.folder):
            write_atomically(self.folder / "metrics.csv", _to_csv(self.columns, rows))
        return epoch, values, notes

    def adopt(self, prefix: Path) -> None:
        """Begin after the last epoch of another run that is equal up to there, unless begun.

        Its rows, its model and its sessions become the beginning of this run; if it diverged, so
        does this one.
        """
        if list_checkpoints(self.folder / "checkpoint"):
            return
        config = read_config(prefix)
        check_prefix(config, self.config)
        theirs = RunStore(prefix, config)
        try:
            if not theirs.finished():
                raise RunError(f"{prefix} is not finished, and {self.folder} begins after it")
        except DivergedError:
            rows = theirs.rows_until_divergence()
            with disk_errors(self.folder):
                write_atomically(self.folder / "metrics.csv", _to_csv(self.columns, rows))
            self.mark_diverged(int(rows[-1]["epoch"]))
        values = theirs.model()
        sessions = [{"prefix": prefix.name, **session} for session in theirs.sessions()]
        with disk_errors(self.folder):
            write_atomically(self.folder / "metrics.csv", _to_csv(self.columns, theirs.rows()))
            text = json.dumps({"sessions": sessions}, indent=1)
            write_atomically(self.folder / "manifest.json", text.encode())
        self.save_checkpoint(config.epochs, values, {})

    def model(self) -> Values:
        """The final model of a finished run."""
        path = self.folder / "model.params"
        known = [line[6:] for line in _lines(self.folder / "DONE") if line.startswith("model ")]
        if not path.exists() or known not in ([], [digest(path)]):
            raise RunError(f"{path} is damaged: remove {self.folder} to compute the run again")
        return load_arrays(path)

    def _rows_until(self, epoch: int) -> List[Row]:
        """The rows up to a checkpoint, which must be those that were written before it."""
        config = self.config
        due = [t for t in range(1, epoch + 1) if config.is_evaluated(t)]
        rows = self.rows()[: len(due)]
        if not self._are_whole(rows) or [row["epoch"] for row in rows] != [str(t) for t in due]:
            raise RunError(self._damaged(epoch))
        return rows

    def _are_whole(self, rows: List[Row]) -> bool:
        legal = (self.columns, self.old_columns)
        return all(tuple(row) in legal and None not in row.values() for row in rows)

    def _damaged(self, epoch: int) -> str:
        return (
            f"{self.folder / 'metrics.csv'} is damaged: its rows are not those of the evaluations "
            f"up to epoch {epoch}, where the model is. Put the file back, or remove {self.folder} "
            "to start the run again"
        )

    def append(self, row: Dict[str, Any]) -> None:
        """Add a row to metrics.csv and make sure that it is on disk."""
        line = ",".join(_cell(row[column]) for column in self.columns) + "\n"
        with disk_errors(self.folder), open(self.folder / "metrics.csv", "a") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def save_checkpoint(self, epoch: int, values: Values, notes: Dict[str, Any]) -> None:
        """Keep the model after ``epoch``; a crash in here leaves the older checkpoints."""
        folder = self.folder / "checkpoint"
        with disk_errors(self.folder):
            save_checkpoint(folder, epoch, values, notes)
            for old in list_checkpoints(folder)[KEPT_CHECKPOINTS:]:
                old.unlink()

    def begin_session(self, session: Dict[str, Any]) -> None:
        """Note with what a session computes; it must go on with the data of those before it."""
        before = self.sessions()
        if before and session["after_epoch"]:
            _compare_sessions(self.folder, before[-1], session)
        text = json.dumps({"sessions": [*before, session]}, indent=1)
        with disk_errors(self.folder):
            write_atomically(self.folder / "manifest.json", text.encode())

    def sessions(self) -> List[Dict[str, Any]]:
        """With what earlier sessions of this run computed."""
        path = self.folder / "manifest.json"
        if not path.exists():
            return []
        try:
            sessions = json.loads(read_text(path))["sessions"]
            return [dict(session) for session in sessions]
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} is damaged: put it back, or remove it to go on") from error

    def mark_diverged(self, epoch: int) -> None:
        """Note that the model stopped being finite, so that a rerun says so at once; raise it."""
        text = (
            f"the model or its loss stopped being finite in epoch {epoch}; the rows up to there "
            f"are in {self.folder / 'metrics.csv'}. Trim more (--b), lower --gamma or --alpha"
        )
        with disk_errors(self.folder):
            write_atomically(self.folder / "DIVERGED", text.encode())
        raise DivergedError(text)

    def finish(self, values: Values) -> None:
        """Write the final model and mark the run as done; its checkpoints are needed no more."""
        with disk_errors(self.folder):
            model = self.folder / "model.params"
            save_arrays(model, values)
            lines = [json.dumps(self.rows()[-1]), f"model {digest(model)}"]
            write_atomically(self.folder / "DONE", ("\n".join(lines) + "\n").encode())
            for old in list_checkpoints(self.folder / "checkpoint"):
                old.unlink()


def _take(lock: IO[str], folder: Path) -> None:
    """Lock a file that is open, or close it and say who is in the way."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise InUseError(f"{folder} is in use by another process") from None


def read_config(folder: Path) -> RunConfig:
    """The configuration a run folder holds."""
    path = folder / "config.json"
    if not path.exists():
        raise RunError(f"{folder} holds no run")
    try:
        return RunConfig.from_json(read_text(path))
    except ConfigError as error:
        raise RunError(f"{path} cannot be read ({error})") from error


def _lines(path: Path) -> List[str]:
    return read_text(path).splitlines() or [""]


def check_folder(folder: Path, config: RunConfig) -> None:
    """Raise a RunError if the folder holds another run, or something else altogether."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file: choose another folder with --out")
    path = folder / "config.json"
    if not path.exists():
        ours = {".lock", "checkpoint", "logs", "config.json.tmp"}  # killed while it was being made
        if folder.is_dir() and {p.name for p in folder.iterdir()} - ours:
            raise RunError(f"{folder} is not empty and not a run: choose another with --out")
        return
    text = read_text(path)
    if text == config.to_json():
        return
    try:
        theirs, ours = _flat(RunConfig.from_json(text)), _flat(config)
    except ConfigError as error:
        raise RunError(f"{path} cannot be read ({error}): choose another folder") from error
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    differ = [f"{name}={theirs.get(name)} there, {ours.get(name)} here" for name in names]
    raise RunError(
        f"{folder} holds another run ({'; '.join(differ)}): choose another folder with --out"
    )


def _flat(config: RunConfig) -> Dict[str, Any]:
    values = config.to_dict()
    return {**values.pop("task"), **values}


def _compare_sessions(folder: Path, before: Dict[str, Any], now: Dict[str, Any]) -> None:
    """Refuse to go on with other data; say if the bits may differ for another reason."""
    if before.get("data_sha256") != now["data_sha256"]:
        raise RunError(
            f"{folder} was computed on other data (SHA-256 {before.get('data_sha256')} there, "
            f"{now['data_sha256']} here): give the same --data-dir, or another --out"
        )
    names = ("threads", "cpu", "mxnet", "numpy", "slsgd_mx")
    differ = [f"{x} {before.get(x)} -> {now[x]}" for x in names if before.get(x) != now[x]]
    if differ:
        warn(
            f"{folder} goes on with {', '.join(differ)}: its bytes may differ from an unbroken run"
        )


def _cell(value: Any) -> str:
    text = repr(float(value)) if isinstance(value, (float, np.floating)) else str(value)
    if any(mark in text for mark in ',"\n'):
        raise AssertionError(f"a cell of metrics.csv may not hold {text!r}")
    return text


def _to_csv(columns: Sequence[str], rows: Sequence[Row]) -> bytes:
    lines = [",".join(columns)] + [",".join(row.get(c, "") for c in columns) for row in rows]
    return ("\n".join(lines) + "\n").encode()
