"""How often the roles of a launched run were lost: whether and when to restart them."""

from __future__ import annotations

from pathlib import Path

from slsgd_mx.errors import LostError
from slsgd_mx.system.files import warn

RARE = 20.0  # seconds after which a malformed message does not count as a failed restart
MOST_RARE = 100  # such messages in a row without a further epoch
LONGEST = 30.0  # seconds between two attempts


class MalformedError(LostError):
    """MXNet aborted, because a message on a port made no sense to it."""


class Losses:
    """Counts losses, all and in a row, and reports them.

    Only losses in a row without a further epoch count towards ``restarts``.  Malformed messages
    come from outside: as long as they are rare, they do not count, so that a port scanner cannot
    end a run whose epochs take longer than the time between two scans.  There may be `MOST_RARE`
    of them in a row, because an error that repeats in every attempt looks the same.
    """

    def __init__(self, restarts: int, folder: Path) -> None:
        self.restarts, self.folder = restarts, folder
        self.total = self.malformed = 0
        self._furthest = -1  # epoch
        self._in_a_row = self._counted = 0  # losses since then

    def add(self, lost: LostError, epoch: int, seconds: float) -> float:
        """Count the loss of an attempt after ``seconds``; return the pause before the next one.

        Raises a LostError if there should be none.

        >>> losses = Losses(3, Path("run"))
        >>> [losses.add(LostError("a server was lost"), 5, 1.0) for _ in range(3)]
        [0.0, 1.0, 2.0]
        """
        malformed = isinstance(lost, MalformedError)
        self.total, self.malformed = self.total + 1, self.malformed + malformed
        if epoch > self._furthest:
            self._furthest, self._in_a_row, self._counted = epoch, 0, 0
        self._in_a_row += 1
        self._counted += not (malformed and seconds >= RARE)
        if self._counted > self.restarts or self._in_a_row - self._counted > MOST_RARE:
            raise LostError(
                f"{lost}. That was after {self._in_a_row - 1} restart(s) without getting further "
                f"than epoch {max(0, self._furthest)}; the logs are in {self.folder / 'logs'}. "
                "The last checkpoint is kept, and the same command resumes from it"
            )
        pause = 0.0 if self._in_a_row == 1 else min(LONGEST, 2.0 ** min(self._in_a_row - 2, 9))
        when = f" in {pause:g} seconds" if pause else ""
        count = f" (restart {self.total})" if self.total > 1 else ""
        warn(f"{lost}: restarting all processes from the last checkpoint{when}{count}")
        return pause

    def report(self) -> None:
        """Say how often the processes of a finished run were restarted, if at all."""
        if self.total:
            why = f", {self.malformed} of them after malformed messages" if self.malformed else ""
            warn(f"all processes were restarted {self.total} time(s){why}")
