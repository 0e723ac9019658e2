"""Check stored runs against the digests they stored about themselves; no MXNet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Union

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError, DivergedError, FailedError, RunError, SlsgdError
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.proof import FILES, is_lost, problems, read_closing
from slsgd_mx.runs.pushes import read_pushes
from slsgd_mx.runs.records import load_run
from slsgd_mx.runs.stored_config import read_config
from slsgd_mx.system.files import read_text

VERIFIED, UNVERIFIABLE, UNFINISHED, WRONG = "verified", "not verifiable", "not finished", "wrong"


@dataclass(frozen=True)
class Check:
    """The result of verifying one run folder."""

    path: Path
    result: str  # "verified", "not verifiable", "not finished" or "wrong"
    why: str = ""

    @property
    def ok(self) -> bool:
        return self.result != WRONG


def verify_run(folder: Union[str, Path]) -> Check:
    """Verify a run's configuration, rows, record of pushes and model, and that it has a manifest.

    A run of 0.1.0 stored no digest of its rows: its last row and its model are checked, and it is
    reported as not verifiable.  A run of a plug-in that is not loaded is checked by its digests.

    Parameters
    ----------
    folder : path
        A run folder.

    Returns
    -------
    Check
        ``result`` is "verified", "not verifiable", "not finished" or "wrong", ``why`` the reason.

    Examples
    --------
    >>> import tempfile
    >>> from slsgd_mx import preset, train, verify_run
    >>> config = preset("cifar", "smoke", epochs=1, k=2, train_images=100, width=2, batch_size=5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = verify_run(train(config, folder + "/run").folder)
    >>> found.result, found.ok
    ('verified', True)
    """
    path = Path(folder)
    try:
        read_pushes(path)
        if _lacks_plugin(path):
            finished = _is_finished(path)
        else:
            run_folder = RunFolder(path, read_config(path))
            run_folder.sessions()
            finished = run_folder.finished()
    except (DivergedError, FailedError) as error:
        return Check(path, UNFINISHED, str(error))
    except (SlsgdError, OSError) as error:
        return Check(path, WRONG, str(error))
    if not finished:
        return Check(path, UNFINISHED, "its rows and model are verified when it is resumed")
    if not (path / "manifest.json").exists():
        return Check(path, WRONG, f"{path / 'manifest.json'} is missing")
    closing = read_closing(path)
    if not closing.verifiable:
        return Check(path, UNVERIFIABLE, "written by a version that stored no digest of the rows")
    notes = {
        "it stored no digest of its configuration": "config" not in closing.digests,
        "it was shared without its model": not (path / FILES["model"]).exists(),
        "DONE is missing or damaged, manifest.json proves the run": is_lost(path),
    }
    return Check(path, VERIFIED, "; ".join(note for note, applies in notes.items() if applies))


def _lacks_plugin(path: Path) -> bool:
    """Whether the configuration is whole, but names a plug-in that is not loaded."""
    try:
        RunConfig.from_json(read_text(path / "config.json"))
    except ConfigError:
        return bool(load_run(path).config.get("sources"))
    except OSError:
        pass
    return False


def _is_finished(path: Path) -> bool:
    """Whether a run is done, without its configuration; raises if it was altered or failed."""
    run = load_run(path)
    failure = {"diverged": DivergedError, "failed": FailedError, "damaged": RunError}
    if run.status in failure:
        raise failure[run.status](run.why)
    closing = read_closing(path)
    found = problems(path, closing) if closing else []
    if found:
        raise RunError("; ".join(found))
    return closing is not None
