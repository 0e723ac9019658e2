"""Start one role of a distributed run, where another program places processes on machines."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Callable, Optional, Tuple

import click

from slsgd_mx.cli.engines import Engine, run_command
from slsgd_mx.cli.options import given, with_options
from slsgd_mx.cli.types import CommandWords, TrainingCommand


@click.group()
def dist() -> None:
    """Start one role of a distributed run on several machines.

    MXNet's usual environment variables describe the cluster: DMLC_NUM_WORKER, DMLC_NUM_SERVER,
    DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT (the scheduler's address), and DMLC_INTERFACE or
    DMLC_NODE_HOST if a machine has several addresses. Servers and workers also need a common
    secret in SLSGD_MX_SECRET. Start one scheduler and that many servers and workers, in any order.

    A role that loses the others exits with code 75: start all of them again, and the run resumes
    from its last checkpoint. docs/cluster.md has files for SLURM and Kubernetes, and a loop for
    ssh. On one machine, slsgd-mx launch does all this.
    """


def _play(role: Callable, *arguments: object) -> None:
    """Play a role; after a failure leave at once, because MXNet would wait for lost processes."""
    from slsgd_mx.cli import Failure, failure, is_out_of_memory
    from slsgd_mx.errors import DivergedError, SlsgdError
    from slsgd_mx.parameter_server.node import Cluster
    from slsgd_mx.plugins import explain_failure

    cluster = Cluster.from_environment(dict(os.environ))
    try:
        return role(cluster, *arguments)
    except DivergedError:  # a result: all roles end normally
        raise
    except (SlsgdError, KeyboardInterrupt) as error:
        shown = failure(error)
        shown.show()
        code = shown.exit_code
    except Exception as error:
        plugins = explain_failure(error)
        if plugins:
            Failure(plugins, 1).show()
        elif is_out_of_memory(error):
            failure(error).show()
        else:
            traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


@dist.command()
@with_options("patience")
def scheduler(patience: float) -> None:
    """Connect servers and workers, and watch that they stay alive."""
    from slsgd_mx.parameter_server.roles import run_scheduler

    _play(run_scheduler, patience)


@dist.command()
@with_options("patience", "slot_memory", "slot_folder")
def server(patience: float, slot_folder: Optional[Path]) -> None:
    """Hold a part of the model and aggregate the pushes to it."""
    from slsgd_mx.parameter_server.roles import run_server

    _play(run_server, patience, slot_folder or Path(tempfile.gettempdir()))


@dist.command(context_settings={"allow_interspersed_args": False})
@with_options("deadline", "patience")
@click.argument(
    "command", cls=CommandWords, nargs=-1, type=TrainingCommand(), metavar="-- COMMAND ..."
)
@click.pass_context
def worker(
    ctx: click.Context, command: Tuple[str, ...], deadline: Optional[float], patience: float
) -> None:
    """Train a share of every epoch; worker 0 also writes the run folder.

    \b
    slsgd-mx dist worker -- cifar --balanced --alpha 0.8 --b 2 --threads 4

    Give all workers the same command, --threads included. The scheduler decides which of them is
    worker 0, so the run folder (--out) must be on a disk that all of them share.
    """
    from slsgd_mx.system.threads import suitable_threads

    def train(config, folder, data_dir, listener=None):
        from slsgd_mx.parameter_server.roles import run_worker

        result = _play(
            lambda cluster: run_worker(config, folder, data_dir, cluster, patience, listener)
        )
        if result is None:
            click.echo("worker 0 has ended; it has the results", err=True)
            ctx.exit(0)
        return result

    engine = Engine(train, suitable_threads, single=True, changes=given(deadline=deadline))
    run_command(ctx, command, engine)
