"""SLSGD: secure and efficient distributed on-device machine learning, on MXNet and Gluon.

The public API is what ``__all__`` names; it is imported on first use, so that importing the
package costs nothing.
"""

from importlib import import_module

from slsgd_mx import _moved

__version__ = "0.2.0"

_HOME = {
    "aggregate": "rules.aggregate",
    "ArraysTask": "tasks.images.arrays",
    "Cifar": "tasks.cifar.sizes",
    "Images": "tasks.images.sizes",
    "Lstm": "tasks.lstm.sizes",
    "ModelServer": "core.model_server",
    "RunConfig": "config",
    "Sizes": "workloads",
    "Task": "core.task",
    "load_plugin": "plugins",
    "load_run": "runs.records",
    "load_runs": "runs.records",
    "plot_runs": "figures.comparison",
    "poison": "attacks.poison",
    "preset": "presets",
    "register_attack": "attacks",
    "register_network": "workloads",
    "register_partition": "partitions",
    "register_rule": "rules",
    "register_task": "workloads",
    "train": "runs.trainer",
    "verify_run": "runs.verify",
    "trimmed_mean": "rules.trimmed_mean",
}

__all__ = sorted(_HOME)

_moved.install()


def __getattr__(name: str):
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])
