"""fig1 ... fig13, ledger, all: what they say, what they refuse, where they write."""

import re

import pytest
from click.testing import CliRunner

from slsgd_mx.cli import COMMANDS, main
from slsgd_mx.figures import FIGURES

TINY = "--preset smoke --epochs 4 --eval-every 2 -n 10 --batch-size 10 --repeats 1"
IMAGES = "--train-images 100 --test-images 20 --loss-images 20 --width 2"
TEXT = "--vocab-size 24 --bptt 4 --device-batches 2 --loss-batches 2 --test-batches 2"
TINY, IMAGES, TEXT = (options.split() for options in (TINY, IMAGES, TEXT))


@pytest.fixture
def call(tmp_path, monkeypatch):
    """``call("fig3", "--dry-run")``: run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return result

    return call


def test_every_figure_has_a_command_that_explains_itself(call):
    for name in [*FIGURES, "all"]:
        assert name in COMMANDS
        said = call(name, "--help").output
        assert "--dry-run" in said and f"slsgd-mx {name} --preset smoke" in said
    assert "--attack " not in call("fig1", "--help").output
    assert "--attack " in call("fig4", "--help").output
    assert "--loss " in call("fig6", "--help").output
    assert "--loss " not in call("fig7", "--help").output


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--k", "3"], "No such option"),
        (["-k", "3"], "b=2 is out of range for k=3"),
        (["--repeats", "0"], "0 is not in the range x>=1"),
        (["--jobs", "0"], "0 is not in the range x>=1"),
        (["--preset", "huge"], "'huge' is not one of"),
        (["--epochs", "0"], "epochs=0 is out of range: needs epochs >= 1"),
        (["--seed", "-1"], "seed=-1 is out of range: needs seed >= 0"),
        (["--vocab-size", "10"], "No such option"),
        (["--alphas", "0.6"], "No such option"),
    ],
)
def test_wrong_flags(call, tmp_path, arguments, said):
    result = call("fig3", *TINY, *arguments)
    assert result.exit_code == 2 and said in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "alphas, said", [("0.6;1", "'0.6;1' is not a list of numbers"), ("0,1", "alpha=0.0 is out of")]
)
def test_wrong_alphas(call, alphas, said):
    result = call("fig5", *TINY, "--alphas", alphas)
    assert result.exit_code == 2 and said in result.output


def test_a_dry_run_computes_nothing_and_says_all(call, tmp_path):
    result = call("fig3", *TINY, *IMAGES, "--dry-run", "--jobs", "1")
    said = result.output
    assert result.exit_code == 0, said
    assert "runs: 9, of which 0 are there; shared beginnings: 6" in said
    # 9 runs of 4 epochs; the 3 with alpha=0.8 share the first 2 with others
    assert "epochs to compute: 30 (without sharing between runs and figures: 36)" in said
    assert re.search(r"forecast for 1 process\(es\) of \d+ thread\(s\): \d+ seconds, ", said)
    assert len(re.findall(r"^missing: epochs", said, re.M)) == 15
    assert not (tmp_path / "runs").exists() and not (tmp_path / "figures").exists()


def test_figures_compute_what_is_missing_once(call, tmp_path):
    first = call("fig11", *TINY, *TEXT, "--jobs", "1")
    assert first.exit_code == 0, first.output
    out = tmp_path / "figures" / "smoke-changed"
    assert sorted(path.name for path in out.iterdir()) == ["fig11.csv", "fig11.png", "fig11.svg"]
    assert "computed 12 epochs" in first.output  # b=0 and b=2: 2 shared, then 2 for each alpha
    before = (out / "fig11.csv").read_bytes()
    again = call("fig11", *TINY, *TEXT)
    assert "nothing to compute: all 4 runs are there" in again.output
    assert (out / "fig11.csv").read_bytes() == before
    other = call("fig13", *TINY, *TEXT, "--draw-only")
    assert other.exit_code == 1 and "missing" in other.output
    assert (out / "fig13.png").exists()


def test_drawing_only_without_any_run(call, tmp_path):
    result = call("fig5", *TINY, *IMAGES, "--draw-only")
    assert result.exit_code == 1
    assert "fig5: it cannot be drawn: none of its 9 runs is finished" in result.output
    assert not (tmp_path / "figures").exists()


def test_missing_data_is_said_once(call, tmp_path):
    result = call("fig11", "--preset", "laptop", "--data-dir", tmp_path, "--jobs", "1")
    assert result.exit_code == 1 and result.output.count("Three ways on") == 1
