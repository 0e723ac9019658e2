"""Kinds and types of options beyond those of click."""

from __future__ import annotations

import itertools
import os
import re
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, Iterable, List, Optional, Tuple

import click
from click.shell_completion import CompletionItem, ShellComplete

from slsgd_mx.cli.output import COPIES
from slsgd_mx.errors import RunError


def complete(names: Iterable[str], incomplete: str) -> List[CompletionItem]:
    """What a shell proposes for a word that is not complete."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class AnyPath(click.Path):
    """A path that is not empty; an empty text would mean the current folder."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(path_type=Path, **attributes)

    def convert(self, value, param, ctx) -> Path:
        if value == "":
            self.fail("the path is empty.", param, ctx)
        return super().convert(value, param, ctx)


class Folder(AnyPath):
    """A folder that exists or can be made: neither it nor anything above it is a file or device."""

    def convert(self, value, param, ctx) -> Path:
        path = super().convert(value, param, ctx)
        there = next((p for p in (path, *path.absolute().parents) if os.path.lexists(p)), path)
        if not there.is_dir() and os.path.lexists(there):
            self.fail(f"{str(path)!r} cannot be a folder: {there} is not one.", param, ctx)
        return path


class RunsFolder(Folder):
    """A folder of runs, or an archive of them (``runs pack``), which is read from a copy."""

    def convert(self, value, param, ctx) -> Path:
        path = Path(value)
        if not path.name.endswith(".tar.gz") or path.is_dir() or ctx.resilient_parsing:
            return super().convert(value, param, ctx)
        if not path.is_file():
            self.fail(f"the archive {str(path)!r} does not exist.", param, ctx)
        from slsgd_mx.runs.sharing import unpack_into
        from slsgd_mx.system.files import disk_errors

        copy = tempfile.TemporaryDirectory(prefix="slsgd-mx-")
        ctx.call_on_close(copy.cleanup)
        ctx.meta[COPIES] = {copy.name: str(path)}
        with disk_errors(Path(copy.name)):
            unpack_into(path, Path(copy.name))
        return Path(copy.name)


class RunName(click.ParamType):
    """A run: its folder, or a unique part of its name, which shells propose."""

    name = "RUN"

    def shell_complete(self, ctx, param, incomplete: str) -> List[CompletionItem]:
        from slsgd_mx.runs.records import find_folders
        from slsgd_mx.runs.selection import short_names

        home = ctx.params.get("runs")  # None: an archive, or what cannot be a folder
        try:
            names = short_names(find_folders(Path(home)) if home else (), Path(home or "."))
        except (OSError, RunError):
            return []
        given = set(ctx.params.get(param.name) or ())
        items = {name: path.name for path, name in names.items() if name not in given}
        if incomplete:  # the path of a folder
            items.update((str(path), "") for path in names)
        return [
            CompletionItem(item, help=shown if _is_plain(shown) else None)
            for item, shown in items.items()
            if item.startswith(incomplete) and _is_plain(item)
        ]


def _is_plain(word: str) -> bool:
    """Whether a shell takes a word as it is: whoever shared a run has chosen its folder's name.

    >>> [_is_plain(word) for word in ("runs/mine", "my run", "$(rm x)", "a\\nb", "", "--help")]
    [True, False, False, False, False, False]
    """
    return re.fullmatch(r"[\w./@%+:,][\w./@%+:,=-]*", word) is not None


class NameIn(click.ParamType):
    """One of the names in a registry or tuple, or that a function returns.

    It is imported only when it is needed.
    """

    name = "name"

    def __init__(self, module: str, registry: str) -> None:
        self.module, self.registry = module, registry

    def names(self) -> List[str]:
        found = getattr(import_module(f"slsgd_mx.{self.module}"), self.registry)
        return list(found() if callable(found) else found)

    def get_metavar(self, param: click.Parameter, ctx: Optional[click.Context] = None) -> str:
        names = "|".join(self.names())
        return f"[{names}]" if len(names) <= 40 else "NAME"

    def shell_complete(self, ctx, param, incomplete: str) -> List[CompletionItem]:
        return complete(self.names(), incomplete)

    def convert(self, value: str, param, ctx) -> str:
        if value not in self.names():
            self.fail(f"{value!r} is not one of {', '.join(self.names())}.", param, ctx)
        return value


