"""Errors a user can act on; each message names the value and the legal range, or the remedy."""


class SlsgdError(Exception):
    """Base of every error this package raises on purpose; printed without a traceback."""

    exit_code = 1


class ConfigError(SlsgdError, ValueError):
    """A wrong call: a value out of range, or values that contradict each other."""

    exit_code = 2


class DataError(SlsgdError):
    """Data that is missing, truncated or not what it claims to be."""


class RunError(SlsgdError):
    """A run that cannot continue: a folder of another run, a corrupt checkpoint, a full disk."""


class DiskError(RunError):
    """A file that cannot be written."""


class InUseError(RunError):
    """A run folder that another process has locked."""


class DivergedError(RunError):
    """The global model is no longer finite."""


class FailedError(RunError):
    """A run that came to its end without a single update: its model is still x_0."""


class LostError(RunError):
    """A process of a distributed run died; restarting all of them resumes the run."""

    exit_code = 75  # EX_TEMPFAIL: schedulers read it as "try again"
