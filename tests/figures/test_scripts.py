"""The shell scripts: generated from the declarations, and really run at the smallest scale."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from slsgd_mx.cli import main
from slsgd_mx.figures.declarations import FIGURES, ReachFigure, file_name
from slsgd_mx.figures.scripts import main as write_scripts
from slsgd_mx.figures.scripts import scripts

SCRIPTS = Path(__file__).resolve().parents[2] / "experiments"
SMALL = "--preset smoke --epochs 2 --eval-every 1 -n 10 --batch-size 10 --no-warm-up"
ALPHAS = "--alphas 0.6,1"
SIZES = {
    "cifar": "--train-images 100 --test-images 20 --loss-images 20",
    "lstm": "--vocab-size 24 --bptt 4 --device-batches 1 --loss-batches 2 --test-batches 2",
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Where ``SLSGD_MX`` is the command of the package under test."""
    command = tmp_path_factory.mktemp("bin") / "slsgd-mx"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m slsgd_mx "$@"\n')
    command.chmod(0o755)
    paths = [str(SCRIPTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"SLSGD_MX": str(command), "PYTHONPATH": os.pathsep.join(paths)}
    everywhere = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}  # on every core
    return {**everywhere, **own}


@pytest.fixture(scope="module")
def smoke(environment, tmp_path_factory):
    """The folder in which smoke.sh has left runs and figures."""
    home = tmp_path_factory.mktemp("smoke")
    options = " ".join([SMALL, ALPHAS, *SIZES.values()]).split()
    call = [SCRIPTS / "smoke.sh", home / "runs", home / "figures", *options]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    return home


def test_the_scripts_are_those_that_the_declarations_give(tmp_path):
    by_hand = {"all.sh", "smoke.sh", "common.sh", "theory.sh"}
    assert {path.name for path in SCRIPTS.iterdir()} == by_hand | set(scripts())
    write_scripts(tmp_path)
    for written in tmp_path.iterdir():
        script = SCRIPTS / written.name
        assert script.read_text() == written.read_text(), "run python -m slsgd_mx.figures.scripts"
        assert os.access(script, os.X_OK) and os.access(written, os.X_OK)


@pytest.mark.parametrize("name", [*FIGURES, "all", "theory"])
def test_a_script_passes_its_arguments_to_its_command(name):
    script = SCRIPTS / f"{file_name(name) if name in FIGURES else name}.sh"
    environment = {**os.environ, "SLSGD_MX": "echo"}
    arguments = ["--preset", "smoke", "--runs", "a folder"]
    done = subprocess.run([script, *arguments], env=environment, stdout=subprocess.PIPE, check=True)
    assert done.stdout.decode() == " ".join([name, *arguments]) + "\n"


def test_exit_codes_pass_through(environment):
    done = subprocess.run(
        [SCRIPTS / "fig03.sh", "--preset", "smoke", "-k", "3"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "b=2 is out of range for k=3" in done.stderr


def test_without_the_command_the_script_says_how_to_install_it(tmp_path):
    shutil.copytree(SCRIPTS, tmp_path / "experiments")
    done = subprocess.run(
        [tmp_path / "experiments" / "fig01.sh"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "run make demo first" in done.stderr


def test_smoke_leaves_every_figure_and_the_verdicts(smoke):
    for name in FIGURES:
        for kind in ("png", "svg", "csv"):
            path = smoke / "figures" / f"{file_name(name)}.{kind}"
            assert path.stat().st_size > 100, path
    verdicts = json.loads((smoke / "figures" / "claims.json").read_text())
    assert [claim["id"] for claim in verdicts["claims"]] == [f"C{n}" for n in range(1, 13)]
    lacking = [claim["id"] for claim in verdicts["claims"] if claim["missing"]]
    assert lacking == ["C10", "C11"]  # smoke.sh computes Proposition 1 only
    assert (smoke / "figures" / "theory" / "prop1.png").stat().st_size > 200


@pytest.mark.parametrize("name", FIGURES)
def test_a_single_figure_finds_its_runs_finished(smoke, name):
    alphas = ALPHAS if isinstance(FIGURES[name], ReachFigure) else ""
    line = f"{name} {SMALL} {SIZES[FIGURES[name].task]} {alphas} --dry-run"
    result = CliRunner().invoke(main, [*line.split(), "--runs", str(smoke / "runs")])
    assert "epochs to compute: 0 " in result.output, result.output


def test_a_single_figure_draws_what_all_has_drawn(environment, smoke):
    call = [SCRIPTS / "fig05.sh", *f"{SMALL} {SIZES['cifar']} {ALPHAS}".split()]
    call += ["--runs", smoke / "runs", "--figures", smoke / "again"]
    done = subprocess.run(call, env=environment, stderr=subprocess.PIPE, text=True, check=True)
    assert "nothing to compute" in done.stderr
    for kind in ("png", "svg", "csv"):
        again, before = (smoke / part / f"fig05.{kind}" for part in ("again", "figures"))
        assert again.read_bytes() == before.read_bytes()
