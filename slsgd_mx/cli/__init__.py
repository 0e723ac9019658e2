"""The command line: parse, call, print.  Heavy imports sit inside the commands."""

from __future__ import annotations

import difflib
import shlex
import signal
import sys
from importlib import import_module
from typing import List, Optional

import click

from slsgd_mx import __version__
from slsgd_mx.cli.output import as_given
from slsgd_mx.errors import SlsgdError
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.plugins import explain_failure
from slsgd_mx.system import signals

# command -> the module of this package that holds it
COMMANDS = {
    "cifar": "training",
    "lstm": "training",
    "train": "training",
    "run": "stored",
    "demo": "demo",
    **{name: "figures" for name in [*FIGURES, "all"]},
    "arena": "arena",
    "theory": "theory",
    "claims": "claims",
    "report": "report",
    "runs": "runs",
    "launch": "launch",
    "dist": "dist",
    "partition": "partition",
    "data": "data",
    "doctor": "doctor",
}
OUT_OF_MEMORY = (
    "this needs more memory than there is: choose smaller sizes, such as --width or --batch-size, "
    "or fewer processes at a time (--jobs)"
)
NOTHING_TO_RESUME = {"claims", "report", "runs", "partition", "doctor"}
RENAMED = {"ledger": "attacker-start"}  # names of 0.1.0 -> today's


class Failure(click.ClickException):
    """An error for the user: one paragraph, no traceback, an exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(as_given(message))
        self.exit_code = exit_code

    def show(self, file=None) -> None:
        click.echo(f"slsgd-mx: {self.message}", file=file or sys.stderr)


class Commands(click.Group):
    """Imports a command when it is needed; turns our errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> List[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> Optional[click.Command]:
        if name in RENAMED:
            click.echo(f"slsgd-mx: {name} is now {RENAMED[name]}: use that name", err=True)
            name = RENAMED[name]
        if name not in COMMANDS:
            return None
        module = import_module(f".{COMMANDS[name]}", __name__)
        return module.COMMANDS[name] if hasattr(module, "COMMANDS") else getattr(module, name)

    def resolve_command(self, ctx: click.Context, args: List[str]):
        similar = difflib.get_close_matches(args[0], COMMANDS, n=1)
        if similar and args[0] not in (*COMMANDS, *RENAMED) and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {similar[0]!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context):
        signals.install()
        try:
            return super().invoke(ctx)
        except (SlsgdError, KeyboardInterrupt) as error:
            raise failure(error) from error
        except BrokenPipeError:
            raise  # as of "| head": click ends without a word
        except Exception as error:
            why = explain_failure(error)
            if why:
                raise Failure(why, 1) from error
            if isinstance(error, (ImportError, OSError)) or is_out_of_memory(error):
                raise failure(error) from error
            raise


def is_out_of_memory(error: BaseException) -> bool:
    mxnets = any(words in str(error) for words in ("Failed to allocate", "bad_alloc"))
    return isinstance(error, MemoryError) or mxnets


def failure(error: BaseException) -> Failure:
    """The message and exit code of an error."""
    if isinstance(error, KeyboardInterrupt):
        again = "slsgd-mx " + " ".join(map(shlex.quote, sys.argv[1:]))
        number = error.args[0] if error.args else signal.SIGINT
        code = 128 + (number if number in (signal.SIGTERM, signal.SIGHUP) else signal.SIGINT)
        if {"--dry-run", "--draw-only"} & {*sys.argv} or {*sys.argv[1:2]} & NOTHING_TO_RESUME:
            return Failure("interrupted", code)
        return Failure(f"interrupted; this resumes where it stopped:\n  {again}", code)
    if is_out_of_memory(error):
        return Failure(f"{OUT_OF_MEMORY} ({(str(error).splitlines() or ['MemoryError'])[-1]})", 1)
    # an error without an exit code: MXNet cannot be imported, or standard output is closed
    return Failure(str(error), getattr(error, "exit_code", 1))


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog="""\b
    Start here:          slsgd-mx demo
    A run of the paper:  slsgd-mx cifar --balanced --alpha 0.8 --b 2
    All of its figures:  slsgd-mx all --preset laptop --dry-run
    Does it work here?   slsgd-mx doctor
    Completion in bash:  eval "$(_SLSGD_MX_COMPLETE=bash_source slsgd-mx)\"""",
)
@click.version_option(__version__, prog_name="slsgd-mx")
def main() -> None:
    """SLSGD: secure and efficient distributed on-device machine learning (Xie, Koyejo, Gupta,
    ECML-PKDD 2019) on MXNet and Gluon.

    Every command has help: slsgd-mx COMMAND --help.
    """
