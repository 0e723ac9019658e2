"""Train one configuration for its seeds with a progress bar, and draw its curves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import List, Optional

from slsgd_mx.cli.engines import current_engine
from slsgd_mx.cli.output import count, print_json, run_document, say
from slsgd_mx.cli.progress import ProgressBar, headline
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import DivergedError, FailedError, RunError
from slsgd_mx.figures.build import draw_runs, write_curves
from slsgd_mx.figures.captions import attackers, label_of, threat
from slsgd_mx.figures.panels import joined
from slsgd_mx.runs.index import RunIndex
from slsgd_mx.runs.metrics import Row, average, read_metrics
from slsgd_mx.runs.records import load_run
from slsgd_mx.runs.trainer import RunResult
from slsgd_mx.system.precision import warn_of_no_gain


def run_repeats(config: RunConfig, repeats: int, out: Path | None, data_dir: Path | None) -> None:
    """Train with seeds seed .. seed+repeats-1, one after the other; report their mean."""
    warn_of_no_gain(config.precision)
    index = RunIndex(Path("runs") if out is None else out)
    if repeats == 1:
        home = index.folder(config) if out is None else out
        finish(config, [run_one(config, home, data_dir)], home)
        return
    home = index.home / f"{config.slug}-repeats" if out is None else out
    if (home / "config.json").exists():
        raise RunError(f"{home} holds a single run: choose another folder for repeats with --out")
    seeds = range(config.seed, config.seed + repeats)
    configs = [replace(config, seed=seed) for seed in seeds]
    folders = [index.folder(c, home / f"seed{c.seed}") for c in configs]
    results = [run_one(c, folder, data_dir) for c, folder in zip(configs, folders)]
    finish(config, results, home)


def run_one(config: RunConfig, folder: Path, data_dir: Optional[Path]) -> RunResult:
    """Train one run and show its progress; a run that diverges or fails is a result too."""
    with ProgressBar(config, folder) as bar:
        try:
            result = current_engine().train(config, folder, data_dir, listener=bar)
        except (DivergedError, FailedError) as error:
            return RunResult(folder, read_metrics(folder), diverged=str(error))
    if result.resumed_from == config.epochs:
        say(f"already done: {folder}")
    return result


def finish(config: RunConfig, results: List[RunResult], home: Path) -> None:
    """Draw the picture, write its numbers and print the last metrics."""
    runs = [result.rows for result in results if result.rows]
    many = f" (mean of {len(runs)} seeds)" if len(runs) > 1 else ""
    if runs:
        draw_runs(config, runs, home / "curve.png")
        if len(results) > 1:
            label = joined(label_of(config), threat(config), attackers(config))
            write_curves(home / "curve.csv", config, {label: runs})
        for last in average(config, runs)[-1:]:
            say(f"epoch {last['epoch']}{many}: {summarize(config, last)}")
    skipped = sum(int(row.get("skipped") or 0) for rows in runs for row in rows)
    if skipped:
        say(f"in {count(skipped, 'epoch')} too few pushes were left, so the model did not change")
    files = "curve.png, metrics.csv" if len(results) == 1 else "curve.png, curve.csv, seed*/"
    say(f"run folder: {home}  ({files})")
    stored = [load_run(result.folder) for result in results if result.rows]
    documents = [{**run_document(run), "metrics": run.columns} for run in stored]
    picture = home / "curve.png" if runs else None
    print_json({"folder": home, "picture": picture, "runs": documents})
    reasons = [result.diverged for result in results if result.diverged]
    if reasons:
        raise RunError("\n".join(reasons))


def summarize(config: RunConfig, row: Row) -> str:
    """The metrics of a row as text.

    >>> summarize(RunConfig(), {"train_loss": "1.5", "test_loss": "1.6", "test_accuracy": "0.4"})
    'train loss 1.5000, test loss 1.6000, test accuracy 0.4000'
    """
    names = headline(config)
    return ", ".join(f"{name.replace('_', ' ')} {float(row[name]):.4f}" for name in names)
