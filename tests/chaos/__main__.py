"""Disturb runs at random for some minutes; print a table; exit with 1 if a byte was lost."""

import itertools
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

import click

from chaos.attempts import KINDS
from chaos.world import Lost, World

COLUMNS = {  # of the table -> their titles
    "attempts": "attempts",
    "kills": "kills",
    "others": "other disturbances",
    "refused": "refused until restored",
    "survived": "survived",
    "lost": "lost",
}


class Chance(random.Random):
    """A random stream; ``randbytes`` is new in Python 3.9."""

    def randbytes_(self, count):
        return bytes(self.randrange(256) for _ in range(count))


def attempt(world, number, seed, table):
    """One attempt; its kind, moments and damage follow from seed and number alone."""
    chance = Chance(f"{seed}/{number}")
    (kind,) = chance.choices(list(KINDS), weights=list(KINDS.values()))
    folder = world.home / f"attempt-{number}"
    folder.mkdir()
    name = kind.__name__
    try:
        tally = kind(world, folder, chance)
    except Exception as error:
        click.echo(f"LOST in attempt {number} ({name}): {error}", err=True)
        if not isinstance(error, Lost):
            traceback.print_exc()
        table.update({(name, "attempts"): 1, (name, "lost"): 1})
        return
    counts = {"attempts": 1, "survived": 1, **tally._asdict()}
    table.update({(name, column): count for column, count in counts.items()})
    shutil.rmtree(folder)


def render(table):
    """The table as Markdown, with a row for each kind of chaos and their sum.

    >>> print(render(Counter({("die_at_call", "attempts"): 2, ("die_at_call", "kills"): 3})))
    | what | attempts | kills | other disturbances | refused until restored | survived | lost |
    | --- | --- | --- | --- | --- | --- | --- |
    | die at call | 2 | 3 | 0 | 0 | 0 | 0 |
    | together | 2 | 3 | 0 | 0 | 0 | 0 |
    """
    rows = [["what", *COLUMNS.values()], ["---"] * (1 + len(COLUMNS))]
    kinds = [kind.__name__ for kind in KINDS if table[kind.__name__, "attempts"]]
    rows += [[name.replace("_", " "), *[table[name, c] for c in COLUMNS]] for name in kinds]
    rows.append(["together", *[total(table, column) for column in COLUMNS]])
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def total(table, column):
    return sum(count for (_, name), count in table.items() if name == column)


def disturb(world, seed, numbers, minutes, jobs):
    """Make attempts, ``jobs`` at a time, until the time is over or Ctrl-C; return their table."""
    table, lock, stop = Counter(), threading.Lock(), time.monotonic() + 60 * minutes
    interrupted = threading.Event()

    def work():
        while time.monotonic() < stop and not interrupted.is_set():
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            attempt(world, number, seed, table)
            left = max(0, stop - time.monotonic()) / 60
            done = f"{total(table, 'attempts')} attempts, {total(table, 'kills')} kills"
            click.echo(f"{done}; {left:.1f} minutes left", err=True)

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        try:
            thread.join()
        except KeyboardInterrupt:
            click.echo("the attempts under way are the last ones", err=True)
            interrupted.set()
            thread.join()
    return table


@click.command()
@click.option("--minutes", default=30.0, show_default=True, help="How long to go on.")
@click.option("--seed", type=int, help="Repeats the attempts of an earlier call.")
@click.option("--only", type=int, help="Make this attempt alone.")
@click.option("--jobs", default=2, show_default=True, help="Attempts made at the same time.")
def main(minutes, seed, only, jobs):
    """Kill, signal, damage and starve runs; what they compute must not change by a byte."""
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    os.environ.update(OMP_NUM_THREADS="1", CHAOS_CHECKPOINTS="1")
    world = World(Path(tempfile.mkdtemp(prefix="slsgd-mx-chaos-")))
    numbers = itertools.count(1) if only is None else iter([only])
    table = disturb(world, seed, numbers, minutes, jobs)
    click.echo(render(table))
    click.echo(f"processes died at {len(world.reached)} of the {world.calls} calls of a run")
    lost = total(table, "lost")
    if lost:
        click.echo(f"the folders of what was lost are in {world.home}", err=True)
    else:
        shutil.rmtree(world.home)
    sys.exit(int(lost > 0))


if __name__ == "__main__":
    main()
