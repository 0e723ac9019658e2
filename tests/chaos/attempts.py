"""The kinds of chaos. Each disturbs a run some times, finishes it, and compares its bytes.

An attempt is a function of the world, a folder of its own and a random stream. It returns how many
processes it killed (or cut off from power), how many other disturbances there were, and how many of
them the command refused to go on with, in a clear sentence, until the file was restored.
"""

import os
import shutil
import signal
import subprocess
from typing import NamedTuple

import click

from chaos.world import Lost, Process, call, check_start, wait
from slsgd_mx.runs.verify import VERIFIED, verify_run

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Tally(NamedTuple):
    kills: int = 0
    others: int = 0
    refused: int = 0


def die_at_call(world, folder, chance, lose=False):
    """Die at two to six random file-system calls in the run folder, one after the other."""
    kills = saved = 0
    for _ in range(chance.randint(2, 6)):
        number = chance.randint(1, chance.choice((world.calls, world.calls // 3)))
        code, said = call(world.run("short", folder / "run"), folder / "run", number, lose)
        if code not in (0, -signal.SIGKILL):
            raise Lost(f"exit code {code} after {kills} deaths: {said[-800:]}")
        check_start(said, saved)
        if code == -signal.SIGKILL:
            kills += 1
            saved = max(saved, int(said.rsplit("saved ", 1)[1]))
            world.reached.add(number)
    world.finish("short", folder / "run", saved=saved)
    return Tally(kills)


def lose_power(world, folder, chance):
    """The same, and an arbitrary part of what was not synced is lost."""
    return die_at_call(world, folder, chance, lose=True)


def signal_a_run(world, folder, chance):
    """Send one to three random signals to a run at random moments."""
    counts = [0, 0]
    for _ in range(chance.randint(1, 3)):
        process = Process(world.run("long", folder / "run"))
        number = chance.choice(SIGNALS)
        if wait(process, chance.uniform(0.1, 4)):
            counts[number != signal.SIGKILL] += process.hit(process.process.pid, number)
        process.end()
    world.finish("long", folder / "run")
    return Tally(*counts)


def signal_a_sweep(world, folder, chance):
    """Send a random signal to the command of a figure or to one of its children, twice."""
    counts = [0, 0]
    for _ in range(2):
        process = Process(world.run("figure", folder))
        number = chance.choice(SIGNALS)
        if wait(process, chance.uniform(0.1, 12)):
            counts[number != signal.SIGKILL] += process.hit(chance.choice(process.roles()), number)
        process.end()
    world.finish("figure", folder)
    return Tally(*counts)


def signal_a_role(world, folder, chance):
    """Send a random signal to the launcher, a worker, a server or the scheduler."""
    counts = [0, 0]
    layout = ["--workers", chance.choice((1, 2)), "--servers", chance.choice((1, 2))]
    words = ["launch", *layout, "--patience", 5, "--", *world.run("long", folder / "run")]
    process = Process(words)
    if wait(process, chance.uniform(1, 8)):
        roles = process.roles()
        target = chance.choice(roles)
        number = chance.choice((*SIGNALS, *[signal.SIGSTOP] * (target != roles[0])))
        counts[number != signal.SIGKILL] += process.hit(target, number)
    process.end()
    world.finish("long", folder / "run", words)
    return Tally(*counts)


def damage_a_file(world, folder, chance):
    """Damage one file of a run that was killed, or of one that is done."""
    run, kills = folder / "run", 0
    if chance.random() < 0.7:
        number = chance.randint(world.calls // 4, world.calls)
        code, _ = call(world.run("short", run), run, number)
        kills += code == -signal.SIGKILL
    else:
        world.finish("short", run)
    files = sorted(path for path in run.rglob("*") if path.is_file() and path.name != ".lock")
    if not files:
        return Tally(kills)
    path = chance.choice(files)
    kept, safe = path.read_bytes(), folder / "kept"
    shutil.copytree(run, safe)
    name = chance.choice(sorted(DAMAGES))
    DAMAGES[name](path, kept, chance)
    code, said = call(world.run("short", run))
    if code == 0:
        check_repaired(world, run, path, said)
        return Tally(kills, 1)
    if code not in (1, 2) or not said.strip():
        raise Lost(f"{path.name} {name}: exit code {code}: {said[-800:]}")
    lost = [p.relative_to(safe) for p in safe.rglob("*.params") if not _is_kept(p, safe, run, path)]
    if lost:
        raise Lost(f"{path.name} {name}: {lost[0]} is gone or changed after the refusal")
    sentence = next(line for line in said.splitlines() if line.startswith("slsgd-mx: "))
    click.echo(f"{path.name} {name}: {sentence}", err=True)
    _remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(kept)
    world.finish("short", run)
    return Tally(kills, 1, refused=1)


def check_repaired(world, run, damaged, said):
    """The command was content with a damaged file: the numbers are right, or it said what is not.

    Who pushed in earlier epochs cannot be computed again. What computed a finished run is not
    needed for its numbers; ``runs verify`` reports that file.
    """
    forgotten = damaged.name == "pushes.csv" and "pushes.csv is missing" in said
    world.compare("short", run, slice(2 if forgotten else None))
    check = verify_run(run)
    if check.result != VERIFIED and not (
        damaged.name == "manifest.json" and "manifest.json is" in check.why
    ):
        raise Lost(f"the finished run is {check.result}: {check.why}")


def _is_kept(saved, safe, run, damaged):
    """Whether a model of the run still has its bytes, unless it is the damaged file itself."""
    now = run / saved.relative_to(safe)
    return now == damaged or (now.is_file() and now.read_bytes() == saved.read_bytes())


def _flip(path, content, chance):
    changed = bytearray(content or b"\0")
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    path.write_bytes(changed)


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    elif path.is_symlink() or path.exists():
        path.unlink()


def _put_in_place(make):
    def damage(path, content, chance):
        path.unlink()
        make(path)

    return damage


DAMAGES = {
    "cut": lambda path, content, chance: os.truncate(path, chance.randrange(len(content) + 1)),
    "deleted": lambda path, content, chance: path.unlink(),
    "extended": lambda path, content, chance: path.write_bytes(content + chance.randbytes_(9)),
    "flipped": _flip,
    "garbage": lambda path, content, chance: path.write_bytes(chance.randbytes_(len(content))),
    "now a folder": _put_in_place(os.mkdir),
    "now a pipe": _put_in_place(os.mkfifo),
    "now a dangling link": _put_in_place(lambda path: os.symlink("nowhere", path)),
}


def fill_the_disk(world, folder, chance):
    """Run on a file system that is too small, then on the same one enlarged."""
    disk = folder / "disk"
    disk.mkdir()
    size = chance.randint(4, 80)  # kB
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "chaos", disk]
    if subprocess.run(list(map(str, mount)), stderr=subprocess.DEVNULL).returncode:
        return _limit_files(world, disk, size)
    try:
        code, said = call(world.run("short", disk / "run"))
        if code not in (0, 1):
            raise Lost(f"exit code {code} on a disk of {size} kB: {said[-800:]}")
        enlarge = ["mount", "-o", "remount,size=50m", disk]
        subprocess.run(list(map(str, enlarge)), check=True)
        world.finish("short", disk / "run")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    return Tally(0, int(code == 1))


def _limit_files(world, disk, size):
    """The same without the right to mount: no file may be larger than that."""
    limit = size * 1000 // 4
    code, said = call(world.run("short", disk / "run"), limit=limit)
    if code not in (0, 1):
        raise Lost(f"exit code {code} with files of at most {limit} bytes: {said[-800:]}")
    world.finish("short", disk / "run")
    return Tally(0, int(code == 1))


KINDS = {  # and how often each is chosen
    die_at_call: 6,
    lose_power: 4,
    signal_a_run: 2,
    damage_a_file: 4,
    fill_the_disk: 2,
    signal_a_sweep: 2,
    signal_a_role: 3,
}
