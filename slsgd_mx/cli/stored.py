"""Run a stored configuration, changed or as it is."""

from __future__ import annotations

import math
import os
from dataclasses import fields
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import click

from slsgd_mx.cli.options import COUNT, PATH, given, with_options
from slsgd_mx.cli.output import json_option
from slsgd_mx.cli.training import warn_and_run
from slsgd_mx.cli.types import Bounds, Items
from slsgd_mx.errors import ConfigError, RunError

SET = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change a value, such as b=4, attack=negation, local_steps=5:15 or train_images=1000; "
    "none removes an optional one. Give it again for further changes.",
)


@click.command()
@click.argument("file", type=PATH, metavar="CONFIG")
@SET
@with_options("repeats", "arrays", "data_dir", "out", "threads", "slot_memory", json_option)
def run(
    file: Path,
    changes: Tuple[str, ...],
    repeats: Optional[int],
    arrays: Optional[Path],
    data_dir: Optional[Path],
    out: Optional[Path],
    threads: Optional[int],
) -> None:
    """Run a stored configuration, with changes if you like.

    CONFIG is the config.json of a run of any version, a run folder, or a unique part of the name of
    a folder in runs/, such as the digits that slsgd-mx runs shows. The run goes to a folder of
    its own in runs/, named after the changed configuration, or to --out; the stored one is left
    as it is. Without changes and with --out, this repeats a run elsewhere, with as many threads.

    \b
    slsgd-mx run runs/mine/config.json --set b=4 --set seed=1
    slsgd-mx run 3f9a1c --set b=4
    slsgd-mx run runs/mine --out runs/again
    slsgd-mx launch --workers 2 -- run runs/mine --out runs/distributed

    The names are those in config.json: the symbols n, k, b, q, gamma, alpha, epochs (T), passes,
    local_steps (H), batch_size, rule, attack and so on, and the sizes of the workload.
    """
    from slsgd_mx.cli.engines import current_engine
    from slsgd_mx.presets import change
    from slsgd_mx.system.threads import VARIABLE, set_threads

    engine = current_engine()
    path = find_configuration(file)
    stored = read_configuration(path)
    own = stored.sizes.task == "images" and stored.sizes.data != "synthetic"
    if arrays is not None and (data_dir is not None or not own):
        which = "a run of train images --arrays"
        raise click.UsageError(f"--arrays goes with {which}, and without --data-dir")
    asked = parse_changes(changes, stored.sizes)
    config = change(stored, {**asked, **engine.changes})
    usual = engine.threads("smoke" if config.sizes.data == "synthetic" else "paper")
    decided = threads or VARIABLE in os.environ or config != stored
    before = None if decided else threads_of(path)
    fits = before is not None and before <= engine.threads("paper")
    set_threads(threads or (before if fits else usual))
    more = edited_plugins(stored, config)
    if before is not None and not fits:
        more.append(
            f"this run was computed with {before} threads, more than a process has cores here: its "
            f"numbers may differ in their last digits (--threads {before} is exact, and slow)"
        )
    warn_and_run(config, given(**asked), more, repeats, out, arrays or data_dir)


def threads_of(path: Path) -> Optional[int]:
    """The number of threads that last computed a stored run, if its folder says so."""
    from slsgd_mx.runs.manifest import read_sessions

    try:
        sessions = read_sessions(path if path.is_dir() else path.parent)
    except (RunError, OSError):  # damaged, and the configuration is what is needed
        return None
    found = sessions[-1].get("threads") if sessions else None
    return found if type(found) is int and COUNT.min <= found <= COUNT.max else None


def edited_plugins(stored: Any, config: Any) -> List[str]:
    """A warning for each plug-in of which the configuration was stored with another version."""
    here = dict(config.sources)
    return [
        f"{name} has changed since this configuration was stored ({digest[:12]} then, "
        f"{here[name][:12]} now): this is a new run"
        for name, digest in stored.sources
        if here.get(name, digest) != digest
    ]


def find_configuration(file: Path) -> Path:
    """The file or folder that a user means: a path, or part of the name of a run in runs/."""
    from slsgd_mx.runs.records import load_runs
    from slsgd_mx.runs.selection import find_run

    home = Path("runs")
    if file.exists() or file.suffix == ".json" or not home.is_dir():
        return file
    return find_run(str(file), load_runs(home), home)


def read_configuration(path: Path) -> Any:
    """The configuration in a file or run folder; a ConfigError says why there is none."""
    from slsgd_mx.config import RunConfig
    from slsgd_mx.system.files import read_text

    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        why = "is not a file" if file.exists() else "does not exist"
        raise ConfigError(f"{file} {why}: name the config.json of a run, or its folder")
    try:
        return RunConfig.from_json(read_text(file))
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error


def parse_changes(texts: Sequence[str], sizes: Any) -> Dict[str, Any]:
    """Names and values from ``NAME=VALUE``, for a run of such sizes; the last of several wins.

    >>> from slsgd_mx.workloads import Sizes
    >>> parse_changes(["b=4", "gamma=0.05", "attack=nan", "local_steps=5:15", "T=8"], Sizes)
    {'b': 4, 'gamma': 0.05, 'attack': 'nan', 'local_steps': (5, 15), 'epochs': 8}
    """
    from slsgd_mx.runs.selection import ALIASES

    defaults = {field.name: field.default for field in fields(sizes)}
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        name = name.strip()
        if not sign or not name:
            raise ConfigError(f"--set {text!r} is not NAME=VALUE, such as b=4")
        name = name if name in defaults else ALIASES.get(name, name)
        if name == "local_steps":
            none = value.strip().lower() == "none"
            found[name] = None if none else _parse_as(Bounds(), text, value.strip())
        elif isinstance(defaults.get(name), tuple):
            found[name] = _parse_as(Items(defaults[name]), text, value.strip())
        else:
            found[name] = _parse(value.strip())
    return found


def _parse_as(kind: click.ParamType, text: str, value: str) -> Tuple:
    """A tuple, spelled as the option of that kind takes it."""
    try:
        return kind.convert(value, None, None)
    except click.BadParameter as error:
        raise ConfigError(f"--set {text!r} is not NAME={kind.name}: {error.message}") from error


def _parse(text: str) -> Any:
    words = {"none": None, "yes": True, "no": False, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if kind is int or math.isfinite(number):  # nan and inf are attacks
            return number
    return text
