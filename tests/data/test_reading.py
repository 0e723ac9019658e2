"""What both readers of official files share: where they look, what they refuse."""

import os

import pytest

from slsgd_mx.data.arrays import read_arrays
from slsgd_mx.data.cifar10 import load_cifar10
from slsgd_mx.data.digests import remembered_digest
from slsgd_mx.data.fetch import fetch
from slsgd_mx.data.registry import DATASETS
from slsgd_mx.data.wikitext2 import load_wikitext2
from slsgd_mx.errors import DataError
from tests.helpers.data_files import BIN, cifar_files, text_files, write_folder

SETS = {  # name -> reader, files, folder of the official archive
    "cifar10": (load_cifar10, cifar_files(), BIN),
    "wikitext2": (load_wikitext2, text_files(), "wikitext-2"),
}
both = pytest.mark.parametrize("name", SETS)


@both
def test_every_place_of_the_files_gives_the_same_data(tmp_path, monkeypatch, name):
    load, files, folder = SETS[name]
    expected = load(write_folder(tmp_path / "direct", files)).digest
    write_folder(tmp_path / "parent" / folder, files)
    assert load(tmp_path / "parent").digest == expected
    write_folder(tmp_path / "~odd", files)  # no user of that name: the path itself
    monkeypatch.chdir(tmp_path)
    assert load("~odd").digest == expected
    for home in ("parent", "home"):
        write_folder(tmp_path / "home" / name / folder, files)
        monkeypatch.setenv("SLSGD_MX_DATA", str(tmp_path / home))
        assert load().digest == expected


@both
@pytest.mark.parametrize("exists", [True, False])
def test_missing_data_names_three_ways_to_get_it(tmp_path, name, exists):
    place = tmp_path if exists else tmp_path / "nowhere"
    with pytest.raises(DataError) as caught:
        SETS[name][0](place)
    ways = (f"slsgd-mx data fetch {name}", "--data-dir DIR", "--data synthetic", "stand-in")
    assert all(part in str(caught.value) for part in (str(place), *ways))


@both
def test_missing_file_is_named(tmp_path, name):
    load, files, _ = SETS[name]
    for missing in files:
        folder = write_folder(tmp_path / missing, files)
        (folder / missing).unlink()
        with pytest.raises(DataError, match=f"{missing} is missing, expected "):
            load(folder)


MAKE = {"a folder": os.mkdir, "a pipe or a device": os.mkfifo}
not_a_file = pytest.mark.parametrize("kind", MAKE)


@both
@not_a_file
def test_something_else_in_place_of_a_file_is_named(tmp_path, name, kind):
    """Reading a pipe would wait for ever."""
    load, files, _ = SETS[name]
    write_folder(tmp_path / "files", files)
    taken = tmp_path / "files" / list(files)[1]
    taken.unlink()
    MAKE[kind](taken)
    archive = tmp_path / DATASETS[name].files[0].name
    MAKE[kind](archive)
    cases = [(taken.parent, taken), (tmp_path, archive)]
    if kind != "a folder":
        cases.append((archive, archive))
    for place, path in cases:
        with pytest.raises(DataError, match=f"{path} is {kind}, and a file is needed"):
            load(place)


def test_a_pipe_in_place_of_arrays_is_named(tmp_path):
    os.mkfifo(tmp_path / "my.npz")
    with pytest.raises(DataError, match=r"my\.npz is a pipe or a device, and a file is needed"):
        read_arrays(tmp_path / "my.npz")


@not_a_file
@pytest.mark.parametrize("suffix", ["", ".part"])
def test_something_else_in_place_of_a_download_is_named(tmp_path, kind, suffix):
    path = tmp_path / "cifar10" / f"{DATASETS['cifar10'].files[0].name}{suffix}"
    path.parent.mkdir()
    MAKE[kind](path)
    with pytest.raises(DataError, match=f"{path} is {kind}, and a file is needed"):
        fetch("cifar10", tmp_path, progress=False, mirrors=["http://127.0.0.1:9"])


@not_a_file
def test_something_else_in_place_of_the_remembered_digests_is_ignored(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("SLSGD_MX_DATA", str(tmp_path))
    folder = write_folder(tmp_path / "files", text_files())
    MAKE[kind](tmp_path / "digests.json")
    assert remembered_digest("wikitext2", folder) == load_wikitext2(folder).digest


@pytest.mark.parametrize("name, most", [("cifar10", 30_730_000), ("wikitext2", 1 << 28)], ids=str)
def test_too_large_a_file_is_not_read(tmp_path, name, most):
    load, files, _ = SETS[name]
    write_folder(tmp_path, files)
    with open(tmp_path / list(files)[1], "ab") as file:
        file.truncate(most + 1)  # sparse: takes no space
    with pytest.raises(DataError, match=f"has {most + 1:,} bytes, expected at most {most:,}"):
        load(tmp_path)
