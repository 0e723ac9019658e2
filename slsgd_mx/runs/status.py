"""How far stored runs got, and whether on the requested data; no MXNet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Sequence

from slsgd_mx.config import RunConfig
from slsgd_mx.data.digests import remembered_digest
from slsgd_mx.data.registry import DATASETS
from slsgd_mx.errors import DataError, DivergedError, FailedError, RunError
from slsgd_mx.runs.checkpoints import newest_epoch
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.metrics import Row

ENDED = ("done", "diverged")  # states of runs whose rows are final


@dataclass(frozen=True)
class Outcome:
    """How far a run got: "done", "diverged", "failed", "begun", "missing" or "damaged"."""

    state: str
    epoch: int = 0  # the last one whose model is saved
    rows: Sequence[Row] = ()  # of a run that is done or diverged; see also ``read_so_far``
    why: str = ""  # the reason, if it diverged, failed or is damaged


def read_outcome(folder: Path, config: RunConfig) -> Outcome:
    """Find out how far a run got, without changing anything."""
    run_folder = RunFolder(folder, config)
    try:
        try:
            if run_folder.finished():
                return Outcome("done", config.epochs, run_folder.rows())
        except DivergedError as error:
            rows = run_folder.rows_until_divergence()
            return Outcome("diverged", int(rows[-1]["epoch"]), rows, str(error))
        except FailedError as error:
            return Outcome("failed", why=str(error))
        epoch = newest_epoch(folder / "checkpoint")
        return Outcome("begun" if epoch else "missing", epoch)
    except (RunError, ValueError) as error:
        return Outcome("damaged", why=str(error))


def read_so_far(folder: Path, config: RunConfig) -> Sequence[Row]:
    """The rows of a run that is not finished; none if it has not begun or they are damaged."""
    try:
        return RunFolder(folder, config).rows_so_far()
    except (RunError, ValueError):
        return ()


def check_data(run_folder: RunFolder, data_dir: Optional[Path]) -> None:
    """Raise a RunError if a run was computed on other data than requested.

    Nothing can be compared where the data are generated or their digest is a part of the sizes, or
    where no ``data_dir`` is given and no data are installed.
    """
    sizes = run_folder.config.sizes
    if sizes.data in DATASETS:
        try:
            run_folder.check_data(remembered_digest(sizes.data, data_dir, *sizes.data_amount))
        except DataError:
            if data_dir is not None:
                raise


def is_finished(run_folder: RunFolder, data_dir: Optional[Path]) -> bool:
    """Whether a run is done; a done or diverged run must be one on the requested data."""
    try:
        done = run_folder.finished()
    except DivergedError:
        check_data(run_folder, data_dir)
        raise
    if done:
        check_data(run_folder, data_dir)
    return done
