"""Panels of figures as data for the charts of the page."""

from __future__ import annotations

import math
import re
from typing import Any, Dict, Iterable, List, Sequence

import numpy as np

from slsgd_mx.figures.plot import Curve, Panel, band, beyond, crosses, heights, looks_of
from slsgd_mx.figures.style import COLOURS, LINES, MARKERS, look

# The same colours, as they are readable on a dark page.
DARK_COLOURS = (
    "#F2F2F2",
    "#FF8A3D",
    "#4AA8E8",
    "#2CC79B",
    "#E59BC8",
    "#F2B84B",
    "#8FD3FF",
    "#C79A6B",
)
NAMES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "x", "cross", "star")
SYMBOLS = dict(zip(MARKERS, NAMES))
GREEK = ("alpha", "beta", "gamma", "mu", "sigma")
LETTERS = dict(zip(GREEK, "αβγμσ"))
DIGITS = 6  # of the numbers in the page


def readable(text: str) -> str:
    r"""A label without TeX, as the CSV files and the legends have it.

    >>> readable(r"SLSGD, $\gamma=0.1$, $b=2$"), readable("SLSGD; gamma=0.1; b=2")
    ('SLSGD, γ=0.1, b=2', 'SLSGD, γ=0.1, b=2')
    >>> readable(r"$|x_T - x_*|$"), readable("gammas; a")
    ('|x_T - x_*|', 'gammas, a')
    >>> readable(r"from \$1 to \$2, $q=2$")
    'from $1 to $2, q=2'
    """
    text = re.sub(r"(?<!\\)\$", "", text).replace(r"\$", "$").replace("; ", ", ")
    return re.sub(rf"\\?\b({'|'.join(GREEK)})(?![A-Za-z])", lambda m: LETTERS[m.group(1)], text)


def rounded(values: Iterable[float]) -> List[Any]:
    """Numbers for JSON: a few digits, and None where there is no finite value.

    >>> rounded([0.123456789, float("nan"), 2.0])
    [0.123457, None, 2]
    """
    return [_rounded(float(value)) for value in values]


def _rounded(value: float) -> Any:
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) and abs(value) < 1e15 else float(f"{value:.{DIGITS}g}")


def styles(count: int) -> List[Dict[str, Any]]:
    """The looks of curves, by number."""
    looks = [look(number) for number in range(count)]
    return [
        {
            "light": "#161616" if each["color"] == "k" else each["color"],
            "dark": DARK_COLOURS[COLOURS.index(each["color"])],
            "dash": _dash(each["linestyle"]),
            "symbol": SYMBOLS[each["marker"]],
        }
        for each in looks
    ]


def _dash(line: Any) -> str:
    """A Matplotlib line style in the words of the plotting library."""
    assert line in LINES
    return "solid" if line == "-" else ",".join(f"{2 * length:g}px" for length in line[1])


def chart(panels: Sequence[Panel], columns: int = 2) -> Dict[str, Any]:
    """Panels with the numbers of their looks, which are equal for equal labels."""
    looks = looks_of(panels)
    return {"columns": columns, "panels": [_panel(panel, looks) for panel in panels]}


def _panel(panel: Panel, looks: Dict[str, int]) -> Dict[str, Any]:
    bands = [band(curve) for curve in panel.curves]
    limits = heights(panel, bands)
    return {
        "title": readable(panel.title.replace("\n", " ")),
        "xlabel": readable(panel.xlabel),
        "ylabel": readable(panel.ylabel),
        "log": panel.yscale == "log",
        "logx": panel.xscale == "log",
        "limits": rounded(limits),
        "decay": panel.decay_epoch,
        "dots": panel.dots,
        "ownLegend": panel.own_legend,
        "curves": [
            {
                **_curve(curve, looks[curve.label], each, _remarks(panel, curve, each, limits)),
                **_diverged(curve, each[1], limits),
            }
            for curve, each in zip(panel.curves, bands)
        ],
    }


def _remarks(panel: Panel, curve: Curve, each: np.ndarray, limits: tuple) -> List[str]:
    left = beyond(each, limits, panel.zoom).any() if len(curve.x) else False
    return [readable(text) for text in [curve.remark, panel.outside if left else ""] if text]


def _diverged(curve: Curve, mean: np.ndarray, limits: tuple) -> Dict[str, Any]:
    """Where repeats diverged, and how high the cross is: None at the upper edge."""
    if not len(curve.diverged):
        return {}
    x, height = crosses(curve, mean, limits)
    return {"diverged": {"x": rounded(x), "y": rounded(height)}}


def _curve(curve: Curve, style: int, each: np.ndarray, remarks: List[str]) -> Dict[str, Any]:
    low, mean, high = each
    found: Dict[str, Any] = {
        "label": readable(curve.label),
        "style": style,
        "remarks": remarks,
        "repeats": len(curve.y) if curve.summary is None else 0,  # 0: not known
        "x": rounded(curve.x),
        "mean": rounded(mean),
    }
    if (low < high).any():
        found.update(low=rounded(low), high=rounded(high))
    never = np.isinf(mean)  # such as a loss that is never reached
    if never.any():
        found["never"] = rounded(curve.x[never])
    return found
