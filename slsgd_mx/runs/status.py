"""How far stored runs got, for whoever plans, draws or judges them; no MXNet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import DivergedError, RunError
from slsgd_mx.runs.checkpoints import newest_epoch
from slsgd_mx.runs.folder import RunStore
from slsgd_mx.runs.metrics import Row


@dataclass(frozen=True)
class Outcome:
    """How far a run got: "done", "diverged", "begun", "missing" or "damaged"."""

    state: str
    epoch: int = 0  # the last whose model is kept
    rows: Sequence[Row] = ()  # of a run that is done or diverged
    why: str = ""  # it diverged, or is damaged


def read_outcome(folder: Path, config: RunConfig) -> Outcome:
    """Look how far a run got, changing nothing."""
    store = RunStore(folder, config)
    try:
        if store.finished():
            return Outcome("done", config.epochs, store.rows())
        epoch = newest_epoch(folder / "checkpoint")
        return Outcome("begun" if epoch else "missing", epoch)
    except DivergedError as error:
        return _diverged(store, str(error))
    except RunError as error:
        return Outcome("damaged", why=str(error))


def _diverged(store: RunStore, why: str) -> Outcome:
    try:
        rows = store.rows_until_divergence()
        return Outcome("diverged", int(rows[-1]["epoch"]), rows, why)
    except (RunError, ValueError) as error:
        return Outcome("damaged", why=str(error))
