"""Everything that the page shows, gathered from folders of runs and of figures."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx import __version__
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError, RunError
from slsgd_mx.figures.variants import Variant
from slsgd_mx.report import boards, pictures, table, verdicts
from slsgd_mx.report.charts import styles
from slsgd_mx.report.progress import Progress, measure
from slsgd_mx.runs.records import Run, find_folders, load_run
from slsgd_mx.runs.stored_config import read_config

LEAST = 0.5  # the share of a figure's runs that must be begun: figures share runs with others
LOOKS = 32  # curves with a look of their own


@dataclass(frozen=True)
class Request:
    """What the page is about."""

    runs: Optional[Path]
    figures: Tuple[Path, ...] = ()
    variants: Tuple[Variant, ...] = ()  # of the figures of the runs
    chosen: bool = False  # the user chose the variant, so its claims are judged in any case
    watch: Optional[float] = None  # seconds after which the open page refreshes itself
    archive: Optional[str] = None  # of which ``runs`` is a copy: the page names it instead


def gather(request: Request) -> Dict[str, Any]:
    """The data of the page, ready for JSON."""
    problems: List[str] = []
    data: Dict[str, Any] = {"figures": [], "claims": [], "arena": [], "theory": []}
    tables, runs, folders, shown, now = [], [], {}, set(), None
    if request.runs is not None:
        runs, folders = read_runs(request.runs, problems)
        now = measure(request.runs, runs)
        _add_runs(data, request, problems)
        data["arena"], shown = boards.from_runs(folders, request.runs, problems)
        tables.append(table.from_runs(runs, request.runs))
    for folder in with_theory(request.figures):
        figures = pictures.read_figures(folder, problems)
        data["figures"] += pictures.from_csv(folder, figures)
        data["theory"] += pictures.theory_from_csv(folder, problems)
        data["arena"] += boards.from_folder(folder, folders, shown, problems)
        found = verdicts.from_folder(folder, problems)
        data["claims"] += [] if found is None else [found]
        tables.append(table.from_csv(figures))
    data["runs"] = table.joined(tables)
    data["files"] = _deduplicate(data["figures"] + data["theory"])
    return {
        **data,
        "styles": styles(LOOKS),
        "problems": problems,
        "summary": _summary(request, _without_copies(runs)),
        "progress": None if now is None else _progress(now, request.watch is not None),
        "watch": request.watch,
        "written": time.strftime("%Y-%m-%d %H:%M:%S"),
        "version": __version__,
    }


def read_runs(home: Path, problems: List[str]) -> Tuple[List[Run], Dict[RunConfig, Path]]:
    """All run folders, and those whose configuration this version understands."""
    runs, folders, strange = [], {}, []
    for path in find_folders(home):
        run = None
        try:
            run = load_run(path)
            runs.append(run)
            config = read_config(path)
            if config not in folders or run.status == "done":  # of copies, one that is finished
                folders[config] = path
        except (RunError, ConfigError, OSError) as error:
            if run is not None and _plugins_of(run):
                strange.append(run)
            else:
                problems.append(str(error))
    problems += _about_plugins(strange)
    return runs, folders


def _without_copies(runs: Sequence[Run]) -> List[Run]:
    """The runs, of equal ones only that which got farthest."""
    found: Dict[str, Run] = {}
    for run in runs:
        key = json.dumps(run.config, sort_keys=True)
        if key not in found or run.epoch > found[key].epoch:
            found[key] = run
    return list(found.values())


def _plugins_of(run: Run) -> List[str]:
    found = run.config.get("sources")
    pairs = found if isinstance(found, list) else []
    return [str(pair[0]) for pair in pairs if isinstance(pair, list) and len(pair) == 2]


def _about_plugins(runs: Sequence[Run]) -> List[str]:
    """One sentence for all runs that the arena could show if their plug-ins were given."""
    names = sorted({name for run in runs for name in _plugins_of(run)})
    if not names:
        return []
    them = f"{len(runs)} runs use" if len(runs) > 1 else "1 run uses"
    each = " for each" if len(names) > 1 else ""
    return [f"{them} {', '.join(names)}: give --plugin{each} to see them in the arena, too"]


def _add_runs(data: Dict[str, Any], request: Request, problems: List[str]) -> None:
    home = request.runs
    assert home is not None
    for variant in request.variants:
        found = pictures.from_runs(home, variant, LEAST, problems)
        data["figures"] += found
        if variant.papers_own and variant.compares_b and (found or request.chosen):
            data["claims"].append(verdicts.from_runs(home, variant))
    if os.path.realpath(home) not in map(os.path.realpath, request.figures):
        packed = verdicts.from_folder(home, problems)  # ``runs pack`` puts claims next to the runs
        data["claims"] += [] if packed is None else [packed]
    data["theory"] += pictures.theory_from_runs(home, problems)


def with_theory(folders: Sequence[Path]) -> List[Path]:
    """Folders of figures, and the folder ``theory`` inside or next to one of them."""
    found = list(folders)
    for folder in folders:
        found += [f for f in (folder / "theory", folder.parent / "theory") if f.is_dir()]
    return list({os.path.realpath(folder): folder for folder in reversed(found)}.values())[::-1]


def _deduplicate(entries: Sequence[Dict[str, Any]]) -> List[str]:
    """Put equal CSV texts, such as those of a figure and its zoom, into one list."""
    texts: Dict[str, int] = {}
    for entry in entries:
        entry["csv"] = texts.setdefault(entry["csv"], len(texts))
    return list(texts)


def _progress(now: Progress, watched: bool) -> Optional[Dict[str, Any]]:
    return {**now._asdict(), "unfinished": now.unfinished} if watched or now.running else None


def _summary(request: Request, runs: Sequence[Run]) -> Dict[str, Any]:
    """What was run, on which machine, how long, with which versions."""
    sessions = [each for run in runs for each in run.manifest["sessions"]]
    adopted = _adopted(runs)
    about = [
        ("Runs", str(request.runs) if request.runs else "none: this page is made from CSV files"),
        ("Figures", ", ".join(map(str, request.figures))),
        ("Tasks and data", _distinct(_what(run) for run in runs)),
        ("Machine", _distinct(_machine(each) for each in sessions)),
        ("Computed", _period(sessions)),
        ("Versions", _distinct(_versions(each) for each in sessions)),
    ]
    if request.runs is None:
        about.append(("Machine", "not recorded in CSV files: give --runs to show it"))
    return {
        "about": [[name, text] for name, text in about if text],
        "epochs": sum(run.epoch - adopted[run.path] for run in runs),
        "seconds": sum(_seconds(run, adopted[run.path]) for run in runs),
    }


_NAMES = {
    "slsgd_mx": "slsgd-mx",
    "mxnet": "MXNet",
    "numpy": "NumPy",
    "python": "Python",
    "revision": "revision",
}


def _versions(session: Dict[str, Any]) -> str:
    return ", ".join(f"{name} {session[key]}" for key, name in _NAMES.items() if key in session)


def _adopted(runs: Sequence[Run]) -> Dict[Path, int]:
    """The epochs of each run that one of the other runs has computed: its prefix."""
    by_name = {run.path.name: run for run in runs}
    found = {}
    for run in runs:
        names = [str(each["prefix"]) for each in run.manifest["sessions"] if "prefix" in each]
        shared = [by_name[name].epoch for name in names if name in by_name]
        found[run.path] = min(max(shared, default=0), run.epoch)
    return found


def _seconds(run: Run, after: int) -> float:
    """How long the epochs after this one took; rows that do not say so count as nothing."""
    found, epochs = run.columns.get("seconds"), run.columns.get("epoch")
    if found is None or epochs is None or {found.dtype.kind, epochs.dtype.kind} - {"i", "f"}:
        return 0.0
    return float(found[np.isfinite(found) & (epochs > after)].sum())


def _distinct(texts: Any) -> str:
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _what(run: Run) -> str:
    symbols = run.symbols
    words = [str(symbols.get("task", "")), str(symbols.get("data", symbols.get("objective", "")))]
    return " on ".join(filter(None, words))


def _machine(session: Dict[str, Any]) -> str:
    cpu, cores, threads = (session.get(name) for name in ("cpu", "cores", "threads"))
    known = f"{cpu} ({session['instructions']})" if "instructions" in session else cpu
    return f"{known}, {cores} cores, {threads} thread(s) a process" if cpu else ""


def _period(sessions: Sequence[Dict[str, Any]]) -> str:
    times = sorted(str(each["started"]) for each in sessions if "started" in each)
    if not times:
        return ""
    return times[0] if times[0] == times[-1] else f"first session {times[0]}, last {times[-1]}"
