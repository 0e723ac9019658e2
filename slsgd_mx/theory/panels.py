"""What the pictures of the theory share: curves from tables, panels on a log scale; no MXNet."""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.figures.plot import Curve, Panel, band
from slsgd_mx.theory import summary
from slsgd_mx.theory.tables import Table

ERROR = r"$F(x_t) - F(x_*)$"
FLOOR = "Mean error, last half of epochs"
MEASURED, FITTED, EXPLICIT = "measured", "bound, fitted floor", "bound, floor of the proof"


class Picture(NamedTuple):
    """One file: its panels, title and small print."""

    panels: List[Panel]
    title: str
    note: str
    columns: int = 2


def limits(curves: Sequence[Curve]) -> Tuple[float, float]:
    """Limits on a log scale that leave nothing out, down to 13 decades below the top.

    Less than two decades are rounded to whole ones, for the sake of the labels.
    """
    heights = np.concatenate([band(curve).ravel() for curve in curves])
    heights = np.log10(heights[np.isfinite(heights) & (heights > 0)])
    high = heights.max()
    low = max(heights.min(), high - 13)
    if high - low < 2:
        return 10 ** np.floor(low - 0.02), 10 ** np.ceil(high + 0.02)
    margin = 0.05 * (high - low)
    return 10 ** (low - margin), 10 ** (high + margin)


def log_panel(title: str, curves: Sequence[Curve], ylabel: str = ERROR, **more) -> Panel:
    return Panel(title, ylabel, curves, yscale="log", ylim=limits(curves), **more)


def over_epochs(table: Table, label: str, **more) -> Curve:
    return Curve(label, table["epoch"][0], table["error"], **more)


def against_bounds(table: Table, seen: Optional[Table] = None) -> List[Curve]:
    """The measured error, the theorem with a fitted floor, and with the proof's own.

    The last has V_1 and V_2 of the same table, or of another (``seen``).
    """
    epochs = table["epoch"][0]
    return [
        over_epochs(table, MEASURED, style=0),
        Curve(FITTED, epochs, summary.fitted_bound(table), style=1),
        Curve(EXPLICIT, epochs, summary.explicit_bound(table, seen), style=2),
    ]


def over_values(label: str, tables: Dict[float, Table], value: Callable, **more) -> Curve:
    """A value of each seed, over what was varied."""
    return Curve(label, list(tables), np.array([value(t) for t in tables.values()]).T, **more)
