"""Share runs: pack them into one archive, unpack it somewhere else; no MXNet.

    NAME/config.json, manifest.json, metrics.csv, pushes.csv, DONE (or DIVERGED, FAILED)
    NAME/model.params      on request; otherwise model.left-out, which says so
    theory/*.csv           the tables of ``slsgd-mx theory``
    claims.json, claims.md

Equal runs give equal bytes: the archive holds no owners, paths or times of files.  Unpacking
writes only these names, verifies every run, and then moves all of them into place.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import tarfile
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Dict, Iterator, List, Optional, Sequence, Union

from slsgd_mx.data.archives import Content, read_tar
from slsgd_mx.errors import DataError, RunError
from slsgd_mx.runs.metrics import WHERE_ROWS_ARE
from slsgd_mx.runs.proof import LEFT_OUT, is_lost, read_closing
from slsgd_mx.runs.pushes import FILE as PUSHES
from slsgd_mx.runs.records import find_folders
from slsgd_mx.runs.verify import verify_run
from slsgd_mx.system import files

MODEL = "model.params"
CLOSING = ("DONE", "DIVERGED", "FAILED")
OF_A_RUN = ("config.json", "manifest.json", "metrics.csv", PUSHES, *CLOSING, MODEL, LEFT_OUT)
CLAIMS = ("claims.json", "claims.md")
MOST_MEMBERS = 100_000
MOST_FOLDERS = 8  # around a file
MOST_NAME = 155  # bytes of a folder's name in an archive: more than that tar cannot hold
MOST_TEXT = 1 << 28  # bytes of a file that is not a model
SMALL, MOST_RATIO = 1 << 24, 100  # an archive may unpack to 16 MB + 100 times its own size
WHY_LEFT_OUT = "The model was left out when this run was packed (slsgd-mx runs pack --models).\n"


@dataclass(frozen=True)
class Packed:
    """What an archive was made of."""

    runs: List[Path]
    unfinished: List[Path]  # left out
    bytes: int


@dataclass(frozen=True)
class Unpacked:
    """The runs that an archive held."""

    new: List[Path]
    known: List[Path]  # already there, and left as they are

    @property
    def unfinished(self) -> List[Path]:
        """The runs that are already there and have not ended."""
        return [path for path in self.known if not has_ended(path)]


def has_ended(path: Path) -> bool:
    """Whether a run is done, diverged or failed, even if DONE is lost."""
    return any((path / name).exists() for name in CLOSING) or read_closing(path) is not None


def pack_runs(
    folders: Sequence[Path],
    home: Path,
    archive: Path,
    models: bool = False,
    others: Sequence[Path] = (),
) -> Packed:
    """Write finished runs below ``home``, and tables of theory or claims, into an archive."""
    finished = [path for path in folders if has_ended(path)]
    for path in finished:
        check = verify_run(path)
        if not check.ok:
            raise RunError(f"nothing is packed, because {path} is damaged: {check.why}")
    if not finished:
        raise RunError(f"none of the {len(folders)} runs is finished: there is nothing to pack")
    members = {}
    for path in finished:
        name = path.resolve().name if path == home else path.relative_to(home).as_posix()
        name = "/".join(map(_shorten, name.split("/")))
        if f"{name}/config.json" in members:
            raise RunError(f"nothing is packed, because two runs would be called {name}")
        members.update({f"{name}/{file}": content for file, content in _content(path, models)})
    for path in others:
        members[path.name if path.name in CLAIMS else f"theory/{path.name}"] = path
    if len(members) > MOST_MEMBERS:
        raise RunError(
            f"nothing is packed, because {len(finished):,} runs are {len(members):,} files, and an "
            f"archive may hold {MOST_MEMBERS:,}: choose fewer runs with --where"
        )
    for name in members:
        if not _is_ours(name):
            raise RunError(
                f"nothing is packed, because an archive cannot hold {name!r}: rename the folder, "
                "or choose other runs with --where"
            )
    with files.disk_errors(archive.parent):
        archive.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(archive, ".tmp") as beside:
            _write(beside, members)
            files.sync(beside)
        size = archive.stat().st_size
    return Packed(finished, sorted({*folders} - {*finished}), size)


def _shorten(folder: str) -> str:
    """A folder's name in an archive: of a long one the middle is left out, never the identity.

    >>> _shorten("run"), len(_shorten(200 * "x" + "-0123456789ab")), _shorten(200 * "x")[-3:]
    ('run', 155, 'xxx')
    """
    tail = len("-0123456789ab-repeats")
    fits = len(folder) <= MOST_NAME
    return folder if fits else folder[: MOST_NAME - tail] + folder[-tail:]


def _content(path: Path, models: bool) -> Iterator[tuple]:
    """The files of a run, by name: text, or the path of a file."""
    closing = read_closing(path)
    for name in OF_A_RUN:
        if name in ("DONE", MODEL, LEFT_OUT) or not (path / name).is_file():
            continue
        text = files.read_text(path / name)
        if name in CLOSING:  # a message may name the folder
            text = WHERE_ROWS_ARE.sub("are in metrics.csv", text)
        yield name, text.encode()
    if closing is not None:
        whole = (path / "DONE").is_file() and not is_lost(path)
        yield "DONE", (files.read_text(path / "DONE") if whole else closing.to_text()).encode()
    if models and (path / MODEL).is_file():
        yield MODEL, path / MODEL
    elif closing is not None:
        yield LEFT_OUT, WHY_LEFT_OUT.encode()


def _write(path: Path, members: Dict[str, Union[bytes, Path]]) -> None:
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(open(path, "wb"))
        packed = stack.enter_context(gzip.GzipFile("", "wb", 9, raw, mtime=0))
        tar = tarfile.TarFile(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT)
        stack.enter_context(tar)
        for name, content in sorted(members.items()):
            with open(content, "rb") if isinstance(content, Path) else io.BytesIO(content) as file:
                member = tarfile.TarInfo(name)
                member.size = file.seek(0, os.SEEK_END)
                file.seek(0)
                try:
                    tar.addfile(member, file)
                except ValueError as error:
                    raise RunError(f"{name} cannot be packed: {error}") from error


def unpack_runs(archive: Path, home: Path) -> Unpacked:
    """Unpack an archive of ``pack_runs`` below ``home``: everything, or nothing after an error.

    A run that is already there is left as it is, if it has the same configuration.
    """
    with files.disk_errors(home), _new_folder(home), _folder_beside(home) as aside:
        runs = unpack_into(archive, aside)
        if not runs:
            raise RunError(f"{archive} holds no run: nothing is unpacked")
        tables = [*aside.glob("theory/*.csv"), *aside.glob("claims.*")]
        targets = {path: home / path.relative_to(aside) for path in [*runs, *tables]}
        there = [path for path, target in targets.items() if os.path.lexists(target)]
        for path in there:
            _check_same(path, targets[path])
        for target in targets.values():
            _check_parents(target, home)
        for path in targets:
            if path not in there:
                targets[path].parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, targets[path])
        files.sync(home)
    return Unpacked(
        [targets[path] for path in runs if path not in there],
        [targets[path] for path in runs if path in there],
    )


@contextlib.contextmanager
def _folder_beside(home: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=home) as aside:
        yield Path(aside)


@contextlib.contextmanager
def _new_folder(home: Path) -> Iterator[None]:
    """Make a folder, which is removed again if that was in vain."""
    new = not home.exists()
    home.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            if new:
                home.rmdir()
        raise


def _check_same(path: Path, target: Path) -> None:
    """Raise a RunError unless a table has the same bytes, or a run the same configuration."""
    ours, theirs = (each / "config.json" if path.is_dir() else each for each in (path, target))
    if not theirs.is_file() or files.digest(theirs) != files.digest(ours):
        raise RunError(
            f"{target} exists and holds something else: unpack into another folder with --runs"
        )


def _check_parents(target: Path, home: Path) -> None:
    """Raise a RunError if a file is where a folder above the target would be."""
    for parent in target.relative_to(home).parents:
        if os.path.lexists(home / parent) and not (home / parent).is_dir():
            raise RunError(
                f"{home / parent} is a file, and a folder is needed: nothing is unpacked"
            )


def unpack_into(archive: Path, folder: Path) -> List[Path]:
    """Unpack an archive into an empty folder; return its runs, each of them verified."""
    files.require_file(archive)
    if not archive.exists():
        raise RunError(f"{archive} does not exist")
    try:
        most = SMALL + MOST_RATIO * archive.stat().st_size
        for member, content in read_tar(archive, most, MOST_MEMBERS):
            target = folder / _place(member, archive)
            target.parent.mkdir(parents=True, exist_ok=True)
            most_here = most if target.name == MODEL else MOST_TEXT
            if member.size > most_here:
                raise RunError(f"{archive}: {member.name} has more than {most_here:,} bytes")
            _save(content, target)
    except (tarfile.TarError, EOFError, zlib.error, DataError) as error:
        raise RunError(f"{archive} is damaged, or not an archive of runs: {error}") from error
    runs = find_folders(folder)
    stray = {path.parent for path in folder.rglob("*") if path.name in OF_A_RUN} - set(runs)
    if stray:
        raise RunError(f"{archive} holds {stray.pop().relative_to(folder)} without a configuration")
    for path in runs:
        check = verify_run(path)
        if not check.ok:
            why = check.why.replace(f"{folder}{os.sep}", "")
            raise RunError(f"{archive} is not unpacked: {why}")
    return runs


def _place(member: tarfile.TarInfo, archive: Path) -> PurePosixPath:
    """Where a member belongs; a RunError if that is not a place of ours."""
    if not member.isreg() or not _is_ours(member.name):
        kind = "" if member.isreg() else " (a link, a folder or something else that is not a file)"
        raise RunError(
            f"{archive} holds {member.name!r}{kind}, which slsgd-mx runs pack does not write: "
            "nothing is unpacked"
        )
    return PurePosixPath(member.name)


def _is_ours(name: str) -> bool:
    """Whether an archive may hold this name: a file of a run, a table of theory, or claims.

    >>> _is_ours("run/DONE"), _is_ours("claims.md"), _is_ours("../DONE"), _is_ours("a/DONE/DONE")
    (True, True, False, False)
    """
    path = PurePosixPath(name)
    if not path.parts or not all(p[0] not in "./" and p.isprintable() for p in path.parts):
        return False
    *folders, last = path.parts
    if folders == ["theory"]:
        return path.suffix == ".csv"
    if not folders:
        return last in CLAIMS
    taken = {*OF_A_RUN, *CLAIMS}
    plain = folders[0] != "theory" and not taken & set(folders)
    return plain and len(folders) < MOST_FOLDERS and last in OF_A_RUN


def _save(content: Content, target: Path) -> None:
    """Write a new file; a name that comes twice is damage."""
    try:
        with open(target, "xb") as file:
            shutil.copyfileobj(content, file, 1 << 16)
    except FileExistsError:
        raise RunError(f"{target.name} is in the archive twice: nothing is unpacked") from None


def find_tables(home: Path, figures: Optional[Path]) -> List[Path]:
    """The tables of theory below ``home``, and the claims in a folder of figures."""
    claims = [] if figures is None else [figures / name for name in CLAIMS]
    lacking = [path for path in claims if not path.is_file()]
    if lacking:
        raise RunError(f"{lacking[0]} is missing: slsgd-mx claims --figures {figures} writes it")
    return [*sorted(home.glob("theory/*.csv")), *claims]
