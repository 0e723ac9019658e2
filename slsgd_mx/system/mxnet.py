"""Import MXNet 1.9.1 on today's NumPy and Python: the only file that knows how.

The rest of the package writes ``from slsgd_mx.system.mxnet import mx``. Three things are in the
way of a plain ``import mxnet``:

- It reads ``np.bool``, which NumPy deprecated in 1.20 and removed in 1.24. No other removed name
  is used by MXNet 1.9.1 or GluonNLP 0.10.0 (one call of ``np.int`` sits in ``mxnet.test_utils``).
- If ``DMLC_ROLE`` is ``server`` or ``scheduler``, the import never returns: it becomes a
  parameter server that unpickles whatever the network sends. So the variable is hidden meanwhile.
- It warns about two dozen deprecations that a user can do nothing about.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType

from slsgd_mx.system.threads import VARIABLE, thread_count

__all__ = ["import_gluonnlp", "mx"]

NOISE = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, SyntaxWarning)


def obstacle(python: tuple[int, ...], numpy: str) -> str | None:
    """Say in one sentence why MXNet cannot run on these versions, or return None if it can.

    Examples
    --------
    >>> obstacle((3, 11, 7), "1.23.5") is None
    True
    >>> obstacle((3, 12, 1), "2.1.0")
    'MXNet 1.9.1 cannot use NumPy 2.1.0: install "numpy==1.26.*".'
    """
    if not (3, 8) <= tuple(python[:2]) < (3, 13):
        found = ".".join(map(str, python[:3]))
        return f"MXNet 1.9.1 cannot run on Python {found}: install Python 3.8 to 3.12."
    if int(numpy.split(".")[0]) >= 2:
        wanted = "numpy==1.26.*" if python[:2] == (3, 12) else "numpy>=1.23,<1.24"
        return f'MXNet 1.9.1 cannot use NumPy {numpy}: install "{wanted}".'
    return None


@contextlib.contextmanager
def _hidden_variable(name: str) -> Iterator[None]:
    """Take an environment variable away for the length of a with block."""
    value = os.environ.pop(name, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[name] = value


def _import(module: str, requirement: str) -> ModuleType:
    """Import a module that is built on MXNet, quietly and never as a parameter server.

    Raises
    ------
    ImportError
        In one sentence that names what to install.
    """
    with _hidden_variable("DMLC_ROLE"), warnings.catch_warnings():
        for category in NOISE:
            warnings.simplefilter("ignore", category)
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            missing = error.name or module
            install = {module: requirement, "distutils": "setuptools"}.get(missing, missing)
            raise ImportError(f'{missing} is not installed: pip install "{install}".') from error
        except OSError as error:
            raise ImportError(
                f"{module} is installed but its compiled library does not load: {error}."
            ) from error


def _import_mxnet() -> ModuleType:
    """Check the versions, put ``np.bool`` back, and import MXNet."""
    try:
        import numpy as np
    except ModuleNotFoundError as error:
        raise ImportError('numpy is not installed: pip install "numpy<2".') from error
    reason = obstacle(sys.version_info[:3], np.__version__)
    if reason:
        raise ImportError(reason)
    # vars(), because hasattr() would set off the deprecation warning. MXNet also reads the name
    # long after its import, so it stays.
    if "bool" not in vars(np):
        np.bool = bool
    os.environ.setdefault(VARIABLE, str(thread_count()))  # by itself it takes half the cores
    # OpenMP threads that wait for each other spin, in vain where other work has taken a core. One
    # trial with both cores taken: 223 images/s with this bound, 141 without; on idle cores no
    # difference beyond the noise was seen.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    return _import("mxnet", "mxnet==1.9.1")


def import_gluonnlp() -> ModuleType:
    """Import GluonNLP, which takes a second and which only the language model needs."""
    return _import("gluonnlp", "gluonnlp==0.10.0")


mx = _import_mxnet()
