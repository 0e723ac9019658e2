"""The panels of the theory's pictures from their CSV files alone; no MXNet."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

import numpy as np

from slsgd_mx.errors import RunError
from slsgd_mx.figures.plot import Curve, Panel
from slsgd_mx.system.files import read_text
from slsgd_mx.theory.pictures import TITLES, limits

COLUMNS = ("panel", "curve", "x", "mean", "low", "high")  # as ``draw_part`` writes them
MANY = 12  # a curve of more points is one over epochs


class StoredPicture(NamedTuple):
    """A picture as its CSV file has it."""

    name: str
    path: Path
    title: str
    panels: List[Panel]
    text: str  # of the file


def find_pictures(folder: Path) -> Dict[str, Path]:
    """The CSV files of pictures in a folder, by name."""
    paths = {name: Path(folder) / f"{name}.csv" for name in TITLES}
    return {name: path for name, path in paths.items() if path.is_file()}


def read_picture(name: str, path: Path) -> StoredPicture:
    """Read the numbers of a picture; a RunError if the file is damaged."""
    text = read_text(path)
    found: Dict[str, Dict[str, List[Tuple[float, ...]]]] = {}
    try:
        for row in csv.DictReader(io.StringIO(text)):
            point = tuple(float(row[column]) for column in COLUMNS[2:])
            found.setdefault(row["panel"], {}).setdefault(row["curve"], []).append(point)
        if not found:
            raise ValueError("it has no rows")
        panels = [_panel(title, curves) for title, curves in found.items()]
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        why = f"there is no {error}" if isinstance(error, KeyError) else error
        raise RunError(f"{path} is not the CSV file of a picture of the theory: {why}") from error
    return StoredPicture(name, path, TITLES[name], panels, text)


def _panel(title: str, found: Dict[str, List[Tuple[float, ...]]]) -> Panel:
    """A panel; the file does not say on which scales it was drawn, so the numbers decide."""
    curves = []
    for label, points in found.items():
        x, mean, low, high = np.array(points, float).T
        curves.append(Curve(label, x, mean, summary=np.stack([low, mean, high])))
    heights = np.concatenate([curve.y[np.isfinite(curve.y)] for curve in curves])
    if not len(heights):
        raise ValueError(f"the panel {title!r} has no finite number")
    log = _spans(heights, 5)
    places = np.concatenate([curve.x for curve in curves])
    over_epochs = any(len(curve.x) > MANY for curve in curves)
    symbol = title[len("Over ") :].split()[0] if title.startswith("Over ") else ""
    return Panel(
        title,
        "",
        curves,
        xlabel="Epochs" if over_epochs else symbol,
        yscale="log" if log else "linear",
        ylim=limits(curves) if log else None,
        xscale="log" if not over_epochs and _spans(places, 1000) else "linear",
    )


def _spans(values: np.ndarray, factor: float) -> bool:
    """Whether values are positive and differ by at least that factor."""
    return bool((values > 0).all() and values.max() >= factor * values.min())
