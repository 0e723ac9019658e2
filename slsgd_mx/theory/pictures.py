"""Every picture of the theory, drawn with its numbers beside it; no MXNet."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from slsgd_mx.figures.plot import band, draw
from slsgd_mx.theory.panels import Picture
from slsgd_mx.theory.pictures_thm1 import (
    draw_alpha,
    draw_bound,
    draw_rate,
    draw_schedule,
    draw_steps,
)
from slsgd_mx.theory.pictures_thm2 import draw_attacks, draw_lemma, draw_negation, draw_sweeps
from slsgd_mx.theory.tables import Find, finder, write_csv

PICTURES: Dict[str, Dict[str, Callable[[Find], Picture]]] = {
    "thm1": {
        "thm1-bound": draw_bound,
        "thm1-rate": draw_rate,
        "thm1-alpha": draw_alpha,
        "thm1-steps": draw_steps,
        "thm1-schedule": draw_schedule,
    },
    "thm2": {
        "thm2-attacks": draw_attacks,
        "thm2-sweeps": draw_sweeps,
        "thm2-lemma": draw_lemma,
    },
    "prop1": {"prop1": draw_negation},
}


def draw_part(part: str, folder: Path, out: Path, seeds: Optional[int] = None) -> List[Path]:
    """Draw the pictures of thm1, thm2 or prop1, each with its numbers; return the PNGs."""
    find, made = finder(folder, seeds), []
    for name, make in PICTURES[part].items():
        picture = make(find)
        paths = [out / f"{name}.png", out / f"{name}.svg"]
        draw(picture.panels, paths, picture.title, picture.note, picture.columns)
        write_csv(out / f"{name}.csv", ("panel", "curve", "x", "mean", "low", "high"),
                  numbers(picture))  # fmt: skip
        made.append(paths[0])
    return made


def numbers(picture: Picture) -> List[Tuple]:
    """What a picture shows, a row a point."""
    return [
        (panel.title.replace("\n", ", "), curve.label, float(x), float(mean), float(low), float(up))
        for panel in picture.panels
        for curve in panel.curves
        for x, low, mean, up in zip(curve.x, *band(curve))
    ]
