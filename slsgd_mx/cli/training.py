"""Commands that train: one for each workload, all on the same trainer."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import Any, Collection, Dict, List, Optional, Sequence, Tuple

import click

from slsgd_mx.cli.options import (
    ALGORITHM,
    ARRAYS,
    FAULTS,
    IMAGES,
    TEXT,
    given,
    pick,
    with_options,
)
from slsgd_mx.cli.output import json_option, warn_if_unread
from slsgd_mx.cli.types import Items

POISONED = ("poisoned_devices", *FAULTS)
RUNNING = ("seed", "repeats", "eval_every", "data_dir", "out", "threads", "slot_memory")
EPILOG = (
    "FedAvg is --alpha 1 --b 0 (the defaults); local SGD is FedAvg with one number for "
    "--local-steps; the paper's attack is --q 2."
)


@click.command(epilog=EPILOG)
@with_options("preset", "released", *IMAGES, *ALGORITHM, *POISONED, *RUNNING, json_option)
def cifar(preset: str, **options: Any) -> None:
    """Train the paper's CNN on CIFAR-10 (Figures 1 to 10).

    \b
    As in the paper:        slsgd-mx cifar --balanced --alpha 0.8 --b 2
    Under attack:           slsgd-mx cifar --q 2 --b 2
    In a minute, no data:   slsgd-mx cifar --preset smoke --q 2 --b 2

    The same command again resumes an interrupted run, or says that it is done.
    """
    run_training("cifar", preset, **options)


@click.command(epilog=EPILOG)
@with_options("preset", "released", *TEXT, *ALGORITHM, *POISONED, *RUNNING, json_option)
def lstm(preset: str, **options: Any) -> None:
    """Train the paper's LSTM on WikiText-2 (Figures 11 to 13).

    \b
    As in the paper:        slsgd-mx lstm --alpha 0.8 --b 2
    Under attack:           slsgd-mx lstm --q 2 --b 2 --attack label-permute
    In a minute, no data:   slsgd-mx lstm --preset smoke --q 2 --b 2

    The same command again resumes an interrupted run, or says that it is done.
    """
    run_training("lstm", preset, **options)


class Workloads(click.Group):
    """A command for every workload; those of plug-ins too, wherever --plugin stands."""

    def list_commands(self, ctx: click.Context) -> List[str]:
        from slsgd_mx.presets import trainable

        return trainable()

    def get_command(self, ctx: click.Context, name: str) -> Optional[click.Command]:
        from slsgd_mx.errors import ConfigError

        if name in OWN or name not in self.list_commands(ctx):
            return OWN.get(name)
        with contextlib.suppress(*[ConfigError] * ctx.resilient_parsing):
            return _command(name)
        return None

    def resolve_command(self, ctx: click.Context, args: List[str]) -> Tuple:
        from slsgd_mx.errors import ConfigError
        from slsgd_mx.plugins import load_plugin
        from slsgd_mx.registry import UNKNOWN
        from slsgd_mx.validation import require_name

        completing = ctx.resilient_parsing  # the line may be half-typed
        for plugin in _plugins_in(args):
            with contextlib.suppress(*[ConfigError] * completing):
                load_plugin(plugin)
        if not completing:
            require_name("task", args[0], self.list_commands(ctx), UNKNOWN)
        return super().resolve_command(ctx, args)


def _plugins_in(words: Sequence[str]) -> List[str]:
    """The plug-ins that the words of a command name.

    >>> _plugins_in(["mine", "--plugin", "a.py", "--b", "2", "--plugin=b.py"])
    ['a.py', 'b.py']
    """
    after = [word for before, word in zip(words, words[1:]) if before == "--plugin"]
    return after + [word[9:] for word in words if word.startswith("--plugin=")]


@click.group(cls=Workloads)
@with_options()
def train() -> None:
    """Train a workload by name: the paper's two, your images, or one of a plug-in.

    \b
    slsgd-mx train cifar --preset smoke     the same as slsgd-mx cifar
    slsgd-mx train images --arrays my.npz   your images and labels
    slsgd-mx train --plugin mine.py NAME    a workload of a plug-in

    slsgd-mx train NAME --help lists the options of a workload.
    """


@train.command(epilog=EPILOG)
@with_options(
    pick(
        "preset",
        type=click.Choice(["laptop", "smoke"]),
        default="laptop",
        help="laptop: a network for a few thousand images. smoke: a narrow one.",
    ),
    *(*ARRAYS, *ALGORITHM, *POISONED, "seed", "repeats", "eval_every", "out"),
    *("threads", "slot_memory"),
    json_option,
)
def images(preset: str, arrays: Optional[Path], **options: Any) -> None:
    """Train a network on your images and labels.

    --arrays is a file that np.savez made, with x_train and x_test of shape (N, channels, height,
    width), (N, height, width) or, for networks such as mlp, (N, ...), as uint8 or floats, and
    y_train and y_test with labels 0, 1, ... Without it the images are synthetic.

    \b
    slsgd-mx train images --arrays my.npz --q 2 --b 2
    slsgd-mx train images --arrays my.npz --network mlp --partition shards
    """
    if arrays is not None:
        from slsgd_mx.data.arrays import sizes_in

        options.update(sizes_in(arrays))
    run_training("images", preset, released=False, data_dir=arrays, **options)


def _command(name: str) -> click.Command:
    """The command of a plug-in's workload: its sizes are options."""
    from slsgd_mx.presets import presets_of
    from slsgd_mx.workloads import WORKLOADS

    workload, presets = WORKLOADS[name], list(presets_of(name))
    sizes = [_size_option(*item) for item in vars(workload.sizes()).items()]

    @with_options(
        pick("preset", type=click.Choice(presets), default=presets[0], help="The starting point."),
        *sizes,
        *(*ALGORITHM, *POISONED, *RUNNING, json_option),
    )
    def call(preset: str, **options: Any) -> None:
        run_training(name, preset, released=False, **options)

    call.__doc__ = workload.summary or f"Train the workload {name}."
    command = click.command(name, epilog=EPILOG)(call)
    _refuse_namesakes(name, command)
    return command


