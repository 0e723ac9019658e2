"""The figures and the theory's pictures, from run folders or from CSV files, as data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError, RunError
from slsgd_mx.figures.adapted import figure_of
from slsgd_mx.figures.build import Built, build_figure
from slsgd_mx.figures.captions import SYNTHETIC
from slsgd_mx.figures.declarations import FIGURES, MetricFigure, file_name
from slsgd_mx.figures.panels import seeds_in_words
from slsgd_mx.figures.stored import StoredFigure, find_figures, read_figure
from slsgd_mx.figures.used import used_panels
from slsgd_mx.figures.variants import Variant, runs_of
from slsgd_mx.presets import NAMES, preset
from slsgd_mx.report.charts import chart, readable
from slsgd_mx.runs.index import RunIndex
from slsgd_mx.system.files import to_csv
from slsgd_mx.theory.pictures import PICTURES, numbers
from slsgd_mx.theory.stored import COLUMNS, find_pictures, read_picture
from slsgd_mx.theory.tables import MissingTable, finder

Entry = Dict[str, Any]


def from_runs(home: Path, variant: Variant, least: float, problems: List[str]) -> List[Entry]:
    """The figures of a variant of which at least that share of the runs is begun or finished."""
    index, entries = RunIndex(home), []
    for name, runs in _runs_of_all(variant).items():
        begun = sum((index.folder(run) / "config.json").exists() for run in runs)
        if begun < least * len(runs) or not begun:
            continue
        try:
            built = build_figure(name, variant, index)
        except RunError:  # none of its runs is finished
            continue
        entries.append(_of_built(built, variant.folder, problems))
    return entries


def _runs_of_all(variant: Variant) -> Dict[str, List[RunConfig]]:
    """The runs of every figure; without those that another workload cannot show, unless all."""
    found: Dict[str, List[RunConfig]] = {}
    refused = []
    for name in FIGURES:
        try:
            found[name] = runs_of(figure_of(name, variant), variant)
        except ConfigError as error:
            refused.append(error)
    if refused and (variant.papers_own or not found):
        raise refused[0]
    return found


def _of_built(built: Built, source: str, problems: List[str]) -> Entry:
    figure = FIGURES[built.name]
    panels = list(built.panels)
    if isinstance(figure, MetricFigure) and not figure.zoom:
        try:
            panels += used_panels(built.lines, built.folders)[0]
        except RunError as error:
            problems.append(f"{built.name} is shown without the pushes used: {error}")
    return {
        "name": file_name(built.name),
        "source": source,
        "title": readable(built.title),
        "note": readable(built.note),
        "csv": to_csv(*built.table),
        **chart(panels),
    }


def from_csv(folder: Path, figures: Sequence[StoredFigure]) -> List[Entry]:
    """The figures of a folder of CSV files."""
    return [
        {
            "name": figure.path.stem,
            "source": str(folder),
            "title": readable(figure.title) + ("" if figure.synthetic else made_up(folder)),
            "note": f"From {figure.path}, {seeds_in_words(figure.seeds)}.",
            "csv": figure.text,
            **chart(figure.panels),
        }
        for figure in figures
    ]


def read_figures(folder: Path, problems: List[str]) -> List[StoredFigure]:
    """The figures whose CSV file is in a folder; what cannot be read is added to ``problems``."""
    found = []
    for name, path in find_figures(folder).items():
        try:
            found.append(read_figure(name, path))
        except RunError as error:
            problems.append(str(error))
    return found


def made_up(folder: Path) -> str:
    """The remark that a folder, named after its preset, holds results on synthetic data.

    For files that do not say so themselves, such as those of earlier versions.
    """
    name = Path(folder).resolve().name.split("-")[0]
    known = name in NAMES and preset("cifar", name).sizes.data == "synthetic"
    return SYNTHETIC if known else ""


def theory_from_runs(home: Path, problems: List[str]) -> List[Entry]:
    """The theory's pictures from the tables in RUNS/theory, as far as there are any."""
    folder = Path(home) / "theory"
    find, entries = finder(folder), []
    for pictures in PICTURES.values() if folder.is_dir() else ():
        for name, make in pictures.items():
            try:
                picture = make(find)
            except MissingTable:
                continue
            except RunError as error:  # a table is damaged, perhaps that of another picture, too
                problems += [str(error)] * (str(error) not in problems)
                continue
            words = {"name": name, "source": str(folder), "title": readable(picture.title)}
            rows = [[_nine(cell) for cell in row] for row in numbers(picture)]
            text = to_csv(COLUMNS, rows)
            shown = chart(picture.panels, picture.columns)
            entries.append({**words, "note": readable(picture.note), "csv": text, **shown})
    return entries


def _nine(cell: object) -> object:
    return f"{cell:.9g}" if isinstance(cell, float) else cell


def theory_from_csv(folder: Path, problems: List[str]) -> List[Entry]:
    """The theory's pictures whose CSV file is in a folder."""
    entries = []
    for name, path in find_pictures(folder).items():
        try:
            picture = read_picture(name, path)
        except RunError as error:
            problems.append(str(error))
            continue
        words = {"name": name, "source": str(folder), "title": readable(picture.title)}
        entries.append(
            {**words, "note": f"From {path}.", "csv": picture.text, **chart(picture.panels)}
        )
    return entries
