"""The style of all pictures: colours, lines and markers, an empty figure, and writing it to disk.

Equal input gives equal bytes: the user's own Matplotlib settings are ignored, and no date or
version is written.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Sequence, Union

from slsgd_mx.errors import ConfigError, RunError
from slsgd_mx.system.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Paths = Union[str, Path, Sequence[Union[str, Path]]]

# Okabe and Ito's colours for colour-blind readers (a brown for their yellow, too pale on white)
COLOURS = ["k", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A4B1E"]
GREY = "#555555"
# Colour tells curves apart; line style and marker do the same in greyscale.
LINES = ["-", (0, (6, 2)), (0, (4, 1.5, 1, 1.5)), (0, (1.5, 1.2))]
MARKERS = "osD^vXP*"

STYLE = {
    "figure.dpi": 150,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.limits": (-4, 6),
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.7,
    "svg.hashsalt": "slsgd-mx",
}


def literal(text: str) -> str:
    r"""Text that Matplotlib shows as it is, for names that may hold dollar signs.

    >>> literal("from $1 to $2")
    'from \\$1 to \\$2'
    """
    return text.replace("$", r"\$")


def look(style: int) -> dict:
    """The colour, line and marker with this number."""
    marker = MARKERS[(style + style // len(COLOURS)) % len(MARKERS)]
    return {
        "color": COLOURS[style % len(COLOURS)],
        "linestyle": LINES[style % len(LINES)],
        "marker": marker,
        "markersize": 7 if marker in "XP*" else 5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
    }


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """An empty figure of this size in inches, outside pyplot's global state."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        yield figure


def as_paths(path: Paths) -> list[Path]:
    """One path or several, each ending in .png or .svg."""
    paths = [Path(p) for p in ([path] if isinstance(path, (str, os.PathLike)) else path)]
    for p in paths:
        if p.suffix not in (".png", ".svg"):
            raise ConfigError(f"{p} cannot be drawn: the name must end in .png or .svg")
    return paths


def write(figure: Figure, paths: list[Path]) -> list[Path]:
    """Write each file whole or not at all, without dates or versions inside.

    All are rendered before the first is written: a picture that cannot be drawn replaces nothing.
    """
    images = []
    for path in paths:
        kind = path.suffix[1:]
        blank = {"png": ["Software"], "svg": ["Date", "Creator"]}[kind]
        images.append(io.BytesIO())
        figure.savefig(images[-1], format=kind, metadata=dict.fromkeys(blank))
    for path, image in zip(paths, images):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, image.getvalue())
        except OSError as error:
            raise RunError(f"{path} cannot be written: {error.strerror or error}") from error
    return paths
