"""One page about stored runs, for a browser."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import click

from slsgd_mx.cli.options import FOLDER, PATH, SYMBOLS, UNAMBIGUOUS, given, pick, with_options
from slsgd_mx.cli.output import COPIES, count, json_option, print_json, say
from slsgd_mx.cli.sweeping import WORKLOAD, take_variant

EVERY = 10.0  # seconds between two versions of a page that is watched
SHARE = 4.0  # times as long as writing took, a watched page is left alone


@click.command()
@with_options(
    pick("runs", default=None, help=
        "Folder that holds the run folders; those of figures and claims directly, others at any "
        "depth. Default: runs, but none with --figures."),
)  # fmt: skip
@click.option(
    "--figures", "folders", multiple=True, type=FOLDER,
    help="Folder with the CSV files of figures, claims.json and arena.json; repeat it. Pictures of "
    "the theory are also found in a folder theory inside or next to it.",
)  # fmt: skip
@click.option(
    "--html", type=PATH, default=Path("report.html"), show_default=True, help="File to write."
)
@click.option(
    "--watch", is_flag=True,
    help="Write the file again and again while runs are computed, with progress and time left; the "
    "open page refreshes itself. Ends when all runs have ended, or with Ctrl-C.",
)  # fmt: skip
@click.option(
    "--every", type=click.FloatRange(min=1, max=3600), default=EVERY, show_default=True,
    metavar="SECONDS", help="How often --watch writes the file.",
)  # fmt: skip
@with_options(
    pick("task_preset", default=None, help=
        "Show the figures of this preset. Default: of every preset with runs in the folder."),
    *WORKLOAD,
    *("released", "repeats", "seed", *SYMBOLS, *UNAMBIGUOUS, "poisoned_devices", "loss", "alphas"),
    json_option,
)  # fmt: skip
def report(
    runs: Optional[Path],
    folders: Tuple[Path, ...],
    html: Path,
    watch: bool,
    every: float,
    preset: Optional[str],
    **options: Any,
) -> None:
    """Write one page for a browser: figures, claims, arena, theory and all runs.

    The file needs no network and no server. Its charts show values, can be zoomed, hide curves and
    give the CSV behind them. Nothing is computed: give the options that the figures were made with
    if they are not a preset's own.

    \b
    slsgd-mx report
    slsgd-mx report --figures figures/laptop
    slsgd-mx report --runs runs --preset smoke --repeats 3 --html smoke.html
    slsgd-mx report --watch

    It needs Plotly: pip install "slsgd-mx[report]".
    """
    from slsgd_mx.report.page import require_extra, write_report
    from slsgd_mx.report.sources import Request

    require_extra()
    runs = Path("runs") if runs is None and not folders else runs
    _check_folders(runs, folders, watch)
    variants = _variants(preset, options)
    chosen = preset is not None or len(variants) == 1
    archive = click.get_current_context().meta.get(COPIES, {}).get(str(runs))
    request = Request(runs, folders, variants, chosen, archive=archive)
    data = _watch(html, request, every) if watch else write_report(html, request)
    for problem in data["problems"]:
        click.echo(f"warning: {problem}", err=True)
    sections = {name: len(data[name]) for name in ("figures", "claims", "arena", "theory")}
    print_json(
        {"file": html, **sections, "runs": len(data["runs"]["rows"]), "problems": data["problems"]}
    )
    say(f"{_found(data)}: open {html} in a browser")


def _found(data: Dict[str, Any]) -> str:
    """How much the page shows; without runs, only what there is."""
    runs = len(data["runs"]["rows"])
    numbers = {
        "run": runs,
        "figure": len(data["figures"]),
        "arena board": len(data["arena"]),
        "theory picture": len(data["theory"]),
        "claim": sum(len(group["claims"]) for group in data["claims"]),
    }
    always = ("run", "figure") if runs or not any(numbers.values()) else ()
    return ", ".join(count(n, name) for name, n in numbers.items() if n or name in always)


def _check_folders(runs: Optional[Path], folders: Tuple[Path, ...], watch: bool) -> None:
    from slsgd_mx.errors import ConfigError

    if watch and runs is None:
        raise ConfigError("--watch needs --runs: CSV files do not change while runs are computed")
    for folder, option in [(runs, "--runs"), *((each, "--figures") for each in folders)]:
        if folder is not None and not folder.is_dir() and not (watch and option == "--runs"):
            raise ConfigError(f"{option} {folder} is not a folder: name one that holds results")


def _variants(preset: Optional[str], options: Dict[str, Any]) -> tuple:
    """The variants of the figures: the one that the options describe, or each preset's own."""
    from slsgd_mx.figures.variants import FIGURE_PRESETS, Variant

    if preset is None and options["task"] is None:
        asked = given(**{**options, "released": options["released"] or None})
        if any(value != () for value in asked.values()):
            raise click.UsageError("give --preset with the options of figures, or --task")
        return tuple(Variant(name, {}) for name in FIGURE_PRESETS)
    variant, workload = take_variant("cifar", {**options, "preset": preset})
    workload.refuse_to_set(())
    return (variant,)


def _watch(html: Path, request: Any, every: float) -> Dict[str, Any]:
    """Write the page until there are runs and all have ended, or until Ctrl-C."""
    from dataclasses import replace

    from slsgd_mx.report.page import write_report
    from slsgd_mx.system import signals

    say(f"open {html} in a browser: it refreshes itself; Ctrl-C ends this")
    try:
        while True:
            began = time.monotonic()
            request.runs.mkdir(parents=True, exist_ok=True)
            unfinished = True
            with contextlib.suppress(FileNotFoundError):  # a run removed a file while it was read
                data = write_report(html, replace(request, watch=every))
                now = data["progress"]
                unfinished = bool(now["unfinished"]) or not now["runs"]
            if not unfinished:
                break
            until = time.monotonic() + max(every, SHARE * (time.monotonic() - began))
            while time.monotonic() < until:
                signals.check()
                time.sleep(0.2)
    except KeyboardInterrupt:
        pass  # the last version says that it is no longer refreshed
    return write_report(html, request)
