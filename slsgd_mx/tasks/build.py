"""From a configuration to its task."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from slsgd_mx.config import RunConfig
from slsgd_mx.core.task import Task


def build_task(config: RunConfig, data_dir: Optional[Path] = None) -> Task:
    """The task of a configuration, its data loaded and its network built."""
    if config.sizes.task == "cifar":
        from slsgd_mx.tasks.cifar.task import CifarTask

        return CifarTask(config, data_dir)
    if config.sizes.task == "lstm":
        from slsgd_mx.tasks.lstm.task import LstmTask

        return LstmTask(config, data_dir)
    if config.sizes.task == "problem":
        from slsgd_mx.tasks.problems.task import ProblemTask

        return ProblemTask(config)
    raise AssertionError(f"task {config.sizes.task!r} is in sizes.SIZES but not here")
