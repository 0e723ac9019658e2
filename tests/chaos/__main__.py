"""Disturb runs at random for some minutes; print a table; exit with 1 if a byte was lost."""

import itertools
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
    table[name, "attempts"] += 1
    try:
        tally = kind(world, folder, chance)
    except Exception as error:
        click.echo(f"LOST in attempt {number} ({name}): {error}", err=True)
        if not isinstance(error, Lost):
            traceback.print_exc()
        table[name, "lost"] += 1
        return
    for key, value in tally._asdict().items():
        table[name, key] += value
    shutil.rmtree(folder)


def render(table):
    """The table as Markdown, with a row for each kind of chaos and their sum.

    >>> print(render(Counter({("die_at_call", "attempts"): 2, ("die_at_call", "kills"): 3})))
    | what | attempts | kills | other disturbances | refused until restored | lost |
    | --- | --- | --- | --- | --- | --- |
    | die at call | 2 | 3 | 0 | 0 | 0 |
    | together | 2 | 3 | 0 | 0 | 0 |
    """
    columns = ["attempts", "kills", "others", "refused", "lost"]
    titles = ["what", "attempts", "kills", "other disturbances", "refused until restored", "lost"]
    rows = [titles, ["---"] * len(titles)]
    kinds = [kind.__name__ for kind in KINDS if table[kind.__name__, "attempts"]]
    rows += [[name.replace("_", " "), *[table[name, c] for c in columns]] for name in kinds]
    rows.append(["together", *[total(table, c) for c in columns]])
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def total(table, column):
    return sum(count for (_, name), count in table.items() if name == column)


@click.command()
@click.option("--minutes", default=30.0, show_default=True, help="How long to go on.")
@click.option("--seed", type=int, help="Repeats the attempts of an earlier call.")
@click.option("--only", type=int, help="Make this attempt alone.")
@click.option("--jobs", default=2, show_default=True, help="Attempts made at the same time.")
def main(minutes, seed, only, jobs):
    """Kill, signal, damage and starve runs; what they compute must not change by a byte."""
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}", err=True)
    home, table = Path(tempfile.mkdtemp(prefix="slsgd-mx-chaos-")), Counter()
    world, began = World(home), time.monotonic()
    attempts = iter([only]) if only is not None else itertools.count(1)
    lock = threading.Lock()

    def work():
        while time.monotonic() - began < 60 * minutes:
            with lock:
                number = next(attempts, None)
            if number is None:
                return
            attempt(world, number, seed, table)
            left = max(0, minutes - (time.monotonic() - began) / 60)
            done, kills = (
                sum(v for k, v in table.items() if k[1] == c) for c in ("attempts", "kills")
            )
            click.echo(f"{done} attempts, {kills} kills; {left:.1f} minutes left", err=True)

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    click.echo(render(table))
    lost = total(table, "lost")
    if lost:
        click.echo(f"{lost} attempts lost something; their folders are in {home}", err=True)
    else:
        shutil.rmtree(home)
    sys.exit(int(lost > 0))


if __name__ == "__main__":
    main()
