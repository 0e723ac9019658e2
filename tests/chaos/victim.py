"""The ``slsgd-mx`` command, which can be made to die at its Nth file-system call below a folder.

    python victim.py FOLDER NUMBER LOSE COMMAND...

With LOSE=1, the process dies as in a power loss: of every file that was written and not synced, it
first cuts off an arbitrary part of what was written since. With NUMBER=0, it does not die; it
prints how many calls it made.
"""

import os
import random
import signal
import sys

CALLS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.listdir", "os.scandir"}
WRITING = os.O_WRONLY | os.O_RDWR


class Death:
    """Counts the calls below a folder, and ends the process at one of them."""

    def __init__(self, folder, number, lose):
        self.folder, self.number, self.lose = os.path.abspath(folder), number, lose
        self.count, self.unsynced, self.fsync = 0, {}, os.fsync
        os.fsync = self.sync
        sys.addaudithook(self.hear)

    def hear(self, event, arguments):
        """Count an event of Python's audit hooks, if it concerns the folder."""
        if event not in CALLS or not isinstance(arguments[0], (str, bytes, os.PathLike)):
            return
        path = os.path.abspath(os.fsdecode(arguments[0]))
        if not path.startswith(self.folder):
            return
        self.step()
        if event == "open" and (arguments[2] or 0) & WRITING and path not in self.unsynced:
            self.unsynced[path] = os.path.getsize(path) if os.path.isfile(path) else 0
        if event == "os.rename" and path in self.unsynced:
            target = os.path.abspath(os.fsdecode(arguments[1]))
            self.unsynced[target] = self.unsynced.pop(path)

    def sync(self, handle):
        """What ``os.fsync`` is replaced by."""
        self.step()
        self.fsync(handle)
        self.unsynced.pop(os.readlink(f"/proc/self/fd/{handle}"), None)

    def step(self):
        self.count += 1
        if self.count == self.number:
            if self.lose:
                self.lose_what_was_not_synced()
            os.kill(os.getpid(), signal.SIGKILL)

    def lose_what_was_not_synced(self):
        chance = random.Random(self.number)
        for path, kept in list(self.unsynced.items()):
            if os.path.isfile(path) and not path.endswith(".lock"):
                size = os.path.getsize(path)
                os.truncate(path, chance.randint(min(kept, size), size))


def save_often():
    """Save a checkpoint after every epoch, not every 30 seconds."""
    from slsgd_mx.runs import trainer

    timed = trainer._Checkpointer
    trainer._Checkpointer = lambda run_folder, seconds: timed(run_folder, 0)


def main():
    folder, number, lose, *words = sys.argv[1:]
    death = Death(folder, int(number), lose == "1")
    sys.argv = ["slsgd-mx", *words]
    from slsgd_mx.cli import main
    from slsgd_mx.figures import build

    build.draw_runs = lambda *arguments: None  # it takes longer than the training
    if os.environ.get("CHAOS_CHECKPOINTS"):
        save_often()
    try:
        main(prog_name="slsgd-mx")
    finally:
        if not int(number):
            print(f"calls {death.count}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:  # while Python still imports the command, which would handle it
        sys.exit(130)
