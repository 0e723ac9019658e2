"""Every option of the command line, declared once; commands pick them by name.

The help gives the paper's symbol and value.  Legal values are read, when they are needed, from the
module that checks them: ``slsgd-mx --help`` imports nothing heavy.
"""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import Any, Callable, Dict, Optional, Tuple, Union

import click

from slsgd_mx.cli.output import COPIES
from slsgd_mx.cli.types import (
    AnyPath,
    Bounds,
    ChoiceIn,
    Folder,
    NameIn,
    Numbers,
    Option,
    RuleText,
    RunsFolder,
)
from slsgd_mx.parameter_server import PATIENCE, RESTARTS

COUNT = click.IntRange(1, 10_000)
FOLDER = Folder()
PATH = AnyPath()
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
WHERE = click.option(
    "--where",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Only runs that fulfil it, such as b=2, attack!=label-flip, q>=2, status=done or "
    "test_accuracy>0.4. Names: all symbols of a configuration (runs show lists them), status, "
    "epoch, and metrics, of which the last value counts. Give it again for further conditions.",
)


NAMED_PARTITION = "slsgd_mx.partition"  # where --partition waits for --balanced/--unbalanced


def _to_partition(ctx: click.Context, param: click.Parameter, balanced: Optional[bool]):
    """What --balanced/--unbalanced say; else what --partition says."""
    if balanced is None:
        return ctx.meta.get(NAMED_PARTITION)
    _name_partition(ctx, param, ctx.meta.get(NAMED_PARTITION))
    return "balanced" if balanced else "unbalanced"


def _name_partition(ctx: click.Context, param: click.Parameter, name: Optional[str]) -> None:
    """Remember --partition; options that the user gave are processed before those not given."""
    source = ctx.get_parameter_source("partition")
    if name is not None and source is not None and source.name == "COMMANDLINE":
        raise click.UsageError("give either --partition or --balanced/--unbalanced")
    ctx.meta[NAMED_PARTITION] = name


def _or_archive(ctx: click.Context, param: click.Parameter, draw_only: bool) -> bool:
    """--draw-only, which --runs ARCHIVE implies; what the user gave is processed first."""
    return draw_only or COPIES in ctx.meta


def _load_plugins(ctx: click.Context, param: click.Parameter, names: Tuple[str, ...]) -> None:
    from slsgd_mx.plugins import load_plugin

    for name in names:
        load_plugin(name)


def _limit_slots(ctx: click.Context, param: click.Parameter, size: Optional[str]) -> None:
    """Child processes inherit the variable."""
    from slsgd_mx.errors import ConfigError
    from slsgd_mx.system.slot_memory import VARIABLE, read_size

    if size is not None:
        try:
            read_size(size)
        except ConfigError as error:
            raise click.BadParameter(str(error), ctx, param) from error
        os.environ[VARIABLE] = size


def _option(*flags: str, **attributes: Any) -> Tuple[Tuple[str, ...], Dict[str, Any]]:
    """The arguments of click.option; without a default, the preset's value holds."""
    default = False if attributes.get("is_flag") else None
    return flags, {"cls": Option, "default": default, **attributes}


