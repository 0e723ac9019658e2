"""Fetch, check and find the data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Optional, Tuple

import click

from slsgd_mx.cli.options import NameIn
from slsgd_mx.errors import DataError

NAMES = click.argument("names", nargs=-1, metavar="[cifar10|wikitext2]...")
HOME = click.option(
    "--data-home",
    type=click.Path(path_type=Path),
    help="Folder for all data. Default: $SLSGD_MX_DATA, else the user's cache folder.",
)


def _names(names: Tuple[str, ...]) -> Tuple[str, ...]:
    known = NameIn("data.registry", "DATASETS")
    for name in names:
        known.convert(name, None, None)
    return names or tuple(known.names())


@click.group()
def data() -> None:
    """Fetch, verify or find CIFAR-10 and WikiText-2."""


@data.command()
@NAMES
@HOME
@click.option("--mirror", "mirrors", multiple=True, help="Address of a folder to download from.")
def fetch(names: Tuple[str, ...], data_home: Optional[Path], mirrors: Tuple[str, ...]) -> None:
    """Download the official archives (all, or those named); a rerun continues."""
    from slsgd_mx.data import fetch as download

    for name in _names(names):
        click.echo(f"{name}: {download(name, data_home, mirrors=mirrors or None)}")


@data.command()
@NAMES
@HOME
def verify(names: Tuple[str, ...], data_home: Optional[Path]) -> None:
    """Compare what is on disk with the official SHA-256."""
    from slsgd_mx.data import verify as check

    bad = []
    for name in _names(names):
        rows = check(name, data_home)
        for file, status, detail in rows:
            click.echo(f"{name}: {file}: {status}{': ' + detail if detail else ''}")
        if not any(status == "ok" for _, status, _ in rows):
            bad.append(name)
    if bad:
        raise DataError(f"not there or not whole: {', '.join(bad)}; slsgd-mx data fetch gets it")


@data.command()
@NAMES
@HOME
def where(names: Tuple[str, ...], data_home: Optional[Path]) -> None:
    """Print where each data set is, or would be."""
    from slsgd_mx.data import where as locate

    for name in _names(names):
        place = locate(name, data_home)
        state = "present" if place.present else "missing, slsgd-mx data fetch gets it"
        click.echo(f"{name}: {place.folder} ({state})")
