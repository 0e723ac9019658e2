"""The ``slsgd-mx`` command, which can be made to die at its Nth file-system call below a folder.

    python victim.py FOLDER NUMBER LOSE COMMAND...

With LOSE=1, the process dies as in a power loss: it first undoes an arbitrary part of what it did
below the folder and did not sync. Before it dies, it prints the epoch that it had saved last. With
NUMBER=0, it does not die; it prints how many calls it made.
"""

import os
import random
import resource
import signal
import sys

from chaos.disk import Disk

CALLS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.listdir", "os.scandir"}


class Death:
    """Counts the calls below a folder, and ends the process at one of them."""

    def __init__(self, folder, number, lose):
        self.folder, self.number, self.lose = os.path.abspath(folder), number, lose
        self.count, self.saved, self.fsync = 0, 0, os.fsync
        self.disk, self.busy = Disk(), False
        os.fsync = self.sync
        sys.addaudithook(self.hear)

    def hear(self, event, arguments):
        """Count an event of Python's audit hooks, if it concerns the folder."""
        if (
            self.busy
            or event not in CALLS
            or not isinstance(arguments[0], (str, bytes, os.PathLike))
        ):
            return
        path = os.path.abspath(os.fsdecode(arguments[0]))
        if not path.startswith(self.folder):
            return
        self.step()
        self.busy = True  # the calls of the model itself do not count
        try:
            self.watch(event, path, arguments)
        finally:
            self.busy = False

    def watch(self, event, path, arguments):
        if event == "open":
            self.disk.open(path, arguments[2] or 0)
        elif event == "os.rename":
            self.disk.rename(path, os.path.abspath(os.fsdecode(arguments[1])))
        elif event == "os.remove":
            self.disk.remove(path)
        elif event == "os.mkdir":
            self.disk.mkdir(path)

    def sync(self, handle):
        """What ``os.fsync`` is replaced by."""
        self.step()
        self.fsync(handle)
        self.disk.sync(os.readlink(f"/proc/self/fd/{handle}"))

    def step(self):
        self.count += 1
        if self.count == self.number:
            self.busy = True
            if self.lose:
                self.disk.lose(random.Random(self.number))
            os.write(1, f"saved {self.saved}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)


def save_often(death):
    """Save a checkpoint after every epoch, not every 30 seconds; remember the last one."""
    from slsgd_mx.runs import trainer
    from slsgd_mx.runs.folder import RunFolder

    timed, save = trainer._Checkpointer, RunFolder.save_checkpoint

    def save_and_remember(run_folder, epoch, *arguments):
        save(run_folder, epoch, *arguments)
        death.saved = epoch

    trainer._Checkpointer = lambda run_folder, seconds: timed(run_folder, 0)
    RunFolder.save_checkpoint = save_and_remember


def main(folder, number, lose, *words):
    death = Death(folder, int(number), bool(int(lose)))
    sys.argv = ["slsgd-mx", *map(str, words)]
    from slsgd_mx.cli import main
    from slsgd_mx.figures import build

    build.draw_runs = lambda *arguments: None  # it takes longer than the training
    if os.environ.get("CHAOS_CHECKPOINTS"):
        save_often(death)
    try:
        main(prog_name="slsgd-mx")
    finally:
        if not int(number):
            print(f"calls {death.count}")


def forked(log, limit, *arguments):
    """The same in a process that was forked after its imports, which take most of the time."""
    os.setsid()
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    main(*arguments)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:  # while Python still imports the command, which would handle it
        sys.exit(130)