# fmt: off
OPTIONS = {
    "preset": _option("--preset", type=NameIn("presets", "NAMES"), default="paper", help=
        "paper: as published. laptop: real data, minutes a run on 2 cores. smoke: embedded "
        "synthetic data, seconds. Other options override it."),
    "plugin": _option("--plugin", multiple=True, default=(), is_eager=True, expose_value=False,
        callback=_load_plugins, metavar="FILE.py|MODULE", help=
        "Load your own attacks, rules, partitions, networks and workloads; may be given again. See "
        "docs/extending.md."),
    # Algorithm 1
    "n": _option("-n", "--devices", "n", type=int, help="n: number of devices. Paper: 100."),
    "k": _option("-k", "--selected", "k", type=int, help=
        "k: devices selected in each epoch. Paper: 10."),
    "b": _option("--b", type=int, help=
        "b: values trimmed at each end, 2b < k. 0 is the plain mean."),
    "q": _option("--q", type=int, help="q: poisoned workers among the k of every epoch."),
    "gamma": _option("--gamma", type=float, help=
        "gamma: learning rate. Paper: 0.1 and 0.05 (CNN), 20 (LSTM)."),
    "alpha": _option("--alpha", type=float, help=
        "alpha: weight of the new model in the moving average, in (0, 1]."),
    "alpha_schedule": _option("--alpha-schedule", type=NameIn("schedules", "SCHEDULES"), help=
        "alpha_t: 1 up to the decay epoch and alpha after it (step, as in the paper's figures); "
        "alpha in every epoch; alpha / t^2."),
    "alpha_decay_epoch": _option("--alpha-decay-epoch", type=int, help=
        "Last epoch with alpha_t = 1. Paper: 400 (CNN), 600 (LSTM)."),
    "epochs": _option("--epochs", type=int, help="T: number of epochs. Paper: 800 (CNN)."),
    "passes": _option("--passes", type=int, help=
        "H_t^i in passes over the device's data. Paper: 1."),
    "local_steps": _option("--local-steps", type=Bounds(), help=
        "H_t^i in steps, drawn between two bounds for every device and epoch, instead of passes. "
        "One number: the same H everywhere (local SGD)."),
    "batch_size": _option("--batch-size", type=int, help=
        "Minibatch size. Paper: 50 images (CNN), 20 sequences (LSTM)."),
    "rule": _option("--rule", type=RuleText(), help=
        "Aggregation: Option II of Algorithm 1 (trimmed-mean, the default), Option I (mean), or "
        "another rule; nnm+krum puts a pre-aggregation before it. docs/conformance.md defines "
        "all."),
    "selection": _option("--selection", type=NameIn("config", "SELECTIONS"), help=
        "S_t: k of n drawn independently in each epoch (the paper's text, the default), or blocks "
        "of shuffled permutations (the released code)."),
    "precision": _option("--precision", type=NameIn("config", "PRECISIONS"), help=
        "Precision of convolutions and matrix products: float32, or bfloat16 on CPUs with "
        "AVX512_BF16 or AMX; parameters, pushes and metrics stay float32. Default: float32."),
    "warm_up": _option("--warm-up/--no-warm-up", help=
        "Initialise x_0 with 5 passes at gamma 0.01 over one device's data, as the released code "
        "does. Default: yes."),
    # attacks and faults
    "attack": _option("--attack", type=ChoiceIn("attacks", "ATTACKS", "find_attack"), help=
        "What the q poisoned workers do. Default: the paper's attack on this task. "
        "docs/conformance.md defines all."),
    "poisoned_devices": _option("--poisoned-devices", type=int, help=
        "Instead of --q: so many of the n devices, chosen by the seed, are poisoned whenever they "
        "are selected; pushes.csv records in which slots, in each epoch."),
    "attacker_start": _option("--attacker-start", type=NameIn("config", "STARTS"), help=
        "Poisoned workers train from newly initialised parameters (the released code, the default "
        "of label attacks), or from the pulled model (the paper's text)."),
    "attack_scale": _option("--attack-scale", type=float, help=
        "Factor c of negation, noise of gaussian, shift of label-shift."),
    "boost": _option("--boost", type=float, help=
        "F: a poisoned worker pushes w_0 + F (x - w_0), w_0 being what it started from; trainable "
        "parameters only. Default: 1; the authors' development repository: 5 (LSTM: up to 1000)."),
    "drop_rate": _option("--drop-rate", type=float, help=
        "Probability that a selected worker, honest or poisoned, does not answer."),
    "nonfinite": _option("--nonfinite", type=NameIn("config", "NONFINITE"), help=
        "Discard pushes that contain NaN or infinity (reject, the default), or aggregate them."),
    # sizes of the workloads
    "image_partition": _option("--balanced/--unbalanced", "partition", callback=_to_partition, help=
        "Devices of equal size with all labels, or of 104 to 896 images with at most 5 labels."),
    "image_named_partition": _option("--partition", "named_partition", expose_value=False,
        callback=_name_partition,
        type=ChoiceIn("partitions", "PARTITIONS", "find_partition"), help=
        "Which device holds which images, instead of --balanced/--unbalanced."),
    "arrays": _option("--arrays", type=FILE, help=
        "Your images and labels: an .npz file with x_train, y_train, x_test, y_test."),
    "network": _option("--network", help="What is trained.",
        type=ChoiceIn("tasks.images.sizes", "NETWORKS", "find_network")),
    "image_data": _option("--data", type=NameIn("tasks.cifar.sizes", "DATA"), help=
        "CIFAR-10, or embedded synthetic images of the same shape."),
    "train_images": _option("--train-images", type=int, help=
        "Training images used. Paper: 50,000."),
    "test_images": _option("--test-images", type=int, help="Test images used. Paper: 10,000."),
    "loss_images": _option("--loss-images", type=int, help=
        "Training images on which the training loss is measured."),
    "text_partition": _option("--partition", type=NameIn("tasks.lstm.sizes", "PARTITIONS"), help=
        "Deal batches of text out to devices in random order (the released code), or in the order "
        "of the text."),
    "text_data": _option("--data", type=NameIn("tasks.lstm.sizes", "DATA"), help=
        "WikiText-2, or embedded synthetic text."),
    "vocab_size": _option("--vocab-size", type=int, help=
        "Most frequent words kept; the others become <unk>. Paper: 33278."),
    "bptt": _option("--bptt", type=int, help="Tokens in a sequence of a minibatch. Paper: 35."),
    "device_batches": _option("--device-batches", type=int, help=
        "Minibatches that each device holds. Paper: 32."),
    "loss_batches": _option("--loss-batches", type=int, help=
        "Batches of training text on which the training loss is measured."),
    "test_batches": _option("--test-batches", type=int, help=
        "Batches of test text used. Paper: 350."),
    "width": _option("--width", type=int, help=
        "Width of the network. CNN: channels of the first convolution, paper: 64. LSTM: size of "
        "embedding and state, paper: 200."),
    # seeds, folders and processes
    "seed": _option("--seed", type=int, help=
        "First seed; all randomness follows from it. Default: 0."),
    "partition_seed": _option("--partition-seed", type=int, help=
        "Seed of the partition alone, so that all seeds share one partition (the released code). "
        "Default: the run's seed."),
    "released": _option("--released", is_flag=True, help=
        "Do as the released code: attack and its start, --nonfinite keep, --partition-seed 0, "
        "--selection permutation, --warm-up; LSTM: an earlier --alpha-decay-epoch, --eval-every "
        "10; see docs/paper-vs-code.md. Options given as well override it."),
    "repeats": _option("--repeats", type=COUNT, help=
        "Number of seeds (seed, seed+1, ...) to average over. Paper: 10. Default: 1 for one "
        "training command, the preset's for figures."),
    "eval_every": _option("--eval-every", type=int, help="Epochs between two evaluations."),
    "data_dir": _option("--data-dir", type=PATH, help=
        "Your copy of the real data: a folder or archive in one of the official layouts."),
    "out": _option("--out", type=PATH, help=
        "Run folder. Default: a folder in runs/ whose name describes the run."),
    "runs": _option("--runs", type=RunsFolder(), default=Path("runs"), help=
        "Folder that holds the run folders; all figures share it. An archive of runs pack is read "
        "as well; nothing is computed then."),
    "figures": _option("--figures", type=FOLDER, help=
        "Folder for pictures and tables. Default: figures/PRESET, followed by the options that "
        "change what they show."),
    "picture": _option("--picture", type=PATH, default=Path("partition.png"), help=
        "File to write, .png or .svg."),
    "threads": _option("--threads", type=COUNT, help=
        "Threads of each process; with the same number, results repeat bit for bit. Default: its "
        "share of the cores, and 1 for the smoke preset."),
    "slot_memory": _option("--slot-memory", metavar="SIZE", expose_value=False,
        callback=_limit_slots, help=
        "Memory for the k pushes of an epoch, such as 2GB; beyond it they are kept in a file in "
        "the run folder while the run is computed. Results do not depend on it. It holds for each "
        "process. Default: a quarter of the machine's memory, which the jobs of a sweep and the "
        "servers of launch divide."),
    "slot_folder": _option("--slot-folder", type=FOLDER, help=
        "Where pushes are kept that exceed --slot-memory. Default: the system's folder for "
        "temporary files."),
    "jobs": _option("--jobs", type=COUNT, help=
        "Processes at the same time. Default: one per core, as far as memory allows."),
    # figures and arenas
    "task": _option("--task", type=NameIn("presets", "trainable"), help=
        "Train this workload instead of the paper's: images, or one of a plug-in."),
    "task_preset": _option("--preset", type=NameIn("presets", "preset_names"), help=
        "paper: as published. laptop: real data, minutes a run on 2 cores. smoke: embedded "
        "synthetic data, seconds. Other options override it. Default: paper, or the first preset "
        "of the workload that --task names."),
    "settings": _option("--set", "settings", multiple=True, default=(), metavar="NAME=VALUE", help=
        "With --task: change a value of its preset, such as gamma=0.01 or one of the workload's "
        "sizes; may be given again."),
    "alphas": _option("--alphas", type=Numbers(), help=
        "alpha on the x-axis of Figures 5 and 6, such as 0.6,0.8,1. Default: 0.2,0.4,...,1; the "
        "paper does not give its values."),
    "loss": _option("--loss", type=float, help=
        "Training loss to reach. Paper: 0.5 (Figure 5), 0.003 (Figure 6)."),
    "dry_run": _option("--dry-run", is_flag=True, help=
        "Only list the runs and what they will take: epochs, time, memory, disk."),
    "draw_only": _option("--draw-only", is_flag=True, callback=_or_archive, help=
        "Compute nothing; draw the runs that are there."),
    "no_share": _option("--no-share", is_flag=True, help=
        "Compute every run from its first epoch, without shared prefixes."),
    # the parameter server
    "engine": _option("--engine", type=click.Choice(["local", "ps"]), default="local", help=
        "Compute each run in one process, or in several on MXNet's parameter server. Results are "
        "equal bit for bit if --threads is equal; local is faster if there are many runs."),
    "workers": _option("--workers", type=COUNT, help=
        "Processes that train, each a share of S_t. Default: one per core, at most 10 (the "
        "paper's k)."),
    "servers": _option("--servers", type=COUNT, help=
        "Processes that each hold and aggregate a part of the model. Default: 1."),
    "deadline": _option("--deadline", type=float, help=
        "Seconds an epoch may take; a device that has not answered by then is left out of it, so "
        "results depend on the clock. Default: no limit."),
    "patience": _option("--patience", type=float, default=PATIENCE, help=
        "Seconds without an answer or a heartbeat after which a process counts as lost."),
    "restarts": _option("--restarts", type=click.IntRange(min=0), default=RESTARTS, help=
        "Give up after this number of restarts in a row without progress."),
}
# fmt: on

