"""Train one run, as a job of a child process (see ``slsgd_mx.system.child``).

{"do": "slsgd_mx.sweeps.job:train", "config": ..., "folder": ..., "prefix": ...,
 "data_dir": ..., "engine": null or the options of a parameter server, "log": ...}

{"event": "start", "epoch": 0}   before the first epoch
{"event": "epoch", "epoch": 1}   after every epoch
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any, Callable

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import InUseError
from slsgd_mx.system.processes import Message, Report

PATIENCE = 600.0  # seconds to wait for a folder in use by another process that makes no progress


def train(job: Message, report: Report) -> None:
    """Train; if another command is computing the run, wait for it as long as it makes progress."""

    def listen(progress: Any) -> None:
        report(event="epoch" if progress.seconds else "start", epoch=progress.epoch)

    engine = _engine(job)
    config, since, seen = RunConfig.from_json(job["config"]), time.monotonic(), 0.0
    while True:
        try:
            engine(config, job["folder"], job["data_dir"], listen, prefix=job["prefix"])
            return
        except InUseError:
            latest = _last_change(Path(job["folder"]))
            if latest != seen:
                since, seen = time.monotonic(), latest
            if time.monotonic() - since > PATIENCE:
                raise
            time.sleep(0.2)


def _engine(job: Message) -> Callable:
    """The function that trains: in this process, or in several on a parameter server."""
    if job.get("engine") is None:
        from slsgd_mx.runs.trainer import train

        return train
    from slsgd_mx.parameter_server.launcher import Options, launch

    return partial(launch, options=Options(**job["engine"]))


def _last_change(folder: Path) -> float:
    paths = [folder / "metrics.csv", folder / "checkpoint"]
    return max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)
