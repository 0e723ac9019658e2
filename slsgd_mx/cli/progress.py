"""Progress of one run or many: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence

import click
from tqdm import tqdm

from slsgd_mx.cli.output import columns
from slsgd_mx.config import RunConfig
from slsgd_mx.sweeps.plan import Plan
from slsgd_mx.sweeps.pool import Job
from slsgd_mx.system import signals
from slsgd_mx.system.processes import Message

if TYPE_CHECKING:
    from slsgd_mx.runs.trainer import Progress

BAR = "{percentage:3.0f}%|{bar:8}| {n_fmt}/{total_fmt} [{remaining} left{postfix}]"
TAKEN = 36  # columns of such a bar without its postfix, if hours are left
LINE_EVERY = 60.0  # seconds between two lines about a sweep


def on_terminal() -> bool:
    """Whether standard error is a terminal, on which a bar can be redrawn."""
    with contextlib.suppress(ValueError, AttributeError):  # it is closed
        return sys.stderr.isatty()
    return False


def duration(seconds: float) -> str:
    """
    >>> duration(42), duration(600), duration(20_000)
    ('42 seconds', '10 minutes', '5.6 hours')
    """
    if seconds < 120:
        return f"{seconds:.0f} second{'s' * (round(seconds) != 1)}"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def fitting(words: Sequence[str], width: int) -> str:
    """As many words, the most important first, as fit.

    >>> fitting(["test accuracy 0.4", "train loss 1.5", "alpha 1"], 36)
    'test accuracy 0.4, train loss 1.5'
    """
    kept: List[str] = []
    for word in words:
        if len(", ".join([*kept, word])) > width:
            break
        kept.append(word)
    return ", ".join(kept)


class ProgressBar:
    """The progress of one run.

    On a terminal a bar over the epochs with metrics, throughput and the time left; elsewhere one
    line for each evaluation.
    """

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self.config, self.folder = config, folder
        self.bar: Optional[tqdm] = None
        self.start: Optional[int] = None
        self.began = 0.0
        self.metrics: Dict[str, float] = {}

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.bar is not None:
            with contextlib.suppress(OSError, ValueError):
                self.bar.close()

    def __call__(self, progress: Progress) -> None:
        signals.check()
        with contextlib.suppress(OSError, ValueError):  # no standard error: keep training
            if self.start is None:
                self._begin(progress)
            elif self.bar is not None:
                self._move(progress)
            elif progress.metrics:
                click.echo(self._line(progress), err=True)

    def _begin(self, progress: Progress) -> None:
        self.start, self.began = progress.epoch, time.monotonic()
        if progress.epoch:
            click.echo(f"resuming after epoch {progress.epoch}: {self.folder}", err=True)
        if on_terminal():
            total = self.config.epochs
            self.bar = tqdm(
                total=total, initial=self.start, dynamic_ncols=True, bar_format=BAR, leave=True
            )

    def _move(self, progress: Progress) -> None:
        self.metrics.update(progress.metrics or {})
        sizes = self.config.sizes
        others = [name for name in headline(self.config) if name not in sizes.panels]
        order = [*sizes.panels, *others]
        words = [_metric(name, self.metrics[name]) for name in order if name in self.metrics]
        speed = f"{progress.units / max(progress.seconds, 1e-9):.0f} {sizes.unit}/s"
        alpha = f"alpha {self.config.alpha_at(progress.epoch):g}"
        words = [*words[:2], speed, *words[2:], alpha]
        self.bar.set_postfix_str(fitting(words, columns() - TAKEN), refresh=False)
        self.bar.update()

    def _line(self, progress: Progress) -> str:
        found = progress.metrics or {}
        words = [_metric(name, found[name]) for name in headline(self.config) if name in found]
        left = self.config.epochs - progress.epoch
        pace = (time.monotonic() - self.began) / max(1, progress.epoch - self.start)
        rest = f"; {duration(left * pace)} left" if left else ""
        return f"epoch {progress.epoch}/{self.config.epochs}: {', '.join(words)}{rest}"


def headline(config: RunConfig) -> Sequence[str]:
    """The metrics worth a line: the task's, and the success of the attack if it is measured."""
    return config.metrics[: len(config.sizes.metrics) + 1]


def _metric(name: str, value: float) -> str:
    return f"{name.replace('_', ' ')} {value:.4g}"


class Counter:
    """How much of a total is done: a bar on a terminal, elsewhere a line every minute."""

    def __init__(self, total: int, what: str) -> None:
        self.total, self.what, self.done = total, what, 0
        self.bar = tqdm(total=total, dynamic_ncols=True, bar_format=BAR) if on_terminal() else None
        self.began = self.said = time.monotonic()

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def update(self, more: int = 1) -> None:
        self.done += more
        if self.bar is not None:
            self.bar.update(more)
        elif time.monotonic() - self.said >= LINE_EVERY or self.done >= self.total:
            self.said = time.monotonic()
            pace = (self.said - self.began) / max(1, self.done)
            left = duration((self.total - self.done) * pace)
            click.echo(f"{self.what} {self.done}/{self.total}; {left} left", err=True)


class Overall:
    """The progress of all runs of a plan: epochs, and runs ended, running and failed.

    On a terminal a bar; elsewhere a line when a run ends, and every minute.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.epochs = plan, 0
        self.ended = self.failed = 0
        self.running: Dict[str, int] = {}
        self.bar: Optional[tqdm] = None
        self.began = self.said = time.monotonic()

    def __enter__(self) -> Overall:
        if self.plan.to_do and on_terminal():
            with contextlib.suppress(OSError, ValueError):
                self.bar = tqdm(total=self.plan.epochs, dynamic_ncols=True, bar_format=BAR)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.bar is not None:
            with contextlib.suppress(OSError, ValueError):
                self.bar.close()

    def __call__(self, job: Job, message: Message) -> None:
        signals.check()
        ended = message["event"] == "end"
        if ended:
            self.running.pop(job.name, None)
            self.ended += 1
            self.failed += message["status"] in ("failed", "skipped")
        else:
            self.epochs += message["event"] == "epoch"
            self.running[job.name] = message["epoch"]
        with contextlib.suppress(OSError, ValueError):  # no standard error: keep computing
            if self.bar is not None:
                self.bar.set_postfix_str(self._words(), refresh=False)
                self.bar.update(int(message["event"] == "epoch"))
            elif ended or time.monotonic() - self.said >= LINE_EVERY:
                self.said = time.monotonic()
                click.echo(self._line(), err=True)

    def _words(self) -> str:
        words = f"{self.ended}/{len(self.plan.to_do)} runs, {len(self.running)} running"
        return words + (f", {self.failed} failed" if self.failed else "")

    def _line(self) -> str:
        left = self.plan.epochs - self.epochs
        pace = (time.monotonic() - self.began) / max(1, self.epochs)
        rest = f"; {duration(left * pace)} left" if left > 0 and self.epochs else ""
        return f"epochs {self.epochs}/{self.plan.epochs}: {self._words()}{rest}"
