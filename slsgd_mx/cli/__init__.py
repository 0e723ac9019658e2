"""The command line: parse, call, print.  Heavy imports sit inside the commands."""

from __future__ import annotations

import shlex
import signal
import sys
from importlib import import_module
from typing import List, Optional

import click

from slsgd_mx import __version__
from slsgd_mx.errors import SlsgdError
from slsgd_mx.system import signals

# command -> the module of this package that holds it, under the same name with "_"
COMMANDS = {
    "cifar": "training",
    "lstm": "training",
    "demo": "demo",
    **{name: "figures" for name in [*(f"fig{n}" for n in range(1, 14)), "ledger", "all"]},
    "theory": "theory",
    "claims": "claims",
    "launch": "launch",
    "dist": "dist",
    "partition": "partition",
    "data": "data",
}


class Failure(click.ClickException):
    """An error for the user: one paragraph, no traceback, an exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def show(self, file=None) -> None:
        click.echo(f"slsgd-mx: {self.message}", file=file or sys.stderr)


class Commands(click.Group):
    """Imports a command when it is asked for; turns our errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> List[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> Optional[click.Command]:
        if name not in COMMANDS:
            return None
        module = import_module(f".{COMMANDS[name]}", __name__)
        return module.COMMANDS[name] if hasattr(module, "COMMANDS") else getattr(module, name)

    def invoke(self, ctx: click.Context):
        signals.install()
        try:
            return super().invoke(ctx)
        except (SlsgdError, ImportError, OSError, KeyboardInterrupt) as error:
            raise failure(error) from error


def failure(error: BaseException) -> Failure:
    """What the user is told of an error."""
    if isinstance(error, KeyboardInterrupt):
        again = "slsgd-mx " + " ".join(map(shlex.quote, sys.argv[1:]))
        code = 143 if error.args == (signal.SIGTERM,) else 130
        return Failure(f"interrupted; this resumes where it stopped:\n  {again}", code)
    # else, without an exit code of its own: no MXNet, or nowhere to print to
    return Failure(str(error), getattr(error, "exit_code", 1))


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog="Start with slsgd-mx demo. The paper's run: slsgd-mx cifar --balanced --alpha 0.8 --b 2",
)
@click.version_option(__version__, prog_name="slsgd-mx")
def main() -> None:
    """SLSGD: secure and efficient distributed on-device machine learning (Xie, Koyejo, Gupta,
    ECML-PKDD 2019) on MXNet and Gluon.

    Every command explains itself: slsgd-mx COMMAND --help.
    """
