"""Errors a user can act on: each message names the value and the legal range or the way on."""


class SlsgdError(Exception):
    """Base of every error this package raises on purpose; printed without a traceback."""

    exit_code = 1


class ConfigError(SlsgdError, ValueError):
    """A wrong call: a value out of range, or a combination that cannot hold."""

    exit_code = 2


class DataError(SlsgdError):
    """Data that is missing, truncated or not what it claims to be."""


class RunError(SlsgdError):
    """A run that cannot go on: a folder of another run, a corrupt checkpoint, a full disk."""


class DiskError(RunError):
    """A file that cannot be written."""


class InUseError(RunError):
    """A run folder that another process holds."""


class DivergedError(RunError):
    """The global model stopped being finite."""


class LostError(RunError):
    """A process of a distributed run is gone; starting all of them again goes on from there."""

    exit_code = 75  # "temporary failure", the code schedulers know
