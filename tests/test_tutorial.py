"""The commands and code of the tutorial, docs/fifteen-minutes.md, with one epoch instead of 40."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.blocks import DOCS, python_blocks

from slsgd_mx import load_plugin, load_runs, preset
from slsgd_mx.cli import main

PAGE = (DOCS / "fifteen-minutes.md").read_text(encoding="utf-8")
ATTACK, CHECK = python_blocks("fifteen-minutes.md")
COMMANDS = re.findall(r"^\$ (.+)", PAGE, re.M)
ROW = re.compile(r"^([0-9a-f]{6})  40/40  done +(\d) +(\d) +(\S+)", re.M)
RUNS = {run: (int(b), int(q), attack) for run, b, q, attack in ROW.findall(PAGE)}
ELSEWHERE = {
    "source .venv/bin/activate",
    "slsgd-mx doctor",  # tests/test_doctor.py
}


def shorten(command):
    """The command with one epoch, and with the parts of folder names that the runs have here."""
    command = command.replace("make demo", "slsgd-mx demo --epochs 1").replace("T=40", "T=1")
    command = command.replace("cifar --preset smoke", "cifar --preset smoke --epochs 1 --width 2")
    if set(RUNS) & set(re.findall(r"[0-9a-f]{6}", command)):
        for run in load_runs("runs"):
            symbols = tuple(run.config[name] for name in ("b", "q", "attack"))
            (old,) = [
                name for name, row in RUNS.items() if row == (*symbols[:2], symbols[2] or "none")
            ]
            command = command.replace(old, run.path.name[-12:-6])
    return command


def expected(command):
    """What the page shows below a command, up to the next one."""
    return PAGE.split(f"$ {command}\n")[1].split("\n$ ")[0].split("```")[0]


@pytest.fixture
def folder(elsewhere, fresh_plugins):
    """An empty folder in which the attack is saved, as the page asks."""
    Path("my_attack.py").write_text(ATTACK)


def test_the_page_has_commands_and_runs():
    assert len(COMMANDS) >= 9 and len(RUNS) == 5
    assert set(COMMANDS) >= ELSEWHERE


def test_the_check_on_arrays_prints_what_the_page_says(folder, capsys):
    exec(compile(CHECK, "check", "exec"), {})
    said = capsys.readouterr().out
    assert said.endswith(" True\n") and f"```\n{said}```" in PAGE


def test_the_commands_lead_to_the_runs_that_the_page_lists(folder):
    """The configurations' identities are those of the transcript: nothing has changed since."""
    load_plugin("my_attack.py")
    for run, (b, q, attack) in RUNS.items():
        changes = {} if attack == "none" else {"attack": attack}
        assert preset("cifar", "smoke", b=b, q=q, **changes).identity.startswith(run), attack


def test_every_command_runs(folder):
    for command in COMMANDS:
        if command in ELSEWHERE:
            continue
        words = shlex.split(shorten(command))
        if words[0] != "slsgd-mx":
            subprocess.run(shorten(command), shell=True, check=True, stdout=subprocess.PIPE)
            continue
        result = CliRunner().invoke(main, words[1:], prog_name="slsgd-mx")
        wrong = "Error: " in expected(command)
        assert result.exit_code == (2 if wrong else 0), result.output
        if wrong:
            message = re.search(r"Error: .*?(?= \.\.\.)", expected(command)).group()
            assert message in result.output
    assert Path("backwards.png").stat().st_size > 10_000
    assert len(load_runs("runs")) == 5
    pushes = next(Path("runs").glob("*-b2-backwards-*/pushes.csv")).read_text()
    assert pushes.splitlines()[0] in PAGE
