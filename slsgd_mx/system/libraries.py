"""The package's C libraries: ``pip install`` builds them where there is a C compiler.

Without them, or if ``SLSGD_MX_KERNEL=numpy``, NumPy and Python do the same work, more slowly.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NamedTuple, Optional

from slsgd_mx.errors import ConfigError

VARIABLE = "SLSGD_MX_KERNEL"  # "compiled", the default, or "numpy"


class Library(NamedTuple):
    """A loaded library; or, without it, the reason."""

    functions: Optional[ctypes.CDLL]
    missing: str


def find_library(folder: Path, name: str, version: int) -> Library:
    """The library ``_name`` in a folder, unless the variable turns it off.

    Raises a ConfigError if the variable has an illegal value.
    """
    wanted = os.environ.get(VARIABLE, "compiled")
    if wanted not in ("compiled", "numpy"):
        raise ConfigError(f"{VARIABLE}={wanted!r} is not legal: it is 'compiled' or 'numpy'")
    if wanted == "numpy":
        return Library(None, f"not used, because {VARIABLE}=numpy")
    return load_library(folder, name, version)


@lru_cache(maxsize=None)
def load_library(folder: Path, name: str, version: int) -> Library:
    """The library ``_name`` in a folder, if its function ``name_version`` returns this version."""
    files = [folder / f"_{name}{suffix}" for suffix in EXTENSION_SUFFIXES]
    file = next(filter(Path.exists, files), None)
    if file is None:
        return Library(None, "not built: it needs a C compiler when slsgd-mx is installed")
    try:
        functions = ctypes.CDLL(str(file))
        built = functions[f"{name}_version"]()
    except (OSError, AttributeError) as error:
        return Library(None, f"cannot be loaded ({error})")
    if built != version:
        return Library(None, "built from another version of slsgd-mx: install it again")
    return Library(functions, "")


def address(array) -> int:
    """The address of a NumPy array's first element."""
    return array.__array_interface__["data"][0]
