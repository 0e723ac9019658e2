"""What of a folder is not yet on disk, so that a power loss may take it.

The model is POSIX's: ``fsync`` of a file keeps its content, ``fsync`` of a folder keeps the names
in it, and nothing else keeps anything. The operations in one folder happen in their order.
"""

import contextlib
import os
import shutil

WRITING = os.O_WRONLY | os.O_RDWR


class Disk:
    """Watches file-system calls; ``lose`` undoes some of what was not synced."""

    def __init__(self):
        self.sizes = {}  # file -> how much of its content is on disk
        self.names = {}  # folder -> functions that undo what was not synced in it, oldest first

    def open(self, path, flags):
        """A file will be opened."""
        if flags & WRITING and path not in self.sizes:
            self.sizes[path] = os.path.getsize(path) if os.path.isfile(path) else 0
        if flags & os.O_CREAT and not os.path.lexists(path):
            self._note(path, lambda: os.remove(path))

    def mkdir(self, path):
        """A folder will be made."""
        if not os.path.lexists(path):
            self._note(path, lambda: shutil.rmtree(path))

    def remove(self, path):
        """A file will be deleted; its content is kept until its folder is synced."""
        content = read(path)
        if content is not None:
            self._note(path, lambda: write(path, content))

    def rename(self, path, target):
        """A file will be renamed, perhaps over another one."""
        content = read(target)

        def undo():
            os.rename(target, path)
            if content is not None:
                write(target, content)

        self._note(target, undo)
        if path in self.sizes:
            self.sizes[target] = self.sizes.pop(path)

    def sync(self, path):
        """A file or a folder was synced."""
        self.sizes.pop(path, None)
        self.names.pop(path, None)

    def lose(self, chance):
        """Cut off some of the content that was not synced, then undo the last names."""
        for path, kept in list(self.sizes.items()):
            if os.path.isfile(path) and not path.endswith(".lock"):
                size = os.path.getsize(path)
                os.truncate(path, chance.randint(min(kept, size), size))
        for undo in self.names.values():
            for step in undo[::-1][: chance.randint(0, len(undo))]:
                with contextlib.suppress(FileNotFoundError):  # the folder itself is lost
                    step()

    def _note(self, path, undo):
        self.names.setdefault(os.path.dirname(path), []).append(undo)


def read(path):
    """The content of a file; None if there is no such file."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return file.read()


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)
