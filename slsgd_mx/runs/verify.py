"""Check stored runs against the digests they stored about themselves; no MXNet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Union

from slsgd_mx.errors import DivergedError, FailedError, SlsgdError
from slsgd_mx.runs.folder import RunFolder, read_config
from slsgd_mx.runs.proof import read_closing
from slsgd_mx.runs.pushes import read_pushes

VERIFIED, UNVERIFIABLE, UNFINISHED, WRONG = "verified", "not verifiable", "not finished", "wrong"


@dataclass(frozen=True)
class Check:
    """The result of verifying one run folder."""

    path: Path
    result: str  # VERIFIED, UNVERIFIABLE, UNFINISHED or WRONG
    why: str = ""

    @property
    def ok(self) -> bool:
        return self.result != WRONG


def verify_run(folder: Union[str, Path]) -> Check:
    """Verify a run's configuration, rows, record of pushes, model and manifest.

    A run of 0.1.0 stored no digest of its rows: its last row and its model are checked, and it is
    reported as not verifiable.
    """
    path = Path(folder)
    try:
        run_folder = RunFolder(path, read_config(path))
        run_folder.sessions()
        read_pushes(path)
        finished = run_folder.finished()
    except (DivergedError, FailedError) as error:
        return Check(path, UNFINISHED, str(error))
    except (SlsgdError, OSError) as error:
        return Check(path, WRONG, str(error))
    if not finished:
        return Check(path, UNFINISHED, "its rows and model are verified when it is resumed")
    if not read_closing(path).verifiable:
        return Check(path, UNVERIFIABLE, "written by a version that stored no digest of the rows")
    return Check(path, VERIFIED)
