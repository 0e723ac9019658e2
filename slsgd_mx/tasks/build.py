"""From a configuration to its task."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Dict, Optional, Tuple

from slsgd_mx.config import RunConfig
from slsgd_mx.core.task import Task
from slsgd_mx.tasks.devices import check_batch
from slsgd_mx.validation import require_name

# Module and class of each task; imported on use, because building one imports MXNet.
TASKS: Dict[str, Tuple[str, str]] = {
    "cifar": ("slsgd_mx.tasks.cifar.task", "CifarTask"),
    "lstm": ("slsgd_mx.tasks.lstm.task", "LstmTask"),
    "problem": ("slsgd_mx.tasks.problems.task", "ProblemTask"),
}


def build_task(config: RunConfig, data_dir: Optional[Path] = None) -> Task:
    """Return the task of a configuration, with its data loaded and its network built."""
    require_name("task", config.sizes.task, TASKS)
    check_batch(config)
    module, name = TASKS[config.sizes.task]
    return getattr(import_module(module), name)(config, data_dir)