ALGORITHM = (
    *("n", "k", "b", "q", "gamma", "alpha", "alpha_schedule", "alpha_decay_epoch", "epochs"),
    *("passes", "local_steps", "batch_size", "rule", "selection", "warm_up", "partition_seed"),
    "precision",
)
SYMBOLS = (  # those that figures do not vary
    *("n", "k", "epochs", "alpha_decay_epoch", "batch_size", "eval_every", "selection", "warm_up"),
    *("partition_seed", "rule", "precision"),
)
FAULTS = ("attack", "attacker_start", "attack_scale", "boost", "drop_rate", "nonfinite")
IMAGES = (
    *("image_partition", "image_named_partition", "image_data", "train_images", "test_images"),
    *("loss_images", "width"),
)
ARRAYS = ("arrays", "network", "image_partition", "image_named_partition", "loss_images")
TEXT = (
    *("text_partition", "text_data", "vocab_size", "bptt", "device_batches", "loss_batches"),
    *("test_batches", "width"),
)
SIZES = {"cifar": IMAGES, "lstm": TEXT}
PREFIXED = ("image_partition", "image_named_partition", "image_data", "text_partition", "text_data")
DIFFER = (*PREFIXED, "width")
UNAMBIGUOUS = tuple(name for name in (*IMAGES, *TEXT) if name not in DIFFER)  # of one task only


