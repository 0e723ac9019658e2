"""The scripts of docs/cluster.md, run with stand-ins for srun, ssh and other cluster commands."""

import os
import re
import sys
from pathlib import Path

import pytest
from helpers.parameter_server import COMMAND, SMOKE, capture, environment

from slsgd_mx.parameter_server.launcher import find_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="MXNet's parameter server: Linux")

DOCS = Path(__file__).resolve().parents[2] / "docs" / "cluster.md"
STAND_INS = {
    "getent": "echo 127.0.0.1 STREAM localhost",
    "scontrol": 'if [ "$1" = show ]; then echo here; else echo "$@" > "$HOME/requeued"; fi',
    "ssh": 'shift; exec bash -c "$1"',
    "srun": """
        shift; pids=; code=0
        for number in 0 1 2 3 4 5 6; do SLURM_PROCID=$number "$@" & pids="$pids $!"; done
        for pid in $pids; do wait $pid; got=$?; [ $got -le $code ] || code=$got; done
        exit $code""",
}


def script(title):
    """The shell script in a section, with a run that takes seconds instead of the paper's."""
    section = DOCS.read_text().split(f"### {title}\n", 1)[1]
    text = re.search(r"```bash\n(.*?)```", section, re.S).group(1)
    assert text.count("cifar --balanced --alpha 0.8 --b 2") == 1
    return text.replace("--balanced --alpha 0.8 --b 2", f"{SMOKE} --epochs 2 --b 1")


@pytest.fixture
def run(tmp_path):
    """``run(script)`` runs a script with the stand-ins in PATH and a temporary home folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    mine = f'export DMLC_NODE_HOST=127.0.0.1\nexec "{sys.executable}" -c "{COMMAND}" "$@"'
    for name, text in {**STAND_INS, "slsgd-mx": mine}.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    (tmp_path / ".venv").symlink_to(tmp_path)
    variables = environment(
        PATH=f"{folder}{os.pathsep}{os.environ['PATH']}",
        HOME=str(tmp_path),
        SLURM_JOB_ID=str(find_port() - 20000),
        SLURM_JOB_NODELIST="here",
        SLURM_SUBMIT_DIR=str(tmp_path),
        SLURM_CPUS_PER_TASK="1",
    )
    return lambda text: capture("bash", "-c", text, env=variables, cwd=tmp_path)


def test_slurm_script(run, tmp_path):
    """It requeues a job that lost a process, and only that."""
    text = script("SLURM")
    done = run(text)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "runs" / "slurm" / "DONE").exists()
    assert not (tmp_path / "requeued").exists()
    lost = re.sub(r"exec slsgd-mx dist .*?;;", "exit 75 ;;", text, flags=re.S)
    assert lost.count("exit 75") == 3
    assert run(lost).returncode == 75
    assert (tmp_path / "requeued").read_text().startswith("requeue ")


def test_ssh_loop(run, tmp_path):
    text = script("A plain loop over ssh").replace("node1 node2 node3", "node1 node2")
    done = run(text.replace("home=/shared/slsgd-mx", f"home={tmp_path}").replace("--threads 4", ""))
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "runs" / "ssh" / "DONE").exists()
