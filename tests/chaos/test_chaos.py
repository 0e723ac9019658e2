"""What ``make chaos`` does is tested here in small: it disturbs, and it notices what is lost."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter

import pytest
from helpers.parameter_server import environment

from chaos.__main__ import Chance, render
from chaos.attempts import DAMAGES
from chaos.disk import Disk
from chaos.world import Lost, check_end, check_start

WRITER = """
import os
from chaos.victim import Death
Death({folder!r}, {number}, lose={lose})
os.chdir({folder!r})
with open("synced", "wb") as file:      # call 1
    file.write(b"x" * 100)
    file.flush()
    os.fsync(file.fileno())             # call 2
names = os.open(".", os.O_RDONLY)       # call 3
os.fsync(names)                         # call 4
with open("unsynced", "wb") as file:    # call 5
    file.write(b"y" * 10_000)
os.rename("synced", "renamed")          # call 6
os.listdir(".")                         # call 7
"""


@pytest.fixture
def die(tmp_path):
    def die(number, lose=False):
        folder = tmp_path / f"{number}-{lose}"
        folder.mkdir()
        code = WRITER.format(folder=str(folder), number=number, lose=lose)
        ended = subprocess.run([sys.executable, "-c", code], env=environment()).returncode
        return ended, {path.name: path.stat().st_size for path in folder.iterdir()}

    return die


def test_a_process_dies_before_the_call_with_that_number(die):
    killed = -signal.SIGKILL
    assert die(1) == (killed, {})
    assert die(5) == (killed, {"synced": 100})
    assert die(6) == (killed, {"synced": 100, "unsynced": 10_000})
    assert die(7) == (killed, {"renamed": 100, "unsynced": 10_000})
    assert die(8)[0] == 0


def test_a_power_loss_takes_only_what_was_not_synced(tmp_path):
    """Contents and names that were not synced; over many losses, each of them at least once."""
    seen = set()
    for number in range(40):
        folder = tmp_path / str(number)
        folder.mkdir()
        seen.add(write_and_lose(folder, random.Random(number)))
    assert {name for names, _ in seen for name in names} == {"kept", "moved", "new"}
    assert all(("kept" in names) != ("moved" in names) for names, _ in seen)
    assert {size for names, size in seen if "new" in names} > {0}


def write_and_lose(folder, chance):
    """Sync one file, rename it, write another; the names after a power loss, and a size."""
    disk, kept, moved, new = Disk(), *(folder / name for name in ("kept", "moved", "new"))
    disk.open(str(kept), os.O_WRONLY | os.O_CREAT)
    kept.write_bytes(b"x" * 100)
    disk.sync(str(kept))
    disk.sync(str(folder))
    disk.rename(str(kept), str(moved))
    kept.rename(moved)
    disk.open(str(new), os.O_WRONLY | os.O_CREAT)
    new.write_bytes(b"y" * 3)
    disk.lose(chance)
    (whole,) = (path for path in (kept, moved) if path.exists())
    assert whole.read_bytes() == b"x" * 100
    size = new.stat().st_size if new.exists() else None
    return tuple(sorted(path.name for path in folder.iterdir())), size


def test_a_deleted_or_replaced_file_returns_until_its_folder_is_synced(tmp_path):
    disk, old, new = Disk(), tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"old")
    new.write_bytes(b"new")
    disk.rename(str(new), str(old))
    new.rename(old)
    disk.remove(str(old))
    old.unlink()
    for undo in disk.names[str(tmp_path)][::-1]:
        undo()
    assert (old.read_bytes(), new.read_bytes()) == (b"old", b"new")


def test_computing_a_saved_epoch_again_counts_as_a_loss():
    said = "epoch 4/8: train loss 2\nepoch 5/8: train loss 1\n"
    check_start(said, saved=3)
    check_start("already done", saved=8)
    with pytest.raises(Lost, match="epoch 4 was saved, but epoch 4 was computed again"):
        check_start(said, saved=4)


def test_a_traceback_or_hanging_counts_as_a_loss():
    importing = b"Traceback (most recent call last):\n  ...\nKeyboardInterrupt\n"
    assert check_end(-2, importing) == (-2, importing.decode())
    for code, said in [(1, b"Traceback (most recent call last):\n"), (None, b"epoch 1")]:
        with pytest.raises(Lost):
            check_end(code, said)


@pytest.mark.parametrize("name", DAMAGES)
def test_every_damage_changes_the_file(name, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"some text\n" * 9)
    DAMAGES[name](path, path.read_bytes(), Chance(1))
    assert not path.is_file() or path.read_bytes() != b"some text\n" * 9


def test_the_table_counts_what_was_lost():
    table = Counter({("lose_power", "attempts"): 3, ("lose_power", "lost"): 1})
    assert render(table).splitlines()[-1] == "| together | 3 | 0 | 0 | 0 | 0 | 1 |"
