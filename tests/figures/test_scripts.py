"""The shell scripts: one for every figure, and all of them really run, at smoke scale."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slsgd_mx.figures.build import file_name
from slsgd_mx.figures.declarations import FIGURES

SCRIPTS = Path(__file__).resolve().parents[2] / "experiments"


@pytest.fixture
def environment(tmp_path):
    """Where ``SLSGD_MX`` is the command of the package under test."""
    command = tmp_path / "slsgd-mx"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m slsgd_mx "$@"\n')
    command.chmod(0o755)
    paths = [str(SCRIPTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"SLSGD_MX": str(command), "PYTHONPATH": os.pathsep.join(paths)}
    everywhere = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}  # on every core
    return {**everywhere, **own}


def test_every_figure_has_its_script():
    expected = {f"{file_name(name)}.sh" for name in FIGURES} | {
        *("all.sh", "smoke.sh", "common.sh", "theory.sh")
    }
    assert {path.name for path in SCRIPTS.iterdir()} == expected
    for name in [*FIGURES, "all", "theory"]:
        script = SCRIPTS / f"{file_name(name) if name in FIGURES else name}.sh"
        assert os.access(script, os.X_OK)
        assert f'\nrun {name} "$@"\n' in script.read_text()


def test_arguments_and_exit_codes_pass_through(environment):
    done = subprocess.run(
        [SCRIPTS / "fig03.sh", "--preset", "smoke", "-k", "3"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "b=2 is out of range for k=3" in done.stderr


def test_without_the_command_the_way_on_is_said(tmp_path):
    shutil.copytree(SCRIPTS, tmp_path / "experiments")
    done = subprocess.run(
        [tmp_path / "experiments" / "fig01.sh"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "run make demo first" in done.stderr


def test_all_scripts_at_smoke_scale(environment, tmp_path):
    """All figures in one plan, then every figure's own script, then the verdicts."""
    call = [SCRIPTS / "smoke.sh", tmp_path / "runs", tmp_path / "figures"]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    for name in FIGURES:
        for kind in ("png", "svg", "csv"):
            path = tmp_path / "figures" / f"{file_name(name)}.{kind}"
            assert path.stat().st_size > 200, path
    # the scripts of single figures found everything there
    assert done.stderr.count("nothing to compute") == len(FIGURES)
    verdicts = json.loads((tmp_path / "figures" / "claims.json").read_text())
    assert [claim["id"] for claim in verdicts["claims"]] == [f"C{n}" for n in range(1, 13)]
    lacking = [claim["id"] for claim in verdicts["claims"] if claim["missing"]]
    assert lacking == ["C10", "C11"]  # whose theorems take longer; Proposition 1 is there
    assert (tmp_path / "figures" / "theory" / "prop1.png").stat().st_size > 200
