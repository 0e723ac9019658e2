"""Imports that version 0.1.0 documented and that moved: they keep working, with a warning."""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "_mxnet": "system.mxnet",
    "aggregation": "rules",
    "dist": "parameter_server",
    "server": "core.model_server",
    "trainer": "runs.trainer",
}


class _Finder(MetaPathFinder, Loader):
    """Import the new module under the old name."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        package, name, *_ = [*fullname.split("."), ""]
        return ModuleSpec(fullname, self) if package == "slsgd_mx" and name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        package, name, *rest = spec.name.split(".")
        new = ".".join([package, MOVED[name], *rest])
        warnings.warn(f"{spec.name} is now {new}", DeprecationWarning, stacklevel=2)
        self._spec = importlib.import_module(new).__spec__
        return sys.modules[new]

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has just replaced it


def install() -> None:
    """Make the old names importable."""
    sys.meta_path.insert(0, _Finder())  # before the new package is searched under its old name
