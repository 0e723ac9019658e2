"""Checkpoints: files whose names tell the epoch they are of, and whether they are sound."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from .errors import RunError
from .files import Values, digest, load_arrays, save_arrays, sync_folder, warn


def list_checkpoints(folder: Path) -> List[Path]:
    """Checkpoints of a folder, the newest first."""
    paths = [p for p in folder.glob("epoch-*.params") if p.name[6:].split(".")[0].isdigit()]
    return sorted(paths, key=_epoch, reverse=True)


def _epoch(path: Path) -> int:
    return int(path.name[6:].split(".")[0])


def save_checkpoint(folder: Path, epoch: int, values: Values, notes: Dict[str, Any]) -> Path:
    """Write one checkpoint; the digest in its name tells a sound file from a broken one."""
    text = json.dumps({"epoch": epoch, **notes}, sort_keys=True).encode()
    beside = folder / "writing.tmp"
    save_arrays(beside, {**values, "notes": np.frombuffer(text, np.uint8)})
    path = folder / f"epoch-{epoch:06d}.{digest(beside)}.params"
    os.replace(beside, path)
    sync_folder(folder)
    return path


def is_sound(path: Path) -> bool:
    return path.name.split(".")[1] == digest(path)


def newest_epoch(folder: Path) -> int:
    """The epoch a run would resume after, 0 if from the start; looks, and changes nothing."""
    for path in list_checkpoints(folder):
        if is_sound(path):
            return _epoch(path)
    return 0


def load_newest(folder: Path) -> Tuple[int, Optional[Values], Dict[str, Any]]:
    """The newest checkpoint that is sound; a RunError if there are some but none is sound."""
    paths = list_checkpoints(folder)
    for path in paths:
        if is_sound(path):
            for corrupt in paths[: paths.index(path)]:
                warn(f"{corrupt} is corrupt and set aside; going on from {path.name}")
                corrupt.rename(corrupt.with_suffix(".corrupt"))
            values = load_arrays(path)
            notes = json.loads(values.pop("notes").tobytes())
            return notes.pop("epoch"), values, notes
    if paths:
        raise RunError(
            f"no checkpoint in {folder} is sound: remove the folder {folder.parent} "
            "to start the run again from epoch 1"
        )
    return 0, None, {}
