"""Execute the Dockerfile's steps in copies of an empty Debian system, then its default command.

    debootstrap --variant=minbase bookworm /tmp/empty       # as root; a package of Debian
    PYTHONPATH=tests python -m container /tmp/empty /tmp/stages

Every stage becomes a folder, RUN becomes chroot in a mount namespace of its own, COPY copies
tracked files. This is not a container: kernel, network and processes are those of the machine.
docs/containers.md says what was tried.
"""

import posixpath
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click

from container.dockerfile import read_copy, read_stages, read_variables

ROOT = Path(__file__).resolve().parents[2]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class System:
    """A folder that is a root of its own, with what ENV, WORKDIR and USER set."""

    def __init__(self, root, mounts, variables):
        self.root, self.mounts = root, mounts
        self.variables, self.folder, self.user = {"PATH": PATH, **variables}, "/", "0"

    def run(self, words):
        """Run a program inside; its mounts end with it."""
        lines = [f"mount -t proc proc {self.root}/proc"]
        for mount in self.mounts:
            (self.root / mount.lstrip("/")).mkdir(parents=True, exist_ok=True)
            lines.append(f"mount --bind -o ro {mount} {self.root}{mount}")
        inside = ["sh", "-c", f'cd {self.folder} && exec "$@"', "sh", *words]
        given = [f"{name}={value}" for name, value in self.variables.items()]
        user = [] if self.user == "0" else ["--userspec", f"{self.user}:{self.user}"]
        call = ["chroot", *user, str(self.root), "env", "-i", *given, *inside]
        lines.append("exec " + " ".join(map(shlex.quote, call)))
        subprocess.run(["unshare", "--mount", "sh", "-ec", "\n".join(lines)], check=True)

    def copy(self, sources, target, origin):
        """Copy files or folders from another root, or tracked ones from the repository."""
        inside = posixpath.join(self.folder, target)
        place = self.root / inside.lstrip("/")
        for source in sources:
            path = origin / source.lstrip("/")
            many = len(sources) > 1 or target.endswith("/")
            goal = place / path.name if path.is_file() and many else place
            goal.parent.mkdir(parents=True, exist_ok=True)
            if origin != ROOT:
                subprocess.run(["cp", "-a", str(path), str(goal)], check=True)
                continue
            for name in tracked(source):
                file = goal / Path(name).relative_to(source) if path.is_dir() else goal
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, file)


def tracked(source):
    """The files of the repository under a name."""
    words = ["git", "ls-files", "--", source]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def build(stage, empty, home, settings):
    """Execute the steps of one stage in a copy of the empty system."""
    root = home / stage.name
    subprocess.run(["cp", "-a", str(empty), str(root)], check=True)
    system = System(root, *settings)
    for name, rest in stage.steps:
        print(f"[{stage.name}] {name} {rest}", flush=True)
        if name == "RUN":
            system.run(["sh", "-c", rest])
        elif name == "COPY":
            origin, sources, target = read_copy(rest)
            system.copy(sources, target, home / origin if origin else ROOT)
        elif name == "ENV":
            system.variables.update(read_variables(rest))
        elif name == "USER":
            system.user = rest
        else:
            system.folder = rest
            if not (root / rest.lstrip("/")).is_dir():
                (root / rest.lstrip("/")).mkdir(parents=True)
    return system


@click.command()
@click.argument("empty", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("home", type=click.Path(path_type=Path))
@click.option("--mount", multiple=True, help="Show this folder inside, read-only; may be repeated.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Set this inside, for pip.")
@click.option("--run", "words", multiple=True, help="Instead of the default command; repeat.")
def main(empty, home, mount, env, words):
    """EMPTY: a root made by debootstrap. HOME: a new folder for a root of each stage."""
    home.mkdir(parents=True)
    settings = (mount, dict(pair.split("=", 1) for pair in env))
    stages = read_stages((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    systems = [build(stage, empty, home, settings) for stage in stages]
    call = [*stages[-1].entry, *(words or stages[-1].command)]
    print(f"[{stages[-1].name}] {' '.join(call)} (user {systems[-1].user})", flush=True)
    systems[-1].run(call)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"container: a step failed with exit code {error.returncode}")
