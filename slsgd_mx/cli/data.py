"""Fetch, check and find the data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Optional, Tuple

import click

from slsgd_mx.cli.output import json_option, print_json, say
from slsgd_mx.cli.types import Folder, NameIn
from slsgd_mx.errors import DataError

KNOWN = NameIn("data.registry", "DATASETS")
NAMES = click.argument("names", nargs=-1, type=KNOWN)
HOME = click.option(
    "--data-home",
    type=Folder(),
    help="Folder for all data. Default: $SLSGD_MX_DATA, or the user's cache folder.",
)


@click.group()
def data() -> None:
    """Download, verify or locate CIFAR-10 and WikiText-2.

    Each command handles all data sets, or those that you name.
    """


@data.command()
@NAMES
@HOME
@click.option("--mirror", "mirrors", multiple=True, help="URL of a folder to download from.")
@json_option
def fetch(names: Tuple[str, ...], data_home: Optional[Path], mirrors: Tuple[str, ...]) -> None:
    """Download the official archives; the same command again resumes."""
    from slsgd_mx.data.fetch import fetch as download

    folders = {}
    for name in names or KNOWN.names():
        folders[name] = download(name, data_home, mirrors=mirrors or None)
        say(f"{name}: {folders[name]}")
    print_json({name: {"folder": folder} for name, folder in folders.items()})


@data.command()
@NAMES
@HOME
@json_option
def verify(names: Tuple[str, ...], data_home: Optional[Path]) -> None:
    """Compare the files on disk with the official SHA-256."""
    from slsgd_mx.data.fetch import verify as check

    bad, found = [], {}
    for name in names or KNOWN.names():
        rows = check(name, data_home)
        for file, status, detail in rows:
            say(f"{name}: {file}: {status}{': ' + detail if detail else ''}")
        if not any(status == "ok" for _, status, _ in rows):
            bad.append(name)
        files = [dict(zip(("file", "status", "detail"), map(str, row))) for row in rows]
        found[name] = {"ok": name not in bad, "files": files}
    print_json(found)
    if bad:
        raise DataError(f"missing or damaged: {', '.join(bad)}; slsgd-mx data fetch downloads it")


@data.command()
@NAMES
@HOME
@json_option
def where(names: Tuple[str, ...], data_home: Optional[Path]) -> None:
    """Print the folder of each data set, and whether it is there."""
    from slsgd_mx.data.fetch import where as locate

    places = {name: locate(name, data_home) for name in names or KNOWN.names()}
    print_json({n: {"folder": p.folder, "present": p.present} for n, p in places.items()})
    for name, place in places.items():
        state = "present" if place.present else "missing; slsgd-mx data fetch downloads it"
        say(f"{name}: {place.folder} ({state})")
