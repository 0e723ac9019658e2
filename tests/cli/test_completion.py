"""What a shell proposes, through click's own completion."""

import os
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from helpers.blobs import write_plugin
from helpers.run_folders import keep, store_run

from slsgd_mx.attacks import ATTACKS
from slsgd_mx.cli import COMMANDS, main
from slsgd_mx.presets import NAMES
from slsgd_mx.rules import RULES


def propose(line):
    """The proposals for the last word of a line, which may be empty."""
    return [item.value for item in complete_with_help(line)]


def complete_with_help(line):
    *words, incomplete = line.split(" ")
    shell = ShellComplete(main, {}, "slsgd-mx", "_SLSGD_MX_COMPLETE")
    return shell.get_completions(words, incomplete)


@pytest.mark.parametrize(
    "line, expected",
    [
        ("", list(COMMANDS)),
        ("cifar --attack ", list(ATTACKS)),
        ("cifar --attack label-p", ["label-permute"]),
        ("cifar --rule ", [*RULES, "nnm+", "bucketing+", "clip+", "arc+"]),
        ("cifar --rule arc+nnm+mul", ["arc+nnm+multi-krum"]),
        ("fig3 --preset ", list(NAMES)),
        ("lstm --partition ", ["shuffled", "consecutive"]),
        ("launch -- ", ["cifar", "lstm", "train", "run"]),
        ("launch --workers 2 -- l", ["lstm"]),
        ("launch -- cifar --attack ", list(ATTACKS)),
        ("launch --workers 2 -- cifar --q 1 --rule med", ["median"]),
        ("launch -- cifar --attacker", ["--attacker-start"]),
        ("dist worker -- cifar --preset s", ["smoke"]),
        ("launch -- fig3 --preset ", []),
        ("train images --network ", ["cnn", "mlp"]),
        ("launch -- train ", ["cifar", "lstm", "images"]),
        ("launch -- train images --network m", ["mlp"]),
        ("arena --task ", ["cifar", "lstm", "images"]),
        ("cifar --partition sh", ["shards"]),
    ],
)
def test_proposals(line, expected):
    assert propose(line) == expected


def test_proposals_know_the_plugin_on_the_line(tmp_path, fresh_plugins):
    write_plugin(tmp_path / "own.py")
    plugin = f"--plugin {tmp_path / 'own.py'}"
    assert propose(f"fig3 {plugin} --task bl") == ["blobs"]
    assert propose(f"arena {plugin} --task blobs --preset s") == ["smoke", "small"]
    assert propose(f"launch -- train {plugin} b") == ["blobs"]


@pytest.mark.parametrize(
    "line",
    [
        "cifer --",
        "train mine --plugin ",
        "train mine --plugin nowhere.py --b ",
        "train cifer --",
        "train --plugin broken.py mine --",
        "launch -- train mine --plugin ",
    ],
)
def test_a_line_that_is_wrong_so_far_leaves_no_traceback(elsewhere, fresh_plugins, line):
    Path("broken.py").write_text("raise ValueError")
    propose(line)


def test_a_broken_plugin_does_not_hide_the_options_of_a_workload(elsewhere, fresh_plugins):
    assert propose("train cifar --plugin nowhere.py --attacker") == ["--attacker-start"]


def test_runs_are_proposed_as_the_list_names_them(tmp_path, monkeypatch, tiny):
    monkeypatch.chdir(tmp_path)
    assert propose("runs show ") == []
    for seed in (0, 1):
        store_run(Path("runs"), tiny(seed=seed), [0.5])
    names = [tiny(seed=seed).identity[:6] for seed in (0, 1)]
    assert sorted(propose("runs show ")) == sorted(propose("runs verify ")) == sorted(names)
    assert propose(f"runs compare {names[0]} ") == [names[1]]
    assert propose(f"runs show {names[1][:5]}") == [names[1]]
    assert len(propose("runs show runs/")) == 2
    assert propose("runs show --runs elsewhere ") == []
    assert all(Path(name, "config.json").exists() for name in propose("runs show runs/"))


@pytest.mark.parametrize("name", ["$(touch made)", "my run", "a;b", "a\nplain,b", "x\x1b[2J", "~"])
def test_names_that_a_shell_would_change_are_not_proposed(tmp_path, monkeypatch, tiny, name):
    """Whoever shares a run chooses the name of its folder, and Enter would execute it."""
    monkeypatch.chdir(tmp_path)
    keep(Path("runs") / name, tiny(), 3)
    keep(Path("runs") / f"{name}-with-digits-{'0' * 12}", tiny(), 3)
    assert propose("runs show ") == ["000000"] and propose("runs show runs/") == []
    (item,) = complete_with_help("runs show ")
    assert item.help is None


def test_nothing_is_proposed_where_runs_cannot_be_listed(tmp_path, monkeypatch, tiny):
    monkeypatch.chdir(tmp_path)
    keep(Path("run"), tiny(), 3)
    Path("file").touch()
    os.mkfifo("pipe")
    Path("loop").symlink_to("loop")
    bytes_only = os.fsencode(tmp_path / "odd") + b"\xff"
    os.mkdir(bytes_only)
    Path(os.fsdecode(bytes_only), "config.json").touch()
    for home in ("file", "pipe", "loop", "x" * 300, "/dev/null", "results.tar.gz"):
        assert propose(f"runs show --runs {home} ") == []
    assert propose("runs show --runs= ") == []
    assert propose("runs show --runs . ") == ["run"]


def test_help_says_how_to_switch_it_on():
    from click.testing import CliRunner

    assert "_SLSGD_MX_COMPLETE=bash_source slsgd-mx" in CliRunner().invoke(main, ["-h"]).output
