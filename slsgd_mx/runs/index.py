"""Find the folder of a run by its configuration; no MXNet."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Dict, Optional

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import RunError
from slsgd_mx.runs.stored_config import read_config


class RunIndex:
    """The run folders below a folder, found by their config.json and not by their names.

    A run computed by an earlier version, under another name, is therefore found and reused.
    """

    def __init__(self, home: Path) -> None:
        self.home = Path(home)

    def folder(self, config: RunConfig, new: Optional[Path] = None) -> Path:
        """Where the run of a configuration is, or will be (by default ``home / config.slug``)."""
        own = self.home / config.slug
        return own if (own / "config.json").exists() else self._known.get(config, new or own)

    @functools.cached_property
    def _known(self) -> Dict[RunConfig, Path]:
        """All folders by configuration; of two equal ones, the finished one."""
        found: Dict[RunConfig, Path] = {}
        repeats = self.home.glob("*-repeats/seed*/config.json")
        for path in sorted([*self.home.glob("*/config.json"), *repeats]):
            try:
                config = read_config(path.parent)
            except (RunError, OSError):
                continue  # not a run that could be reused
            if config not in found or (path.parent / "DONE").exists():
                found[config] = path.parent
        return found
