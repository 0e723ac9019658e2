"""Train one configuration for its seeds with a progress bar, and draw its curves."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import List, Optional

import click
from tqdm import tqdm

from slsgd_mx.cli.engines import current_engine
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import DivergedError, FailedError, RunError
from slsgd_mx.figures.build import draw_runs, write_curves
from slsgd_mx.runs.folder import RunIndex
from slsgd_mx.runs.metrics import Row, average, read_metrics
from slsgd_mx.runs.trainer import Progress, RunResult
from slsgd_mx.system import signals


def run_repeats(config: RunConfig, repeats: int, out: Path | None, data_dir: Path | None) -> None:
    """Train with seeds seed .. seed+repeats-1, one after the other; report their mean."""
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
        click.echo(f"already done: {folder}")
    return result


def finish(config: RunConfig, results: List[RunResult], home: Path) -> None:
    """Draw the picture, write its numbers and print the last metrics."""
    runs = [result.rows for result in results if result.rows]
    many = f" (mean of {len(runs)} seeds)" if len(runs) > 1 else ""
    if runs:
        draw_runs(config, runs, home / "curve.png")
        if len(results) > 1:
            write_curves(home / "curve.csv", config, {"run": runs})
        for last in average(config, runs)[-1:]:
            click.echo(f"epoch {last['epoch']}{many}: {summarize(config, last)}")
    skipped = sum(int(row.get("skipped") or 0) for rows in runs for row in rows)
    if skipped:
        click.echo(f"in {skipped} epochs too few pushes were left, so the model did not change")
    files = "curve.png, metrics.csv" if len(results) == 1 else "curve.png, curve.csv, seed*/"
    click.echo(f"run folder: {home}  ({files})")
    reasons = [result.diverged for result in results if result.diverged]
    if reasons:
        raise RunError("\n".join(reasons))


def summarize(config: RunConfig, row: Row) -> str:
    """The metrics of a row as text.

    >>> summarize(RunConfig(), {"train_loss": "1.5", "test_loss": "1.6", "test_accuracy": "0.4"})
    'train loss 1.5000, test loss 1.6000, test accuracy 0.4000'
    """
    names = config.sizes.metrics
    return ", ".join(f"{name.replace('_', ' ')} {float(row[name]):.4f}" for name in names)


class ProgressBar:
    """A tqdm bar over epochs with alpha, metrics, throughput and the time left."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self.config, self.folder = config, folder
        self.bar: Optional[tqdm] = None
        self.metrics: dict = {}

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.bar is not None:
            with contextlib.suppress(OSError, ValueError):
                self.bar.close()

    def __call__(self, progress: Progress) -> None:
        signals.check()
        with contextlib.suppress(OSError, ValueError):  # no terminal: keep training
            self._show(progress)

    def _show(self, progress: Progress) -> None:
        if self.bar is None:
            if progress.epoch:
                click.echo(f"resuming after epoch {progress.epoch}: {self.folder}", err=True)
            self.bar = tqdm(
                total=self.config.epochs, initial=progress.epoch, unit="epoch", dynamic_ncols=True
            )
            return
        self.metrics.update(progress.metrics or {})
        shown = {name: f"{value:.3f}" for name, value in self.metrics.items()}
        speed = f"{progress.units / max(progress.seconds, 1e-9):.0f}"
        alpha = f"{self.config.alpha_at(progress.epoch):g}"
        unit = f"{self.config.sizes.unit}/s"
        self.bar.set_postfix({"alpha": alpha, **shown, unit: speed}, refresh=False)
        self.bar.update()
