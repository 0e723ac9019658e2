"""Where training commands compute: in this process unless ``launch`` or ``dist`` says otherwise."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import click

from slsgd_mx.cli.options import option


@dataclass(frozen=True)
class Engine:
    """``train(config, folder, data_dir, listener=...)`` and the threads it takes by default."""

    train: Callable
    threads: Callable[[str], int]
    single: bool = False  # one run only
    changes: Dict[str, Any] = field(default_factory=dict)  # in the configuration


def current_engine() -> Engine:
    """The one a command around this one has chosen, or this process."""
    context = click.get_current_context(silent=True)
    chosen = context.find_object(Engine) if context is not None else None
    if chosen is not None:
        return chosen
    from slsgd_mx.system.threads import suitable_threads

    return Engine(_train_here, suitable_threads)


def _train_here(*arguments: Any, **options: Any) -> Any:
    from slsgd_mx.runs.trainer import train  # after the threads are set: it imports MXNet

    return train(*arguments, **options)


def share_threads(workers: int) -> Callable[[str], int]:
    """Threads of each worker, where several share a machine."""
    from slsgd_mx.system.threads import suitable_threads

    return lambda preset: max(1, suitable_threads(preset) // workers)


PATIENCE = click.option(
    "--patience",
    type=float,
    default=30.0,
    show_default=True,
    help="Seconds without an answer or a heartbeat after which a process counts as lost.",
)
DEADLINE = option(
    "--deadline",
    type=float,
    help="Seconds an epoch may take; a device that has not answered by then is left out of it. "
    "Then results depend on the clock. Default: none.",
)
PARAMETER_SERVER = [
    option(
        "--workers",
        type=click.IntRange(min=1),
        help="Processes that train, each its share of S_t. Default: one for every core, "
        "10 at most (the paper's k).",
    ),
    option(
        "--servers",
        type=click.IntRange(min=1),
        help="Processes that hold a part of the model each and aggregate it. Default: 1.",
    ),
]


def server_options(
    engine: str, options: Dict[str, Any]
) -> Tuple[Optional[Dict[str, Any]], Dict[str, Any]]:
    """What ``--engine`` and its flags make of a parameter server, and the options left."""
    rest = dict(options)
    workers, servers = rest.pop("workers", None), rest.pop("servers", None)
    if engine != "ps":
        if workers or servers:
            raise click.UsageError("--workers and --servers go with --engine ps")
        return None, rest
    return asdict(make_options(workers, servers)), rest


def make_options(workers: Optional[int], servers: Optional[int], **more: Any):
    """The launcher's options, one worker a core by default, but for more than there are slots."""
    from slsgd_mx.parameter_server.launcher import Options
    from slsgd_mx.system.threads import thread_count

    return Options(workers or min(thread_count(), 10), servers or 1, **more)


def run_command(ctx: click.Context, command: Sequence[str], engine: Engine) -> None:
    """Run a training command, given as words, on an engine."""
    from slsgd_mx.cli import COMMANDS

    known: List[str] = [name for name, module in COMMANDS.items() if module == "training"]
    if not command or command[0] not in known:
        found = repr(command[0]) if command else "nothing"
        raise click.UsageError(
            f"after -- comes a training command ({', '.join(known)}), not {found}"
        )
    name, *words = command
    ctx.obj = engine
    inner = ctx.find_root().command.get_command(ctx, name)
    with inner.make_context(name, words, parent=ctx) as inner_context:
        inner.invoke(inner_context)
