"""What ``make bench`` prints and counts, without measuring anything."""

import os
import sys

import pytest

from benchmarks import __main__ as bench
from benchmarks import peers, precision, slots, trimming
from benchmarks.report import Line, Skipped, missed, summary

FINE, SLOW = Line("fine", 1.0, "", at_most=2), Line("slow", 3.0, "3 s", at_most=2)
HERE = Skipped("disk", "needs 16 GB of disk")


def test_a_skipped_line_is_neither_met_nor_missed():
    assert missed([FINE, SLOW, HERE]) == [SLOW]
    assert summary([FINE, SLOW, HERE, HERE]) == "4 lines: 1 met, 1 missed, 2 skipped"
    assert summary([]) == "0 lines: 0 met, 0 missed, 0 skipped"
    words = str(HERE).split()
    assert words == ["disk", "-", "skipped", "needs", "16", "GB", "of", "disk"]
    assert str(HERE).index("skipped") == str(SLOW).index("MISSED") == str(FINE).index("met")


@pytest.mark.parametrize("lines, code", [([FINE, HERE], 0), ([FINE, SLOW], 1), ([HERE], 0)])
def test_the_exit_code_counts_what_was_missed(lines, code, monkeypatch, capsys):
    monkeypatch.setattr(slots, "lines", lambda: iter(lines))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "slots"])
    assert bench.main() == code
    assert capsys.readouterr().out.endswith(f"{summary(lines)}\n")


def test_an_unknown_benchmark(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "speed"])
    assert bench.main() == 2
    assert "'speed' is unknown: choose from whole-run, startup, " in capsys.readouterr().err


def test_pushes_without_disk_and_a_cpu_without_bfloat16_are_skipped(monkeypatch):
    monkeypatch.setattr(slots, "lack_of_disk", lambda size: f"needs {1.5e-9 * size:.0f} GB")
    assert slots.many_pushes(1000).why == "needs 16 GB"
    assert slots.many_pushes_to_a_server(1000, servers=2).why == "needs 8 GB"
    monkeypatch.setattr(precision, "obstacle", lambda name: "an old CPU")
    found = list(precision.lines())
    assert [line.why for line in found] == ["an old CPU"] * len(precision.UNITS)


def test_two_threads_on_one_core_are_skipped(monkeypatch):
    monkeypatch.setattr(trimming, "available_cores", lambda: 1)
    one, two = trimming.against_a_copy(trimming.models(10, 100), 2, copies=2.5)
    assert isinstance(one, Line)
    assert two == Skipped("trimmed mean k=10 b=2: two threads / one", "there is one core")


def peer(folder, text):
    """A program that is taken for a Python with PyTorch and ByzFL."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text, said",
    [
        (None, "there is no Python"),
        ("echo 'No module named torch' >&2; exit 1", "cannot import torch: No module named torch"),
    ],
)
def test_peers_that_are_not_installed_are_skipped(text, said, tmp_path, monkeypatch, capsys):
    python = str(tmp_path / "none") if text is None else peer(tmp_path, text)
    monkeypatch.setitem(os.environ, peers.VARIABLE, python)
    found = list(peers.lines())
    names = [*peers.TRAINING.values(), *peers.DISTANCES.values(), *peers.TRIMMING.values()]
    assert [line.what for line in found] == names and len(set(names)) == 10
    assert all(isinstance(line, Skipped) and said in line.why for line in found)
    assert peers.MAKE in capsys.readouterr().out


@pytest.mark.slow
def test_only_byzfl_is_missing(tmp_path, monkeypatch):
    text = 'case "$2" in *byzfl*) echo "no byzfl" >&2; exit 1;; esac'
    monkeypatch.setitem(os.environ, peers.VARIABLE, peer(tmp_path, text))
    monkeypatch.setattr(peers, "against_pytorch", lambda python: iter([FINE]))
    first, *others = peers.lines()
    assert first is FINE
    assert len(others) == 8 and all("cannot import byzfl: no byzfl" in o.why for o in others)


@pytest.mark.slow
def test_an_error_of_ours_is_not_skipped(tmp_path, monkeypatch):
    """A Python that imports everything, and in which our scripts fail."""
    text = 'case "$1" in -c) exit 0;; esac; echo "NameError: oops" >&2; exit 1'
    monkeypatch.setitem(os.environ, peers.VARIABLE, peer(tmp_path, text))
    with pytest.raises(RuntimeError, match="torch_child.py .*failed:\nNameError: oops"):
        list(peers.lines())
