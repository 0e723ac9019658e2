"""Report what works on this machine."""

from __future__ import annotations

from dataclasses import asdict

import click

from slsgd_mx.cli.output import json_option, print_json, say, wrap

MARKS = {True: "ok", False: "FAIL", None: "info"}


@click.command()
@json_option
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Report what works on this machine, in about ten seconds.

    Python, MXNet, NumPy, cores and threads, memory, bfloat16, the compiled parts, the data, the
    parameter server (a scheduler, a server and a worker connect on loopback), disk and optional
    packages. The exit code is 1 if something that is needed does not work.
    """
    from slsgd_mx.doctor import Check, examine

    def show(check: Check) -> None:
        say(wrap(f"{MARKS[check.ok]:4} {check.name:16} {check.text}", hanging=" " * 22))

    found = examine(show)
    bad = [check.name for check in found if check.ok is False]
    print_json({"ok": not bad, "checks": [asdict(check) for check in found]})
    if bad:
        click.echo(f"slsgd-mx: does not work here: {', '.join(bad)}", err=True)
        ctx.exit(1)
