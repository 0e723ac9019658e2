"""Why a rule fails: how much of poisoned and of honest pushes it used, epoch by epoch; no MXNet."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Dict, List, Tuple

from slsgd_mx.config import RunConfig
from slsgd_mx.figures.panels import joined
from slsgd_mx.figures.plot import Curve, Panel, band_of_known
from slsgd_mx.figures.variants import Line
from slsgd_mx.runs.pushes import Pushes, by_epoch, read_pushes

TITLES = {
    "poisoned_used": "Share of a poisoned push that the rule used",
    "honest_lost": "Share of an honest push that the rule did not use",
}
COLUMNS = ["group", "curve", "rule", "attack", "seed", "epoch", "poisoned_used", "honest_lost"]


def used_panels(
    lines: Dict[str, List[Line]], folders: Dict[RunConfig, Path]
) -> Tuple[List[Panel], List[List[str]]]:
    """Two panels for each group, and the numbers; nothing if no run has recorded its pushes."""
    labels = dict.fromkeys(line.label for members in lines.values() for line in members)
    styles = {label: number for number, label in enumerate(labels)}
    pushes = {run: read_pushes(folder) for run, folder in folders.items()}
    panels, rows = [], []
    for group, members in lines.items():
        curves: Dict[str, List[Curve]] = {name: [] for name in TITLES}
        for line in members:
            known = {run: pushes[run] for run in line.runs if pushes.get(run)}
            if not known:
                continue
            found = by_epoch(list(known.values()))
            # What a rule would use of the pushes after a divergence is unknown: the line ends.
            ends = min(rows[-1].epoch for rows in known.values())
            attacked = any(row.poisoned for each in known.values() for row in each)
            for name, (epochs, values) in found.items():
                if attacked or name != "poisoned_used":
                    summary = band_of_known(values)  # an epoch may have no poisoned push
                    summary[:, epochs > ends] = math.nan
                    style = styles[line.label]
                    curves[name].append(Curve(line.label, epochs, values, style, summary=summary))
            for run, recorded in known.items():
                rows += [_cells(group, line.label, run, row) for row in recorded]
        for name, drawn in curves.items():
            if drawn:
                panels.append(
                    Panel(joined(TITLES[name], group), "Share", drawn, ylim=(-0.02, 1.02))
                )
    return panels, rows


def _cells(group: str, label: str, run: RunConfig, row: Pushes) -> List[str]:
    shares = [f"{row.poisoned_used:.4g}", f"{row.honest_lost:.4g}"]
    return [group, label, run.rule, run.attack or "none", str(run.seed), str(row.epoch), *shares]
