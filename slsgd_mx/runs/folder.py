"""Run folders: what a run is, how far it got, what it measured; safe against kill -9.

    config.json     everything that determines the numbers
    manifest.json   what computed them: versions, CPU, threads, data digest, revision
    metrics.csv     one row per evaluation, flushed; the last columns are timings
    pushes.csv      one row per epoch: who pushed, and how much of each push the rule used
    checkpoint/     the two newest, epoch-<t>.<digest>.params
    model.params    the final model; model.left-out says that the run was shared without it
    DONE            the last row and digests of rows, pushes and model, when the run is finished
    DIVERGED        instead of DONE, if the model stopped being finite or a metric is NaN
    FAILED          instead of DONE, if no update was ever applied
    logs/           the output of each process, if several computed the run
    slots.*.tmp     pushes that exceed the limit of memory, where a file cannot do without a name

Every file except the two tables is written under a temporary name, synced and renamed.  On
resuming, rows newer than the checkpoint are removed and computed again; rows that no checkpoint
belongs to are kept aside.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import time
from pathlib import Path
from typing import IO, Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError, DivergedError, FailedError, InUseError, RunError
from slsgd_mx.rules.pipeline import find_rule
from slsgd_mx.runs.checkpoints import (
    delete_checkpoints,
    list_checkpoints,
    load_newest,
    save_checkpoint,
)
from slsgd_mx.runs.manifest import differences, read_sessions, write_sessions
from slsgd_mx.runs.metrics import Row, read_metrics, read_reason, why_nothing_changed
from slsgd_mx.runs.prefix import check_prefix
from slsgd_mx.runs.proof import (
    DATA,
    FILES,
    close,
    digest_of_lines,
    digest_of_text,
    is_lost,
    problems,
    read_closing,
)
from slsgd_mx.runs.pushes import FILE as PUSHES
from slsgd_mx.runs.pushes import Pushes, read_pushes, text_until, to_text
from slsgd_mx.runs.stored_config import check_folder, read_config
from slsgd_mx.system import files, slot_memory

KEPT_CHECKPOINTS = 2
LOOKING = 1.0  # seconds for which others may look at a lock
LEFTOVERS = (  # temporary names of ours that a crash may leave
    *(f"{name}.json.tmp" for name in ("config", "manifest")),
    *(f"{name}.tmp" for name in ("metrics.csv", PUSHES, "DONE", "DIVERGED", "FAILED")),
    *("model.params.part.tmp", "checkpoint/writing.tmp", "checkpoint/writing.tmp.part.tmp"),
)
PUSH_COLUMNS = ("accepted", "refused", "missing", "skipped", "refused_devices")  # since last row
COST_COLUMNS = ("training_seconds", "transfer_seconds", "aggregation_seconds", "bytes_sent")
TIME_COLUMNS = ("seconds", "units_per_second", *COST_COLUMNS)  # may differ between repetitions


class RunFolder:
    """One run folder, locked by one process at a time.

    Use it as a context manager: entering creates the folder, or checks that it belongs to the
    configuration, and takes its lock.  Leaving with an error of a plug-in removes a folder that
    was created on entering and has neither rows nor checkpoints; an interrupted run stays.
    """

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.path, self.config = Path(path), config
        self.columns = ("epoch", "alpha", *config.metrics, *PUSH_COLUMNS, *TIME_COLUMNS)
        _check_columns(self.columns, config)
        self._lock: Optional[IO[str]] = None
        self._new = False  # whether entering created the folder

    def __enter__(self) -> RunFolder:
        files.require_utf8(self.path)
        with files.disk_errors(self.path):
            check_folder(self.path, self.config)
            self._new = not self.path.exists()
            files.make_folder(self.path / "checkpoint")
            self._lock = files.open_lock(self.path / ".lock")
            _take_lock(self._lock, self.path)
            if not (self.path / "config.json").exists():
                files.write_atomically(self.path / "config.json", self.config.to_json().encode())
            slots = self.path.glob(slot_memory.LEFTOVERS)
            for path in (*(self.path / name for name in LEFTOVERS), *slots):
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._new and any(map(_is_users_error, exc)) and not self._has_begun():
            shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()

    def _has_begun(self) -> bool:
        return bool(self.rows() or list_checkpoints(self.path / "checkpoint"))

    def check_free(self) -> None:
        """Raise an InUseError if another process holds the folder."""
        path = self.path / ".lock"
        if path.exists():
            with files.disk_errors(self.path), files.open_lock(path) as lock:
                _take_lock(lock, self.path)

    def finished(self) -> bool:
        """Whether it is done; raises if the folder holds another run, or it diverged or failed."""
        with files.disk_errors(self.path):
            check_folder(self.path, self.config)
            if (self.path / "DIVERGED").exists():
                raise DivergedError(read_reason(self.path / "DIVERGED"))
            if (self.path / "FAILED").exists():
                raise FailedError(read_reason(self.path / "FAILED"))
            closing = read_closing(self.path)
            if closing is None:
                return False
            found = problems(self.path, closing)
            if not found and not _agree(self._rows_until(self.config.epochs)[-1], closing.last):
                raise RunError(self._damaged(self.config.epochs))
            if found:
                raise RunError(
                    f"{'; '.join(found)}. Restore it, or remove {self.path} to compute the run "
                    "again"
                )
            return True

    def complete(self) -> None:
        """Write what a crash at the very end, or a later loss, left out of a finished run."""
        if is_lost(self.path):
            with self, files.disk_errors(self.path):
                files.warn(f"{self.path / 'DONE'} was lost: it is restored from manifest.json")
                text = read_closing(self.path).to_text()
                files.write_atomically(self.path / "DONE", text.encode())
                delete_checkpoints(self.path / "checkpoint", kept=0)

    def rows(self) -> List[Row]:
        """The complete rows of metrics.csv."""
        return read_metrics(self.path)

    def rows_so_far(self) -> List[Row]:
        """The rows of a run that is not finished; a RunError if they are damaged."""
        rows = self.rows()
        if not self._are_complete(rows):
            raise RunError(self._damaged(0))
        return self._rows_until(int(rows[-1]["epoch"])) if rows else []

    def rows_until_divergence(self) -> List[Row]:
        """The rows of a run that diverged; there is at least one."""
        rows = self.rows()
        if not rows or not self._are_complete(rows):
            raise RunError(
                f"{self.path / 'metrics.csv'} is damaged: restore it, or remove {self.path} to "
                "compute the run again"
            )
        return rows

    def resume(self) -> Tuple[int, Optional[files.Values], Dict[str, Any]]:
        """Epoch, model and notes of the newest valid checkpoint; (0, None, {}) without one."""
        epoch, values, notes = load_newest(self.path / "checkpoint")
        if epoch > self.config.epochs:
            raise RunError(
                f"{self.path / 'checkpoint'} holds a model after epoch {epoch}, but the run ends "
                f"at T={self.config.epochs}: move it away"
            )
        known = notes.pop("digests", {})
        rows = self._rows_until(epoch)
        if known.get("rows") not in (None, self._digest_of_rows(len(rows))):
            raise RunError(self._damaged(epoch))
        pushes = self._pushes_until(epoch)
        if known.get("pushes") not in (None, digest_of_text(to_text(pushes))):
            if (self.path / PUSHES).exists():
                raise RunError(self._damaged(epoch, PUSHES))
            files.warn(
                f"{self.path / PUSHES} is missing: the run goes on without the record of who "
                f"pushed up to epoch {epoch}"
            )
        if not epoch:
            self._keep_aside()
        self._write_rows(rows)
        self._write_pushes(pushes)
        return epoch, values, notes

    def _digest_of_rows(self, count: int) -> str:
        """The digest of the first rows of metrics.csv, as checkpoints store it."""
        return digest_of_lines(self.path / "metrics.csv", 1 + count)

    def _pushes_until(self, epoch: int) -> List[Pushes]:
        return [row for row in read_pushes(self.path) if row.epoch <= epoch]

    def _keep_aside(self) -> None:
        """Rename tables that have rows, if there is no checkpoint that they could belong to."""
        for name in ("metrics.csv", PUSHES):
            path = self.path / name
            if path.is_file() and len(files.read_text(path).splitlines()) > 1:
                numbers = (path.with_name(f"{name}.before-{n}") for n in itertools.count(1))
                aside = next(other for other in numbers if not other.exists())
                path.rename(aside)
                files.warn(
                    f"{path} has rows, but no checkpoint does: they are kept in {aside.name}"
                )

    def adopt(self, prefix: Path) -> None:
        """Start from the end of another run that is equal up to there, unless already started.

        The other run's rows, model and sessions become the first part of this run; if it diverged,
        so does this one.
        """
        if list_checkpoints(self.path / "checkpoint"):
            return
        config = read_config(prefix)
        check_prefix(config, self.config)
        other = RunFolder(prefix, config)
        try:
            if not other.finished():
                raise RunError(f"{prefix} is not finished, but {self.path} continues it")
        except DivergedError:
            rows = other.rows_until_divergence()
            self._keep_aside()
            self._write_rows(rows)
            self._write_pushes(read_pushes(prefix))
            self.mark_diverged(int(rows[-1]["epoch"]))
        values = other.model()
        self._keep_aside()
        self._write_rows(other.rows())
        self._write_pushes(read_pushes(prefix))
        write_sessions(self.path, [{"prefix": prefix.name, **s} for s in other.sessions()])
        self.save_checkpoint(config.epochs, values, {})

    def model(self) -> files.Values:
        """The final model of a finished run, which ``finished`` has verified."""
        if not self.has_model():
            raise RunError(f"{self.path} was shared without its model: no run can start from it")
        return files.load_arrays(self.path / "model.params")

    def has_model(self) -> bool:
        """Whether a finished run has its model; one that was shared may lack it."""
        return (self.path / FILES["model"]).exists()

    def append(self, row: Dict[str, Any]) -> None:
        """Add a row to metrics.csv and flush it to disk."""
        line = files.to_csv([_cell(row.get(column, "")) for column in self.columns], [])
        with files.disk_errors(self.path), open(self.path / "metrics.csv", "a") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def append_pushes(self, row: Pushes) -> None:
        """Add the row of an epoch to pushes.csv, which is synced at the next checkpoint."""
        with files.disk_errors(self.path), open(self.path / PUSHES, "a") as file:
            file.write(files.to_csv(row.cells(), []))

    def save_checkpoint(self, epoch: int, values: files.Values, notes: Dict[str, Any]) -> None:
        """Save the model after ``epoch``; a crash in here leaves the older checkpoints."""
        folder = self.path / "checkpoint"
        with files.disk_errors(self.path):
            digests = {
                "rows": self._digest_of_rows(len(self.config.evaluations(epoch, most=epoch))),
                "pushes": digest_of_text(text_until(self.path, epoch)),
            }
            files.sync(self.path / PUSHES)
            save_checkpoint(folder, epoch, values, {**notes, "digests": digests})
            delete_checkpoints(folder, KEPT_CHECKPOINTS)

    def begin_session(self, session: Dict[str, Any]) -> None:
        """Record what computes from here on; a resumed run must continue on the same data."""
        before = self.sessions()
        if before and session["after_epoch"]:
            self.check_data(session["data_sha256"])
            differ = differences(before[-1], session)
            if differ:
                files.warn(
                    f"{self.path} continues with {', '.join(differ)}: its bytes may differ from an "
                    "uninterrupted run"
                )
        write_sessions(self.path, [*before, session])

    def sessions(self) -> List[Dict[str, Any]]:
        """What earlier sessions of this run computed with."""
        return read_sessions(self.path)

    def _data_of_sessions(self) -> Optional[str]:
        """The digest of the data of the last session, if it is known."""
        return next((s.get("data_sha256") for s in self.sessions()[-1:]), None)

    def check_data(self, data_sha256: str) -> None:
        """Raise a RunError if the run was computed on other data."""
        closing = read_closing(self.path)
        known = closing.digests.get(DATA) if closing else None
        known = known or self._data_of_sessions()
        if known not in (None, data_sha256):
            raise RunError(
                f"{self.path} was computed on other data (SHA-256 {str(known)[:12]} there, "
                f"{data_sha256[:12]} here): use the same --data-dir, or another folder with --out"
            )

    def mark_diverged(self, epoch: int) -> None:
        """Record that the model or a metric diverged, so that a rerun says so; raise that."""
        trims = find_rule(self.config.rule).uses_b
        remedy = (
            "Trim more (--b), lower --gamma or --alpha" if trims else "Lower --gamma or --alpha"
        )
        text = (
            f"the model stopped being finite or a metric became NaN in epoch {epoch}; the rows up "
            f"to there are in {self.path / 'metrics.csv'}. {remedy}"
        )
        with files.disk_errors(self.path):
            files.write_atomically(self.path / "DIVERGED", text.encode())
        raise DivergedError(text)

    def finish(self, values: files.Values) -> None:
        """Write the final model and mark the run as done; its checkpoints are deleted.

        If no epoch changed the model, mark the run as failed and raise that.
        """
        why = why_nothing_changed(self.config, self.rows())
        if why:
            text = f"{why}. The rows are in {self.path / 'metrics.csv'}"
            with files.disk_errors(self.path):
                files.write_atomically(self.path / "FAILED", text.encode())
            raise FailedError(text)
        with files.disk_errors(self.path):
            files.sync(self.path / PUSHES)
            files.save_arrays(self.path / "model.params", values)
            closing = close(self.path, self.rows()[-1], self._data_of_sessions())
            write_sessions(self.path, self.sessions(), closing)
            files.write_atomically(self.path / "DONE", closing.to_text().encode())
            delete_checkpoints(self.path / "checkpoint", kept=0)

    def _rows_until(self, epoch: int) -> List[Row]:
        """The rows up to a checkpoint; a RunError if one is missing or damaged."""
        rows = self.rows()
        due = self.config.evaluations(epoch, len(rows) + 1)  # one more than there can be
        rows = rows[: len(due)]
        if not self._are_complete(rows) or [r["epoch"] for r in rows] != [str(t) for t in due]:
            raise RunError(self._damaged(epoch))
        return rows

    def _are_complete(self, rows: List[Row]) -> bool:
        """Whether every row has an epoch and all metrics; other versions may have other columns."""
        needed = {"epoch", *self.config.metrics}
        return all(needed <= set(row) and None not in [*row, *row.values()] for row in rows)

    def _write_rows(self, rows: List[Row]) -> None:
        """Replace metrics.csv, keeping columns that this version does not know."""
        unknown = [name for name in (rows[0] if rows else ()) if name not in self.columns]
        self.columns = (*self.columns, *unknown)
        cells = [[row.get(column, "") for column in self.columns] for row in rows]
        text = files.to_csv(self.columns, cells)
        with files.disk_errors(self.path):
            files.write_atomically(self.path / "metrics.csv", text.encode())

    def _write_pushes(self, rows: List[Pushes]) -> None:
        with files.disk_errors(self.path):
            files.write_atomically(self.path / PUSHES, to_text(rows).encode())

    def _damaged(self, epoch: int, name: str = "metrics.csv") -> str:
        return (
            f"{self.path / name} is damaged: its rows are not those of the run up to epoch "
            f"{epoch}, which the saved model belongs to. Restore the file, or remove {self.path} "
            "to start the run again"
        )


def _is_users_error(error: object) -> bool:
    """Whether this is neither an interruption nor an error of the disk or of the run itself."""
    return isinstance(error, Exception) and not isinstance(error, (RunError, OSError))


def _check_columns(columns: Sequence[str], config: RunConfig) -> None:
    """Raise a ConfigError if a metric of a workload has the name of another column."""
    twice = [name for name in config.metrics if columns.count(name) > 1]
    if twice:
        raise ConfigError(
            f"task {config.sizes.task!r}: the metric {twice[0]!r} has the name of another column "
            "of metrics.csv: choose another name"
        )


def _take_lock(lock: IO[str], path: Path) -> None:
    """Lock an open file; if another process holds it, close it and raise an InUseError.

    Whoever looks whether a run is running has the lock for a moment.
    """
    give_up = time.monotonic() + LOOKING
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up:
                lock.close()
                raise InUseError(f"{path} is in use by another process") from None
            time.sleep(0.01)


def _agree(row: Row, stored: Dict[str, str]) -> bool:
    """Whether a row equals a stored one, in the columns that both of them have."""
    return all(row.get(name, value) == value for name, value in stored.items())


def _cell(value: Any) -> str:
    return repr(float(value)) if isinstance(value, (float, np.floating)) else str(value)
