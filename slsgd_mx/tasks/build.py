"""From a configuration to its task."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from slsgd_mx.config import RunConfig
from slsgd_mx.core.task import Task
from slsgd_mx.errors import ConfigError
from slsgd_mx.system.precision import use_precision
from slsgd_mx.tasks.devices import check_batch
from slsgd_mx.validation import require_name
from slsgd_mx.workloads import WORKLOADS, find


def build_task(config: RunConfig, data_dir: Optional[Path] = None) -> Task:
    """Return the task of a configuration, with its data loaded and its network built."""
    require_name("task", config.sizes.task, WORKLOADS)
    config.check_sources()
    check_batch(config)
    use_precision(config.precision)
    return complete(find(WORKLOADS[config.sizes.task].task)(config, data_dir), config)


def complete(task: Task, config: RunConfig) -> Task:
    """Tell a task the names of its metrics, which the configuration knows.

    Raise a ConfigError if it has no target, though its sizes say so.
    """
    if config.sizes.has_target and task.target is None:
        raise ConfigError(f"task {config.sizes.task} has has_target=True, but its target is None")
    task.metric_names = config.metrics
    return task
