"""The configuration that a run folder holds, and whether it is the one that is meant."""

from __future__ import annotations

from pathlib import Path

from slsgd_mx.config import RunConfig, show_sources
from slsgd_mx.errors import ConfigError, RunError
from slsgd_mx.system import files

MOST_CONFIG = 2**24  # bytes


def read_config(path: Path) -> RunConfig:
    """The configuration a run folder holds."""
    file = path / "config.json"
    if not file.exists():
        raise RunError(f"{path} holds no run")
    try:
        return RunConfig.from_json(files.read_text(file, MOST_CONFIG))
    except ConfigError as error:
        raise RunError(f"{file} cannot be read ({error}): choose another folder") from error


def check_folder(path: Path, config: RunConfig) -> None:
    """Raise a RunError if the folder holds another run, or something else altogether."""
    if path.exists() and not path.is_dir():
        raise RunError(f"{path} is a file: choose another folder with --out")
    if not (path / "config.json").exists():
        ours = {".lock", "checkpoint", "logs", "config.json.tmp"}  # killed while creating it
        if path.is_dir() and {p.name for p in path.iterdir()} - ours:
            raise RunError(
                f"{path} is not empty and not a run (it has no config.json): restore that file, "
                "move the folder away or choose another"
            )
        return
    stored = read_config(path)
    if stored == config:
        return
    there, here = stored.to_dict(), config.to_dict()
    for values in (there, here):
        values.update(values.pop("sizes"))
    names = [name for name in {**here, **there} if here.get(name) != there.get(name)]
    spell = {"sources": show_sources}
    differ = [
        f"{name}={spell.get(name, str)(there.get(name))} there, "
        f"{spell.get(name, str)(here.get(name))} here"
        for name in names
    ]
    raise RunError(
        f"{path} holds another run ({'; '.join(differ)}): choose another folder with --out"
    )
