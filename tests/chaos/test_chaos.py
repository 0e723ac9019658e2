"""What ``make chaos`` does is tested here in small: it disturbs, and it notices what is lost."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.parameter_server import environment

from chaos.__main__ import render
from chaos.attempts import DAMAGES

WRITER = """
import os, sys
sys.path.insert(0, {home!r})
from victim import Death
Death({folder!r}, {number}, lose={lose})
with open({folder!r} + "/synced", "wb") as file:     # call 1
    file.write(b"x" * 100)
    file.flush()
    os.fsync(file.fileno())                          # call 2
with open({folder!r} + "/unsynced", "wb") as file:   # call 3
    file.write(b"y" * 10_000)
os.listdir({folder!r})                               # call 4
"""


@pytest.fixture
def die(tmp_path):
    def die(number, lose=False):
        home = str(Path(__file__).parent)
        code = WRITER.format(home=home, folder=str(tmp_path), number=number, lose=lose)
        ended = subprocess.run([sys.executable, "-c", code], env=environment()).returncode
        return ended, {path.name: path.stat().st_size for path in tmp_path.iterdir()}

    return die


def test_a_process_dies_before_the_call_with_that_number(die):
    killed = -signal.SIGKILL
    assert die(1) == (killed, {})
    assert die(3) == (killed, {"synced": 100})
    assert die(4) == (killed, {"synced": 100, "unsynced": 10_000})
    assert die(5)[0] == 0


def test_a_power_loss_takes_only_what_was_not_synced(die):
    sizes = die(4, lose=True)[1]
    assert sizes["synced"] == 100 and sizes["unsynced"] < 10_000


@pytest.mark.parametrize("name", DAMAGES)
def test_every_damage_changes_the_file(name, tmp_path):
    from chaos.__main__ import Chance

    path = tmp_path / "file"
    path.write_bytes(b"some text\n" * 9)
    DAMAGES[name](path, path.read_bytes(), Chance(1))
    assert not path.is_file() or path.read_bytes() != b"some text\n" * 9


def test_the_table_counts_what_was_lost():
    from collections import Counter

    table = Counter({("lose_power", "attempts"): 3, ("lose_power", "lost"): 1})
    assert render(table).splitlines()[-1] == "| together | 3 | 0 | 0 | 0 | 1 |"