def _refuse_namesakes(task: str, command: click.Command) -> None:
    """Raise a ConfigError if a size has the name of another option, which would get its value."""
    from slsgd_mx.errors import ConfigError

    flags = [flag for each in command.params for flag in (*each.opts, *each.secondary_opts)]
    taken = Counter([*flags, "--help", "--released"])  # run_training knows the latter
    clash = [flag for flag in dict.fromkeys(flags) if taken[flag] > 1]
    if clash:
        raise ConfigError(
            f"sizes of task {task!r} have the names of options ({', '.join(clash)}): choose other "
            "names"
        )


def _size_option(name: str, value: Any) -> Any:
    """An option for a field of a workload's sizes; its type is that of the default."""
    flag = "--" + name.replace("_", "-")
    flag = f"{flag}/--no-{flag[2:]}" if isinstance(value, bool) else flag
    kind = None if isinstance(value, bool) else type(value)
    if isinstance(value, tuple):
        kind, value = Items(value), ":".join(map(str, value))
    return click.option(flag, name, type=kind, default=None, help=f"Default: {value}.")


OWN: Dict[str, click.Command] = {"cifar": cifar, "lstm": lstm, "images": images}


def run_training(
    task: str,
    preset: str,
    released: bool,
    repeats: Optional[int],
    out: Optional[Path],
    data_dir: Optional[Path],
    threads: Optional[int],
    **changes: Any,
) -> None:
    """Build the configuration, warn about odd combinations, train, show the result."""
    from slsgd_mx.cli.engines import current_engine
    from slsgd_mx.presets import preset as make_config
    from slsgd_mx.presets import presets_of, released_switches
    from slsgd_mx.system.threads import set_threads

    engine = current_engine()
    set_threads(threads or engine.threads(preset))
    asked = {**given(**changes), **engine.changes}
    switches = released_switches(task, presets_of(task)[preset]) if released else {}
    config = make_config(task, preset, **{**switches, **asked})
    warn_and_run(config, asked, [], repeats, out, data_dir)


def warn_and_run(
    config: Any,
    asked: Collection[str],
    more: Sequence[str],
    repeats: Optional[int],
    out: Optional[Path],
    data_dir: Optional[Path],
) -> None:
    """Warn about what is odd in a configuration and what was asked of it, and of more; train."""
    from slsgd_mx.cli.engines import current_engine

    if current_engine().single and (repeats or 1) > 1:
        raise click.UsageError("--repeats is not possible here: start one job for each --seed")
    warnings = [*config.warnings(), *more]
    if not config.attacked and {"attack", "attacker_start", "attack_scale", "boost"} & set(asked):
        warnings.append("an attack with q=0 poisons nobody: give q as well")
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    warn_if_unread(data_dir, [config])

    from slsgd_mx.cli.running import run_repeats

    run_repeats(config, repeats or 1, out, data_dir)
