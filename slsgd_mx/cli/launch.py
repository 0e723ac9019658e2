"""Run a training command in several processes on this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional, Tuple

import click

from slsgd_mx.cli.engines import Engine, make_options, run_command, share_threads
from slsgd_mx.cli.options import given, with_options
from slsgd_mx.cli.output import json_option
from slsgd_mx.cli.types import CommandWords, TrainingCommand


@click.command(context_settings={"allow_interspersed_args": False})
@with_options("workers", "servers", "deadline", "patience", "restarts", json_option)
@click.argument(
    "command", cls=CommandWords, nargs=-1, type=TrainingCommand(), metavar="-- COMMAND ..."
)
@click.pass_context
def launch(
    ctx: click.Context,
    command: Tuple[str, ...],
    workers: Optional[int],
    servers: Optional[int],
    deadline: Optional[float],
    patience: float,
    restarts: int,
) -> None:
    """Run a training command on MXNet's parameter server.

    Starts and watches a scheduler, servers that aggregate and workers that train, all on this
    machine. They listen on its loopback device only.

    \b
    slsgd-mx launch --workers 2 -- cifar --balanced --alpha 0.8 --b 2
    slsgd-mx launch --workers 3 --servers 2 -- lstm --preset smoke --q 2 --b 2

    The results equal, bit for bit, those of the command alone with as many --threads as each
    worker has. If a process dies or hangs, all are restarted from the last checkpoint. Their logs
    are in logs/ of the run folder. For several machines see slsgd-mx dist and docs/cluster.md.
    """
    options = make_options(workers, servers, patience=patience, restarts=restarts)

    def train(config, folder, data_dir, listener=None):
        from slsgd_mx.parameter_server.launcher import launch as run

        few = options if workers else replace(options, workers=min(options.workers, config.k))
        return run(config, folder, data_dir, listener, options=few)

    threads, changes = share_threads(options.workers), given(deadline=deadline)
    run_command(ctx, command, Engine(train, threads, changes=changes))
