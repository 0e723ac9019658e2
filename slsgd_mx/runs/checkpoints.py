"""Checkpoints: files whose names hold their epoch and the digest of their content."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from slsgd_mx.errors import RunError
from slsgd_mx.system.files import Values, digest, load_arrays, save_arrays, sync, warn


def list_checkpoints(folder: Path) -> List[Path]:
    """The checkpoints in a folder, newest first."""
    paths = [p for p in folder.glob("epoch-*.params") if re.match(r"epoch-[0-9]+\.", p.name)]
    return sorted(paths, key=_epoch, reverse=True)


def _epoch(path: Path) -> int:
    return int(path.name[6:].split(".")[0])


def save_checkpoint(folder: Path, epoch: int, values: Values, notes: Dict[str, Any]) -> Path:
    """Write one checkpoint; the digest in its name reveals a damaged file."""
    text = json.dumps({"epoch": epoch, **notes}, sort_keys=True).encode()
    beside = folder / "writing.tmp"
    save_arrays(beside, {**values, "notes": np.frombuffer(text, np.uint8)})
    path = folder / f"epoch-{epoch:06d}.{digest(beside)}.params"
    os.replace(beside, path)
    sync(folder)
    return path


def delete_checkpoints(folder: Path, kept: int) -> None:
    """Delete all but the newest ones; a folder that has the name of one is not ours."""
    for path in list_checkpoints(folder)[kept:]:
        if not path.is_dir():
            path.unlink()


def is_intact(path: Path) -> bool:
    try:
        return path.name.split(".")[1] == digest(path)
    except FileNotFoundError:  # the run is in progress and has replaced it
        return False


def find_newest(folder: Path) -> Optional[Path]:
    """The newest intact checkpoint; a RunError if there are checkpoints but none is intact."""
    paths = list_checkpoints(folder)
    for path in paths:
        if is_intact(path):
            return path
    if paths and list_checkpoints(folder) == paths:  # not replaced in the meantime
        raise RunError(
            f"no checkpoint in {folder} is intact: remove the folder {folder.parent} "
            "to start the run again from epoch 1"
        )
    return find_newest(folder) if paths else None


def newest_epoch(folder: Path) -> int:
    """The epoch after which a run would resume, 0 for the start; changes nothing."""
    path = find_newest(folder)
    return 0 if path is None else _epoch(path)


def latest_epoch(folder: Path) -> int:
    """The epoch of the newest checkpoint by name, whether it is intact or not; 0 without one."""
    return max(map(_epoch, list_checkpoints(folder)), default=0)


def load_newest(folder: Path) -> Tuple[int, Optional[Values], Dict[str, Any]]:
    """Epoch, model and notes of the newest intact checkpoint; damaged ones are renamed."""
    path = find_newest(folder)
    if path is None:
        return 0, None, {}
    for corrupt in list_checkpoints(folder):
        if _epoch(corrupt) > _epoch(path):
            warn(f"{corrupt} is corrupt and was renamed; resuming from {path.name}")
            corrupt.rename(corrupt.with_suffix(".corrupt"))
    values = load_arrays(path)
    try:
        notes = dict(json.loads(values.pop("notes").tobytes()))
        if notes.pop("epoch") != _epoch(path):
            raise ValueError("it names another epoch")
        if not isinstance(notes.get("digests", {}), dict):
            raise ValueError("it has no digests")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = "it has no notes" if isinstance(error, KeyError) else error
        raise RunError(
            f"{path} is not a checkpoint of this program ({why}): move it away to resume from an "
            "older one"
        ) from None
    return _epoch(path), values, notes
