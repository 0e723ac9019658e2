"""Options that all training commands share, each with the paper's symbol in its help."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import click


class NameIn(click.ParamType):
    """One of the names of a registry that is imported only when it is needed."""

    name = "name"

    def __init__(self, module: str, registry: str) -> None:
        self.module, self.registry = module, registry

    def names(self) -> List[str]:
        return list(getattr(import_module(f"slsgd_mx.{self.module}"), self.registry))

    def get_metavar(self, param: click.Parameter, ctx: Optional[click.Context] = None) -> str:
        return "[" + "|".join(self.names()) + "]"

    def convert(self, value: str, param, ctx) -> str:
        if value not in self.names():
            self.fail(f"{value!r} is not one of {', '.join(self.names())}.", param, ctx)
        return value


class Bounds(click.ParamType):
    """MIN:MAX, or one number for both."""

    name = "MIN:MAX"

    def convert(self, value, param, ctx) -> Tuple[int, int]:
        if isinstance(value, tuple):
            return value
        low, _, high = value.partition(":")
        try:
            return int(low), int(high or low)
        except ValueError:
            self.fail(f"{value!r} is not MIN:MAX, such as 5:15.", param, ctx)


class Numbers(click.ParamType):
    """Numbers with commas between them."""

    name = "A,B,..."

    def convert(self, value, param, ctx) -> Tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(float(number) for number in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers, such as 0.6,0.8,1.", param, ctx)


def option(*names: str, help: str, **more: Any) -> Callable:
    """An option that overrides the preset if it is given."""
    return click.option(*names, help=help, default=None, **more)


PRESET = click.option(
    "--preset",
    type=click.Choice(["paper", "laptop", "smoke"]),
    default="paper",
    show_default=True,
    help="Sizes: as published; real data cut to a laptop's day; embedded data in seconds. "
    "Any other option overrides it.",
)

DEVICES = option("-n", "--devices", "n", type=int, help="n: devices. Paper: 100.")
ALPHAS = option("--alphas", type=Numbers(), help="alpha on the x-axis of Figures 5 and 6.")
RUNS = click.option(
    "--runs",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs"),
    show_default=True,
    help="Folder of the runs; figures share them.",
)
SEED = option("--seed", type=int, help="Seed of everything random. Default: 0.")
DATA_DIR = option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="Real data of your own: a folder or archive in an official layout.",
)


def algorithm_options(gamma: str, batch: str, decay: int) -> List[Callable]:
    """Options of Algorithm 1; what the paper took for this task stands in their help."""
    return [
        DEVICES,
        option(
            "-k", "--selected", "k", type=int, help="k: devices selected in an epoch. Paper: 10."
        ),
        option("--b", type=int, help="b: values trimmed at each end, 2b < k. 0 is the plain mean."),
        option("--q", type=int, help="q: poisoned workers among the k of every epoch."),
        option("--gamma", type=float, help=f"gamma: learning rate. Paper: {gamma}."),
        option("--alpha", type=float, help="alpha: weight of the moving average, in (0, 1]."),
        option(
            "--alpha-schedule",
            type=NameIn("schedules", "SCHEDULES"),
            help="alpha_t: 1 up to the decay epoch and alpha after it (step, the paper's legends); "
            "alpha throughout; alpha / t^2.",
        ),
        option(
            "--alpha-decay-epoch", type=int, help=f"Last epoch with alpha_t = 1. Paper: {decay}."
        ),
        option("--epochs", type=int, help="T: communication epochs. Paper: 800."),
        option("--passes", type=int, help="H_t^i as full passes of the device's data. Paper: 1."),
        option(
            "--local-steps",
            type=Bounds(),
            help="H_t^i drawn between two bounds for every device and epoch, instead of passes; "
            "one number for local SGD's homogeneous H.",
        ),
        option("--batch-size", type=int, help=f"Minibatch. Paper: {batch}."),
        option(
            "--rule",
            type=NameIn("rules", "RULES"),
            help="Aggregation: Option II (trimmed-mean, the default), Option I (mean), or another.",
        ),
        option(
            "--selection",
            type=click.Choice(["independent", "permutation"]),
            help="S_t: k of n anew each epoch (the text), or blocks of shuffled permutations (the "
            "released code).",
        ),
        option(
            "--warm-up/--no-warm-up",
            help="x_0 after 5 passes at gamma 0.01 on one device's data (the released code).",
        ),
    ]


FAULTS = [
    option(
        "--attack",
        type=NameIn("attacks", "ATTACKS"),
        help="What the q poisoned workers do. Default: the paper's for this task.",
    ),
    option(
        "--attacker-start",
        type=click.Choice(["fresh", "pulled"]),
        help="Poisoned workers forget the pulled model and start afresh (the released code, "
        "default for label attacks), or train from it (the text).",
    ),
    option(
        "--attack-scale", type=float, help="c of negation, noise of gaussian, shift of label-shift."
    ),
    option(
        "--drop-rate",
        type=float,
        help="Chance that a selected worker, honest or not, never answers.",
    ),
    option(
        "--nonfinite",
        type=click.Choice(["reject", "keep"]),
        help="Refuse pushes with NaN or infinity whole (default), or aggregate them.",
    ),
]

RUNNING = [
    SEED,
    click.option(
        "--repeats",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Runs with seeds seed, seed+1, ..., averaged. Paper: 10.",
    ),
    option("--eval-every", type=int, help="Epochs between two evaluations."),
    DATA_DIR,
    option(
        "--out",
        type=click.Path(path_type=Path),
        help="Run folder. Default: a name of its own under runs/.",
    ),
    option(
        "--threads",
        type=click.IntRange(min=1),
        help="Threads to compute with; results repeat to the bit at an equal number. "
        "Default: every core, one for the smoke preset.",
    ),
]


def with_options(*groups: List[Callable]) -> Callable[[Callable], Callable]:
    """Attach options to a command, in the order in which its help shall list them."""

    def attach(command: Callable) -> Callable:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return attach


def given(**options: Any) -> Dict[str, Any]:
    """Options the user gave: those that are to override the preset."""
    return {name: value for name, value in options.items() if value is not None}