def pick(name: str, **changes: Any) -> Callable:
    """The option of that name, with other attributes where a command needs them."""
    flags, attributes = OPTIONS[name]
    attributes = {**attributes, **changes}
    if attributes.get("multiple"):
        attributes["default"] = ()
    shown = attributes["default"] not in (None, False, ())
    return click.option(*flags, show_default=shown, **attributes)


def parameter(name: str) -> str:
    """The parameter that an option sets: ``image_data`` and ``text_data`` both set ``data``."""
    return name.rpartition("_")[2] if name in PREFIXED else name


def spell(name: str, value: Any) -> str:
    """An option as a user types it.

    >>> spell("n", 20), spell("alphas", (0.6, 1.0)), spell("warm_up", False)
    ('-n 20', '--alphas 0.6,1', '--no-warm-up')
    """
    first, _, second = OPTIONS[name][0][0].partition("/")
    if isinstance(value, bool):
        return first if value else second
    text = ",".join(f"{x:g}" for x in value) if isinstance(value, tuple) else quote(str(value))
    return f"{first} {text}"


def with_options(*options: Union[str, Callable]) -> Callable[[Callable], Callable]:
    """Attach options, named or made by ``pick``, in the order in which help lists them.

    Every command that has options has --plugin: what they name may come from a plug-in.
    """

    def attach(command: Callable) -> Callable:
        known = [parameter.name for parameter in getattr(command, "__click_params__", ())]
        for option in reversed([*options, *["plugin"] * ("plugin" not in known)]):
            command = (pick(option) if isinstance(option, str) else option)(command)
        return command

    return attach


def pick_formerly_out(name: str, **changes: Any) -> Callable:
    """An option that 0.1.0 called --out: the old name still works, hidden and with a warning."""
    new = OPTIONS[name][0][0]

    def remember(ctx: click.Context, param: click.Parameter, value: Optional[Path]) -> None:
        if value is not None:
            click.echo(f"slsgd-mx: --out of this command is now {new}: use that name", err=True)
            ctx.meta["slsgd_mx.out"] = value

    def choose(ctx: click.Context, param: click.Parameter, value: Optional[Path]):
        source = ctx.get_parameter_source(name)  # options the user gave are processed first
        return value if source.name == "COMMANDLINE" else ctx.meta.get("slsgd_mx.out", value)

    old = click.option("--out", type=PATH, hidden=True, expose_value=False, callback=remember)
    return lambda command: pick(name, callback=choose, **changes)(old(command))


def given(**options: Any) -> Dict[str, Any]:
    """The options that the user gave, which override the preset."""
    return {name: value for name, value in options.items() if value is not None}
