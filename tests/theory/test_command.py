"""slsgd-mx theory, the command."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from slsgd_mx.claims import ABSENT, HOLDS
from slsgd_mx.cli import main
from slsgd_mx.cli.theory import write_verdicts
from slsgd_mx.report.verdicts import from_folder
from slsgd_mx.system.processes import environment
from slsgd_mx.theory import cases
from slsgd_mx.theory.tables import read_rows


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield tmp_path
    for number, handler in before.items():
        signal.signal(number, handler)


def call(*line):
    result = CliRunner().invoke(main, [*line])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_command_from_nothing_to_the_verdict(elsewhere):
    result = call("theory", "prop1", "--quick", "--jobs", "1")
    assert result.exit_code == 0, result.output
    assert "picture: figures/theory/prop1.png  (numbers: prop1.csv)" in result.output
    assert "negation, b=0, alpha=1: printed: the error follows c" in result.output
    assert "verdicts on C10 to C12: slsgd-mx claims\n" in result.output
    assert {path.name for path in Path("figures/theory").iterdir()} == {
        *("prop1.png", "prop1.svg", "prop1.csv", "assumptions-prop1.csv", "proof-prop1.csv")
    }
    said = call("claims", "--preset", "smoke").output
    assert "holds            b=0, alpha=1: slope of log error over log c 1.9" in said
    assert "what to do now: slsgd-mx theory computes what C10, C11 lack" in said
    write_verdicts(Path("runs"), Path("figures/theory"), seeds=2)  # as after all parts
    found = from_folder(Path("figures/theory"), [])
    checks = {
        claim["id"]: [check["verdict"] for check in claim["checks"]] for claim in found["claims"]
    }
    assert list(checks) == ["C10", "C11", "C12"] and checks["C12"][0] == HOLDS
    assert set(checks["C10"] + checks["C11"]) == {ABSENT}
    assert found["note"] == "Problems of the theory, seeds 0 to 1."
    assert "C12" in Path("figures/theory/claims.md").read_text()
    again = call("theory", "prop1", "--quick")
    assert "nothing to compute: 2 seeds of 18 cases in runs/theory" in again.output


@pytest.mark.parametrize(
    "line, said",
    [
        (["thm3"], "'thm3' is not one of 'thm1', 'thm2', 'prop1', 'all'"),
        (["prop1", "--seeds", "0"], "0 is not in the range 1<=x<=1000"),
        (["prop1", "--jobs", "0"], "0 is not in the range 1<=x<=10000"),
    ],
)
def test_wrong_calls_exit_with_2_and_leave_nothing(elsewhere, line, said):
    result = call("theory", *line)
    assert result.exit_code == 2 and said in result.output
    assert list(elsewhere.iterdir()) == []


def test_help_teaches():
    said = call("theory", "--help").output
    for word in ("Theorem", "thm1", "thm2", "prop1", "V_1", "RUNS/theory", "claims", "--quick"):
        assert word in said


def test_ctrl_c_keeps_what_is_done(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "slsgd_mx", "theory", "prop1", "--seeds", "200", "--jobs", "2"],
        cwd=tmp_path, env=environment(1), stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    folder, end = tmp_path / "runs" / "theory", time.monotonic() + 60
    while not (folder.is_dir() and any(folder.glob("*.csv"))) and time.monotonic() < end:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130 and b"resumes where it stopped" in said
    assert b"Traceback" not in said
    kept = [case for case in cases.cases_of("prop1") if read_rows(folder, case)]
    assert kept and not list(folder.glob("*.tmp"))
    assert not (tmp_path / "figures").exists()
