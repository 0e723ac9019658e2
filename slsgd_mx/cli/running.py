"""Run one configuration over its seeds with a progress bar; leave a curve picture behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import List, Optional

import click
from tqdm import tqdm

from ..config import RunConfig
from ..curves import draw_runs, mean_rows
from ..store import Row
from ..trainer import Progress, RunResult, train


def run_repeats(
    config: RunConfig, repeats: int, out: Optional[Path], data_dir: Optional[Path]
) -> None:
    """Train seeds seed .. seed+repeats-1, one after the other; report each and their mean."""
    home = Path("runs") / config.slug if out is None else out
    if repeats == 1:
        result = run_one(config, home, data_dir)
        finish(config, [result], home)
        return
    if out is None:
        home = home.with_name(f"{home.name}-x{repeats}")
    results = []
    for seed in range(config.seed, config.seed + repeats):
        results.append(run_one(replace(config, seed=seed), home / f"seed{seed}", data_dir))
    finish(config, results, home)


def run_one(config: RunConfig, folder: Path, data_dir: Optional[Path]) -> RunResult:
    """One run with its progress bar."""
    with ProgressBar(config, folder) as bar:
        result = train(config, folder, data_dir, listener=bar)
    if result.resumed_from == config.epochs:
        click.echo(f"already done: {folder}")
    return result


def finish(config: RunConfig, results: List[RunResult], home: Path) -> None:
    """The picture and the last line."""
    rows = [result.rows for result in results]
    draw_runs(config, rows, home / "curve.png")
    last = mean_rows(config, rows)[-1]
    over = f" (mean of {len(rows)} seeds)" if len(rows) > 1 else ""
    click.echo(f"epoch {config.epochs}{over}: {summarize(config, last)}")
    click.echo(
        f"run folder: {home}  (curve.png, metrics.csv)"
        if len(rows) == 1
        else f"run folder: {home}  (curve.png, one folder a seed)"
    )


def summarize(config: RunConfig, row: Row) -> str:
    """The metrics of a row in a few words.

    >>> summarize(RunConfig(), {"train_loss": "1.5", "test_loss": "1.6", "test_accuracy": "0.4"})
    'train loss 1.5000, test loss 1.6000, test accuracy 0.4000'
    """
    names = config.task.metrics
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
            self.bar.close()

    def __call__(self, progress: Progress) -> None:
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
        self.bar.set_postfix(
            {
                "alpha": f"{self.config.alpha_at(progress.epoch):g}",
                **shown,
                f"{self.config.task.unit}/s": speed,
            },
            refresh=False,
        )
        self.bar.update()
