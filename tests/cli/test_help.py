"""Every command explains itself, quickly."""

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import click
import pytest
from helpers.command_line import call

import slsgd_mx
from slsgd_mx.cli import COMMANDS, main
from slsgd_mx.cli.options import OPTIONS, parameter
from slsgd_mx.config import RunConfig
from slsgd_mx.tasks.cifar.sizes import Cifar
from slsgd_mx.tasks.lstm.sizes import Lstm

pytestmark = pytest.mark.usefixtures("elsewhere")


def test_every_field_of_a_configuration_has_an_option():
    known = {parameter(name) for name in OPTIONS}
    for kind in (RunConfig, Cifar, Lstm):
        assert {field.name for field in fields(kind)} - {"sizes", "sources"} <= known
    assert all(attributes["help"].endswith(".") for _, attributes in OPTIONS.values())


def command_names(group=main, prefix=""):
    """The words of every command below a group, and of the groups themselves."""
    yield prefix
    context = click.Context(group)
    for name in group.list_commands(context):
        command, words = group.get_command(context, name), f"{prefix} {name}".strip()
        yield from command_names(command, words) if isinstance(command, click.Group) else [words]


NAMES = list(command_names())


def test_commands_inside_groups_are_found():
    assert {*COMMANDS, "dist worker", "runs verify", "runs unpack", "train images"} <= {*NAMES}


@pytest.mark.parametrize("command", NAMES)
def test_every_command_explains_itself(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = call(f"{command} --help")
    assert result.exit_code == 0 and "--help" in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    if command in ("cifar", "lstm"):
        said = " ".join(result.output.split())
        for word in ("FedAvg", "local SGD", "gamma:", "alpha:", "k:", "b:", "q:", "H_t^i", "S_t"):
            assert word in said
    if command == "lstm":
        for word in ("WikiText-2", "label-permute", "--vocab-size", "--bptt", "33278", "--preset"):
            assert word in said


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom slsgd_mx.cli import main\n"
        "try:\n    main(['--help'])\nfinally:\n"
        "    heavy = {'mxnet', 'numpy', 'matplotlib', 'pooch', 'tqdm'} & set(sys.modules)\n"
        "    print('heavy:', sorted(heavy))"
    )
    home = Path(slsgd_mx.__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, check=True
    )
    said = done.stdout.decode()
    assert all(command in said for command in COMMANDS) and said.endswith("heavy: []\n")
