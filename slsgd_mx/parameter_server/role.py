"""One process of the launcher: ``python -m slsgd_mx.parameter_server.role ROLE PARENT``.

A worker reads its job, one line of JSON, from standard input and reports on standard output:

    {"event": "start", "epoch": 0}            worker 0, before its first epoch
    {"event": "epoch", "epoch": 1, ...}       worker 0, after every epoch
    {"event": "end", "status": "done", ...}   also "diverged", "failed", "followed"

One that is lost, interrupted or killed says nothing at its end: that is what exit codes are for.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, Dict

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import DivergedError, LostError, SlsgdError
from slsgd_mx.parameter_server.node import Cluster, say
from slsgd_mx.system import signals
from slsgd_mx.system.processes import Report, die_with_parent, reporter


def main(role: str, parent: str) -> int:
    """Play a role until it is over; return the exit code."""
    die_with_parent(signal.SIGKILL, int(parent))
    cluster = Cluster.from_environment(dict(os.environ))
    patience = float(os.environ["SLSGD_MX_PATIENCE"])
    if role == "worker":
        return _work(json.loads(sys.stdin.readline()), cluster, patience)
    from slsgd_mx.parameter_server.roles import run_scheduler, run_server

    (run_server if role == "server" else run_scheduler)(cluster, patience)
    return 0


def _work(job: Dict[str, Any], cluster: Cluster, patience: float) -> int:
    from slsgd_mx.parameter_server.roles import run_worker
    from slsgd_mx.system import mxnet as _mxnet  # noqa: F401  (before signals are handled)

    report = reporter()
    signals.install()
    try:
        result = run_worker(
            RunConfig.from_json(job["config"]),
            Path(job["folder"]),
            None if job["data_dir"] is None else Path(job["data_dir"]),
            cluster,
            patience,
            _listener(report),
            None if job["prefix"] is None else Path(job["prefix"]),
        )
        if result is None:
            report(event="end", status="followed")
        else:
            report(event="end", status="done", resumed_from=result.resumed_from)
        return 0
    except LostError as error:
        say(str(error))
        return error.exit_code
    except DivergedError as error:
        report(event="end", status="diverged", why=str(error))
        return 0
    except SlsgdError as error:
        report(event="end", status="failed", why=str(error), kind=type(error).__name__)
        return error.exit_code
    except KeyboardInterrupt:
        say("told to stop")
        return 143
    except BaseException:
        traceback.print_exc()
        return 1


def _listener(report: Report):
    """Worker 0's progress as reports."""

    def listen(progress: Any) -> None:
        signals.check()
        event = "epoch" if progress.seconds else "start"
        numbers = {name: getattr(progress, name) for name in ("seconds", "units", "metrics")}
        report(event=event, epoch=progress.epoch, **numbers)

    return listen


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # MXNet's own end would wait for others who may be gone
