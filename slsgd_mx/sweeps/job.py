"""One process of a sweep: jobs come as JSON lines on standard input, reports go out the same way.

    {"do": "train", "config": ..., "folder": ..., "prefix": ..., "data_dir": ..., "log": ...,
     "engine": null or the launcher's options}
    {"do": "calibrate", "config": ...}

    {"event": "start", "epoch": 0}            before the first epoch
    {"event": "epoch", "epoch": 1}            after every epoch
    {"event": "end", "status": "done", ...}   also "diverged", "failed", "interrupted"

It ends when its input does, and does not outlive the process that started it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, Iterator

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import DataError, DiskError, DivergedError, InUseError, SlsgdError
from slsgd_mx.system import signals
from slsgd_mx.system.files import disk_errors
from slsgd_mx.system.processes import Report, die_with_parent, reporter

PATIENCE = 600.0  # seconds without a sign of life, for a folder that another process holds


def main() -> None:
    """Take jobs until there are no more, or until told to stop."""
    report = reporter()
    die_with_parent()
    signals.install()
    try:
        for line in sys.stdin:
            _work(json.loads(line), report)
    except KeyboardInterrupt:
        report(event="end", status="interrupted")
    except BrokenPipeError:  # whoever started this is gone; what was computed is saved
        os._exit(1)


def _work(job: Dict[str, Any], report: Report) -> None:
    """Do one job; an error of it is its result, and the next job is not harmed."""
    try:
        result = JOBS[job["do"]](job, report)
        signals.check()
    except DivergedError as error:
        result = {"status": "diverged", "why": str(error)}
    except SlsgdError as error:
        result = {"status": "failed", "why": str(error), "fatal": _fatal(error)}
    except BrokenPipeError:
        raise
    except Exception as error:
        result = {"status": "failed", "why": f"{type(error).__name__}: {error}"}
    gc.collect()  # networks hold themselves in circles, and the next job builds another
    report(event="end", **result)


def _fatal(error: SlsgdError) -> str:
    """Which other jobs need not be tried: those with the same data ("group"), "all", or none."""
    if isinstance(error, DataError):
        return "group"
    return "all" if isinstance(error, DiskError) else ""


def _train(job: Dict[str, Any], report: Report) -> Dict[str, Any]:
    from slsgd_mx.runs.trainer import Progress

    def listen(progress: Progress) -> None:
        signals.check()
        event = "epoch" if progress.seconds else "start"
        report(event=event, epoch=progress.epoch)

    with _logging_to(Path(job["log"])):
        return _train_patiently(job, listen)


def _train_patiently(job: Dict[str, Any], listener: Callable) -> Dict[str, Any]:
    """Train; a run that another command is computing is waited for, as long as it gets on."""
    train = _engine(job)
    config, since, seen = RunConfig.from_json(job["config"]), time.monotonic(), 0.0
    while True:
        try:
            train(config, job["folder"], job["data_dir"], listener, prefix=job["prefix"])
            return {"status": "done"}
        except InUseError:
            latest = _last_change(Path(job["folder"]))
            if latest != seen:
                since, seen = time.monotonic(), latest
            if time.monotonic() - since > PATIENCE:
                raise
            time.sleep(0.2)


def _engine(job: Dict[str, Any]) -> Callable:
    """What trains: this process, or several on a parameter server."""
    if job.get("engine") is None:
        from slsgd_mx.runs.trainer import train

        return train
    from slsgd_mx.parameter_server.launcher import Options, launch

    return partial(launch, options=Options(**job["engine"]))


def _last_change(folder: Path) -> float:
    paths = [folder / "metrics.csv", folder / "checkpoint"]
    return max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)


def _calibrate(job: Dict[str, Any], report: Report) -> Dict[str, Any]:
    from slsgd_mx.sweeps.calibration import measure

    return {"status": "done", "measured": measure(RunConfig.from_json(job["config"]))}


JOBS = {"train": _train, "calibrate": _calibrate}


@contextlib.contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Send what is printed to the log of the job; an empty one is not kept."""
    with disk_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w") as log:
            os.dup2(log.fileno(), 2)
            os.dup2(log.fileno(), 1)
    try:
        yield
    except (SlsgdError, BrokenPipeError):  # said in the job's result, or nobody is left to read
        raise
    except Exception:
        traceback.print_exc()
        raise
    finally:
        sys.stderr.flush()
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == 0:
                path.unlink()


if __name__ == "__main__":
    main()