class ChoiceIn(NameIn):
    """``NAME:key=value,...`` of a registry; ``find`` of the module checks it and gives its text."""

    name = "NAME:key=value,..."

    def __init__(self, module: str, registry: str, find: str) -> None:
        super().__init__(module, registry)
        self.find = find

    def get_metavar(self, param: click.Parameter, ctx: Optional[click.Context] = None) -> str:
        return "NAME[:key=value,...]"

    def convert(self, value: str, param, ctx) -> str:
        from slsgd_mx.errors import ConfigError

        try:
            return getattr(import_module(f"slsgd_mx.{self.module}"), self.find)(value).text
        except ConfigError as error:
            self.fail(f"{error}.", param, ctx)


class RuleText(ChoiceIn):
    """A rule, after any number of pre-aggregations: ``nnm+krum``."""

    def __init__(self) -> None:
        super().__init__("rules.pipeline", "RULES", "find_rule")

    def shell_complete(self, ctx, param, incomplete: str) -> List[CompletionItem]:
        from slsgd_mx.rules import PRE_AGGREGATIONS

        before, plus, _ = incomplete.rpartition("+")
        names = [*self.names(), *(f"{name}+" for name in PRE_AGGREGATIONS)]
        return complete([before + plus + name for name in names], incomplete)


class Option(click.Option):
    """An option that lists its names in its help if they are too many for one line."""

    def get_help_record(self, ctx: click.Context) -> Optional[Tuple[str, str]]:
        record = super().get_help_record(ctx)
        if record is not None and isinstance(self.type, NameIn) and "NAME" in record[0]:
            record = record[0], f"{record[1]} One of {', '.join(self.type.names())}."
        return record


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
    """Numbers separated by commas."""

    name = "A,B,..."

    def convert(self, value, param, ctx) -> Tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(float(number) for number in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers, such as 0.6,0.8,1.", param, ctx)


class Items(click.ParamType):
    """A tuple, spelled as tables show it: each item of the type that the default has in its place.

    >>> Items((8, 8)).convert("64:32:16", None, None), Items(()).convert("", None, None)
    ((64, 32, 16), ())
    """

    name = "A:B:..."

    def __init__(self, default: Tuple) -> None:
        self.kinds = [click.types.convert_type(type(item)) for item in default] or [click.STRING]

    def convert(self, value, param, ctx) -> Tuple:
        if isinstance(value, tuple):
            return value
        items = value.split(":") if value else []
        kinds = itertools.chain(self.kinds, itertools.repeat(self.kinds[-1]))
        return tuple(kind.convert(item.strip(), param, ctx) for item, kind in zip(items, kinds))


class CommandWords(click.Argument):
    """The words after ``launch --``; messages of the inner command name it as a user types it."""

    def get_usage_pieces(self, ctx: click.Context) -> List[str]:
        return super().get_usage_pieces(ctx) if self in ctx.command.params else ["--"]


class TrainingCommand(click.ParamType):
    """The words after ``launch --``; shells complete them as they complete the command alone."""

    name = "COMMAND"

    def shell_complete(self, ctx, param, incomplete: str) -> List[CompletionItem]:
        from slsgd_mx.cli.engines import training_commands

        words = list(ctx.params.get(param.name) or ())
        if not words:
            return complete(training_commands(), incomplete)
        inner = ctx.find_root().command.get_command(ctx, words[0])
        if inner is None or words[0] not in training_commands():
            return []
        return ShellComplete(inner, {}, words[0], "").get_completions(words[1:], incomplete)
