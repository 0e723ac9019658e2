"""Where training commands compute: in this process, unless ``launch`` or ``dist`` is used."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence

import click


@dataclass(frozen=True)
class Engine:
    """``train(config, folder, data_dir, listener=...)`` and the default number of threads."""

    train: Callable
    threads: Callable[[str], int]
    single: bool = False  # one run per call
    changes: Dict[str, Any] = field(default_factory=dict)  # in the configuration


def current_engine() -> Engine:
    """The engine that an enclosing command has chosen, or this process."""
    context = click.get_current_context(silent=True)
    chosen = context.find_object(Engine) if context is not None else None
    if chosen is not None:
        return chosen
    from slsgd_mx.system.threads import suitable_threads

    return Engine(_train_here, suitable_threads)


def _train_here(*arguments: Any, **options: Any) -> Any:
    from slsgd_mx.runs.trainer import train

    return train(*arguments, **options)


def share_threads(workers: int) -> Callable[[str], int]:
    """Threads of each worker if several share this machine."""
    from slsgd_mx.system.threads import suitable_threads

    return lambda preset: max(1, suitable_threads(preset) // workers)


def server_options(
    engine: str, workers: Optional[int], servers: Optional[int]
) -> Optional[Dict[str, Any]]:
    """The parameter server that ``--engine`` and its flags ask for; None if there is none."""
    if engine == "ps":
        return asdict(make_options(workers, servers))
    if workers or servers:
        raise click.UsageError("--workers and --servers go with --engine ps")
    return None


def make_options(workers: Optional[int], servers: Optional[int], **more: Any):
    """The launcher's options; by default one worker per core, at most 10."""
    from slsgd_mx.parameter_server.launcher import Options
    from slsgd_mx.system.threads import cores_to_share

    return Options(workers or min(cores_to_share(), 10), servers or 1, **more)


def training_commands() -> List[str]:
    """The commands that can follow ``launch --``."""
    from slsgd_mx.cli import COMMANDS

    return [name for name, module in COMMANDS.items() if module in ("training", "stored")]


def run_command(ctx: click.Context, command: Sequence[str], engine: Engine) -> None:
    """Run a training command, given as a list of words, on an engine."""
    known: List[str] = training_commands()
    if not command or command[0] not in known:
        found = repr(command[0]) if command else "nothing"
        names = ", ".join(known)
        raise click.UsageError(f"after -- comes a training command ({names}), not {found}")
    name, *words = command
    ctx.obj = engine
    inner = ctx.find_root().command.get_command(ctx, name)
    with inner.make_context(name, words, parent=ctx) as inner_context:
        inner.invoke(inner_context)
