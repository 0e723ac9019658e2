"""What commands print: lines and tables for people, or one JSON document for programs."""

from __future__ import annotations

import json
import math
import shutil
import textwrap
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

import click

# in the context's meta, which nested commands share
KEY = "slsgd_mx.json"
COPIES = "slsgd_mx.copies"  # folder -> the archive of runs that was unpacked there


def _remember(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[KEY] = ctx.meta.get(KEY, False) or value


def json_option(command: Callable) -> Callable:
    """Attach ``--json``: standard output then holds one JSON document and nothing else."""
    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Print one JSON document on standard output, and everything else on standard error.",
    )(command)


def wants_json() -> bool:
    """Whether the user gave ``--json`` to this command or to one around it."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(KEY))


def say(text: str = "", nl: bool = True) -> None:
    """Print a line for people: on standard output, or on standard error with ``--json``."""
    legible = as_given(text).encode(errors="backslashreplace").decode()  # lone surrogates
    click.echo(legible, nl=nl, err=wants_json())


def as_given(text: str) -> str:
    """A text with the name of an archive instead of the folder to which it was unpacked."""
    context = click.get_current_context(silent=True)
    copies = {} if context is None else context.meta.get(COPIES, {})
    for folder, archive in copies.items():
        text = text.replace(folder, archive)
    return text


def count(number: int, noun: str, plural: str = "s") -> str:
    """
    >>> count(1, "run"), count(0, "new run"), count(2, "process", "es")
    ('1 run', '0 new runs', '2 processes')
    """
    return f"{number} {noun}{plural * (number != 1)}"


def print_json(document: Any) -> None:
    """Print the document of ``--json``; without that option, nothing."""
    if wants_json():
        click.echo(json.dumps(to_plain(document), indent=1, allow_nan=False))


def to_plain(value: Any) -> Any:
    """A value as strict JSON has it: paths as text, arrays as lists, NaN and infinity as null.

    A text is as the user gave it: see ``as_given``.

    >>> to_plain({"folder": Path("runs"), "loss": (1.5, float("nan"))})
    {'folder': 'runs', 'loss': [1.5, None]}
    """
    if isinstance(value, dict):
        return {as_given(str(key)): to_plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # NumPy
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return as_given(str(value)) if isinstance(value, (Path, str)) else value


def run_document(run: Any) -> Dict[str, Any]:
    """A run as a part of a JSON document."""
    return {
        "folder": run.path,
        "status": run.status,
        "epoch": run.epoch,
        "epochs": run.symbols.get("epochs"),
        "why": run.why,
        "last": run.last,
        "config": run.config,
    }


def warn_if_unread(data_dir: Optional[Path], configs: Iterable[Any]) -> None:
    """Warn about --data-dir if all runs are on synthetic data."""
    if data_dir is not None and all(config.sizes.data == "synthetic" for config in configs):
        why = "the data is synthetic (see --preset and --data)"
        click.echo(f"warning: --data-dir {data_dir} is not read: {why}", err=True)


def columns() -> int:
    """The width of the terminal; 80 if there is none."""
    return shutil.get_terminal_size((80, 24)).columns


def wrap(text: str, indent: str = "", hanging: str = "") -> str:
    """Text broken into lines that fit the terminal; ``hanging`` further indents all but one."""
    lines = {"initial_indent": indent, "subsequent_indent": indent + hanging}
    return textwrap.fill(text, columns(), break_long_words=False, break_on_hyphens=False, **lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], first: int = 1) -> str:
    """Rows as aligned columns; if they do not fit the terminal, as a paragraph for each row.

    A header is broken at its underscores.  In a paragraph the first cells stand by themselves.
    """
    heads = [name.split("_") for name in header]
    widths = [
        max(map(len, [*words, *(row[place] for row in rows)])) for place, words in enumerate(heads)
    ]
    if sum(widths) + 2 * (len(widths) - 1) > columns():
        return "\n".join(_paragraph(header, row, first) for row in rows)
    height = max(map(len, heads))
    padded = [[""] * (height - len(words)) + words for words in heads]
    lines: List[Sequence[str]] = [list(line) for line in zip(*padded)]
    numeric = [all(_is_number(row[place]) for row in rows) for place in range(len(heads))]
    numeric[0] = False  # names, which may consist of digits
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric)
        ).rstrip()
        for line in [*lines, *rows]
    )


def _paragraph(header: Sequence[str], row: Sequence[str], first: int) -> str:
    rest = [f"{name}={cell}" for name, cell in zip(header[first:], row[first:]) if cell]
    lines = [wrap("  ".join(row[:first])), wrap(" ".join(rest), indent="    ")]
    return "\n".join(filter(None, lines))


def _is_number(cell: str) -> bool:
    return not cell.strip("+-0123456789.e/naif")  # 12/40, nan and inf too
