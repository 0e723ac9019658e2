"""Digests that prove what a run computed: of its configuration, data, rows, pushes and final model.

A finished run stores them in DONE and, a second time, in manifest.json; every checkpoint stores
those of the rows so far.  Runs of 0.1.0 have a digest of the model only.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional

from slsgd_mx.errors import RunError
from slsgd_mx.runs.pushes import FILE as PUSHES
from slsgd_mx.system.files import digest, read_text

FILES = {
    "config": "config.json",
    "rows": "metrics.csv",
    "pushes": PUSHES,
    "model": "model.params",
}
DATA = "data"  # the name of the digest of the data, which are not in the folder
LEFT_OUT = "model.left-out"  # in place of the model, where a run was shared without it


@dataclass(frozen=True)
class Closing:
    """What a finished run stores about itself: its last row, and digests by name."""

    last: Dict[str, str]
    digests: Dict[str, str]

    @property
    def verifiable(self) -> bool:
        """Whether its rows can be verified; those of 0.1.0 cannot."""
        return "rows" in self.digests

    def to_text(self) -> str:
        """The content of DONE: the last row, then a line for each digest."""
        lines = [f"{name} {value}" for name, value in self.digests.items()]
        return "\n".join([json.dumps(self.last), *lines]) + "\n"

    def to_dict(self) -> Dict[str, Any]:
        """What manifest.json holds."""
        return {"last": self.last, "digests": self.digests}


def close(folder: Path, last: Dict[str, str], data_sha256: Optional[str]) -> Closing:
    """The closing record of a run whose files are complete."""
    digests = {} if data_sha256 is None else {DATA: data_sha256}
    return Closing(last, {**digests, **{name: digest(folder / FILES[name]) for name in FILES}})


def read_closing(folder: Path) -> Optional[Closing]:
    """The closing record, from DONE or, if that is missing or damaged, from manifest.json.

    None if the run is not finished; a RunError if DONE is damaged and there is no other copy.
    """
    done = folder / "DONE"
    copy = _from_manifest(folder)
    if not done.exists():
        return copy
    found = _from_done(done)
    if found is None and copy is None:
        raise RunError(
            f"{done} is damaged, and nothing else proves that the run is finished. Its rows and "
            f"its model are kept: restore the file, or move {folder} away to compute the run again"
        )
    if found is None or (copy not in (None, found) and problems(folder, found)):
        return copy
    return found


def is_lost(folder: Path) -> bool:
    """Whether DONE of a finished run is missing, or a file that says something else."""
    done = folder / "DONE"
    return not done.exists() or (done.is_file() and _from_done(done) != read_closing(folder))


def _from_done(path: Path) -> Optional[Closing]:
    try:
        first, *rest = read_text(path).splitlines()
        last = dict(json.loads(first))
        pairs = dict(line.split(" ") for line in rest)
        last["epoch"]
    except (RunError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return Closing(last, _known(pairs))


def _from_manifest(folder: Path) -> Optional[Closing]:
    try:  # not read_manifest: here a damaged manifest is as good as none
        stored = json.loads(read_text(folder / "manifest.json"))["finished"]
        return Closing(dict(stored["last"]), _known(dict(stored["digests"])))
    except (OSError, RunError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _known(digests: Dict[str, str]) -> Dict[str, str]:
    """Those of these digests that this version can check."""
    return {name: value for name, value in digests.items() if name in (*FILES, DATA)}


def problems(folder: Path, closing: Closing, names: Iterable[str] = FILES) -> List[str]:
    """What is missing or was changed since the run finished, one sentence each."""
    found = []
    for name in [name for name in names if name in closing.digests]:
        path = folder / FILES[name]
        if not path.is_file():
            if name != "model" or path.exists() or not (folder / LEFT_OUT).is_file():
                found.append(f"{path} is missing")
        elif digest(path) != closing.digests[name]:
            found.append(f"{path} is damaged: it was changed after the run finished")
    return found


def digest_of_lines(path: Path, count: int) -> str:
    """The digest of a file's first lines, such as the rows up to a checkpoint."""
    lines = read_text(path).splitlines(keepends=True)[:count] if path.exists() else []
    return digest_of_text("".join(lines))


def digest_of_text(text: str) -> str:
    """The first 16 digits of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
