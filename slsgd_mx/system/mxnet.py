"""Import MXNet 1.9.1 with current versions of NumPy and Python.

The rest of the package writes ``from slsgd_mx.system.mxnet import mx``, because a plain ``import
mxnet`` has three problems:

- It reads ``np.bool``, which NumPy deprecated in 1.20 and removed in 1.24.  MXNet 1.9.1 and
  GluonNLP 0.10.0 use no other removed name (except ``np.int``, once, in ``mxnet.test_utils``).
- If ``DMLC_ROLE`` is ``server`` or ``scheduler``, the import never returns: the process becomes a
  parameter server that unpickles what the network sends.  So the variable says ``worker`` during
  the import.  (Removing it would be unsafe while threads of MXNet read the environment.)
- It emits two dozen deprecation warnings that a user can do nothing about.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from types import ModuleType
from typing import Callable

from slsgd_mx.system.lazy_mxnet import import_lazily
from slsgd_mx.system.threads import VARIABLE, thread_count

NOISE = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, SyntaxWarning)


def obstacle(python: tuple[int, ...], numpy: str) -> str | None:
    """Return a sentence that says why MXNet cannot run on these versions, or None if it can.

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


def _import(module: str, requirement: str, load: Callable) -> ModuleType:
    """Import a module without its warnings, and never as a parameter server.

    Raises an ImportError if it fails; one sentence says what to install.
    """
    role = os.environ.get("DMLC_ROLE", "worker")
    if role != "worker":
        os.environ["DMLC_ROLE"] = "worker"
    with warnings.catch_warnings():
        for category in NOISE:
            warnings.simplefilter("ignore", category)
        try:
            return load(module)
        except ModuleNotFoundError as error:
            missing = error.name or module
            install = {module: requirement, "distutils": "setuptools"}.get(missing, missing)
            raise ImportError(f'{missing} is not installed: pip install "{install}".') from error
        except OSError as error:
            raise ImportError(
                f"{module} is installed but its compiled library does not load: {error}."
            ) from error
        finally:
            if role != "worker":
                os.environ["DMLC_ROLE"] = role


def _import_mxnet() -> ModuleType:
    """Check the versions, restore ``np.bool``, and import MXNet."""
    try:
        import numpy as np
    except ModuleNotFoundError as error:
        raise ImportError('numpy is not installed: pip install "numpy<2".') from error
    reason = obstacle(sys.version_info[:3], np.__version__)
    if reason:
        raise ImportError(reason)
    # vars(), because hasattr() would trigger the deprecation warning.  The name stays, because
    # MXNet also reads it after the import.
    if "bool" not in vars(np):
        np.bool = bool
    os.environ.setdefault(VARIABLE, str(thread_count()))  # MXNet's default is half the cores
    # Waiting OpenMP threads spin, which wastes time if other processes occupy a core.  Measured
    # with both cores busy: 223 images/s with this bound, 141 without; on idle cores no difference.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    return _import("mxnet", "mxnet==1.9.1", import_lazily)


def import_gluonnlp() -> ModuleType:
    """Import GluonNLP, which takes a second and is needed only by the language model."""
    return _import("gluonnlp", "gluonnlp==0.10.0", importlib.import_module)


def import_amp() -> ModuleType:
    """Import MXNet's automatic mixed precision, which only bfloat16 needs."""
    return _import("mxnet.contrib.amp", "mxnet==1.9.1", importlib.import_module)


mx = _import_mxnet()
