"""Plug-ins: files or packages of a user that register attacks, rules, partitions or workloads.

A plug-in is loaded in this process and, through an environment variable, in every process that
this one starts.  A digest of its source is part of the identity of every run that uses something
from it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from pathlib import Path
from types import CodeType, FunctionType
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional

from slsgd_mx.errors import ConfigError

VARIABLE = "SLSGD_MX_PLUGINS"  # the plug-ins of this process and its children, one per line
PACKAGE = Path(__file__).resolve().parent
PLAIN = (int, float, complex, str, bytes, frozenset, type, type(None), type(...))  # have one repr


class Source(NamedTuple):
    """Where something registered comes from: the name of a file or package, and its digest."""

    name: str
    sha256: str


_loaded: Dict[str, Source] = {}  # by what the user gave, made absolute
_loading: List[Source] = []  # the plug-in that is being executed, if any
_registered: List[Callable[[], object]] = []  # removes what that plug-in has registered so far


def load_plugin(plugin: str) -> Source:
    """Load ``FILE.py`` or ``package.module``, once; child processes load it too.

    What it registers can then be used by name.  Its digest is part of the identity of every run
    that uses something from it.

    Parameters
    ----------
    plugin : str
        A file on its own, or a module of a package that Python finds, also in the current folder.

    Returns
    -------
    Source
        The name of the file or package, and the SHA-256 of its source.

    Raises
    ------
    ConfigError
        Says in one sentence what is wrong with the plug-in; then nothing of it stays registered.

    Examples
    --------
    >>> from slsgd_mx import load_plugin
    >>> load_plugin("no_such_file.py")
    Traceback (most recent call last):
        ...
    slsgd_mx.errors.ConfigError: plug-in ...no_such_file.py does not exist: give FILE.py or ...
    """
    where = _absolute(plugin)
    if where not in _loaded:
        files = _files(where)
        source = Source(Path(where).name if where.endswith(".py") else where, digest_of(files))
        before = len(_registered)
        _loading.append(source)
        try:
            _execute(where)
        except (Exception, SystemExit) as error:
            for remove in _registered[before:]:
                remove()
            if isinstance(error, ConfigError):
                raise ConfigError(f"plug-in {plugin}: {error}") from error
            why = f"{type(error).__name__}: {error}".rstrip(": ")
            lines = _lines_in(files, error)
            at = f" (line {lines[-1].lineno})" if lines else ""
            raise ConfigError(f"plug-in {plugin} cannot be loaded: {why}{at}") from error
        finally:
            _loading.pop()
            del _registered[before:]
        _loaded[where] = source
        os.environ[VARIABLE] = "\n".join(_loaded)
    return _loaded[where]


def explain_failure(error: BaseException) -> str:
    """What a plug-in's own code did when it raised this error; empty if none was being executed."""
    for plugin, source in _loaded.items():
        lines = _lines_in(_files(plugin), error)
        if lines:
            trace = "".join(traceback.format_list(lines)).rstrip()
            return f"{type(error).__name__} in plug-in {source.name}: {error}\n{trace}"
    return ""


def _lines_in(files: Iterable[Path], error: BaseException) -> List[traceback.FrameSummary]:
    """The lines of these files on the way to where the error was raised, innermost last."""
    names = {str(path) for path in files}
    return [line for line in traceback.extract_tb(error.__traceback__) if line.filename in names]


def load_inherited() -> None:
    """Load the plug-ins of the process that started this one."""
    for plugin in os.environ.get(VARIABLE, "").splitlines():
        load_plugin(plugin)


def remember_registration(remove: Callable[[], object]) -> None:
    """Call ``remove`` if the plug-in that is being loaded, if any, turns out to be broken."""
    if _loading:
        _registered.append(remove)


def source_of(thing: Callable) -> Optional[Source]:
    """The source of a function or class that is being registered; None for the package's own.

    Outside a plug-in it is the file that defines it or, if there is none, its code.
    """
    if _loading:
        return _loading[-1]
    try:
        path = Path(inspect.getsourcefile(thing) or "").resolve()
    except (TypeError, OSError):  # such as a functools.partial, or a class in a notebook
        path = Path()
    if PACKAGE in path.parents:
        return None
    if path.is_file():
        return Source(path.name, digest_of([path]))
    return Source("interactive", hashlib.sha256(_code_of(thing).encode()).hexdigest())


def _code_of(thing: Callable) -> str:
    """The code of a function, or of the methods of a class and of its bases beside it."""
    if not isinstance(thing, type):
        return _show(
            thing if isinstance(thing, FunctionType) else getattr(thing, "__code__", thing)
        )
    bases = [_code_of(base) for base in thing.__bases__ if base.__module__ == thing.__module__]
    return _show((bases, sorted(vars(thing).items())))


def _show(value: object) -> str:
    """What ``repr`` says, but the same in every process: no addresses, and sets in one order.

    Sets of numbers need no sorting, because the hash of a number is always the same.

    >>> _show((1, None, "a")), _show(frozenset("ba")), _show(_show) == _show(_show.__code__)
    ("(1, None, 'a')", "frozenset({'a', 'b'})", True)
    """
    if isinstance(value, CodeType):
        return _show((value.co_code, value.co_consts, value.co_names))
    if isinstance(value, FunctionType):
        more = (value.__defaults__, value.__kwdefaults__, vars(value).get("__wrapped__"))
        return _show((value.__code__, *more) if any(more) else value.__code__)
    if isinstance(value, (staticmethod, classmethod)):
        return _show(value.__func__)
    if isinstance(value, property):
        return _show((value.fget, value.fset))
    if isinstance(value, functools.cached_property):
        return _show(value.func)
    if hasattr(value, "__wrapped__"):  # such as lru_cache
        return _show(value.__wrapped__)
    if not getattr(getattr(value, "dtype", None), "hasobject", True):  # an array of NumPy
        return repr((value.dtype.str, value.shape, value.tobytes()))
    if isinstance(value, dict):
        return _show(tuple(value.items()))
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_show, value))}{',' * (len(value) == 1)})"
    if isinstance(value, frozenset) and not all(isinstance(item, (int, float)) for item in value):
        return f"frozenset({{{', '.join(sorted(map(_show, value)))}}})"
    return repr(value) if isinstance(value, PLAIN) else repr(type(value))


def digest_of(files: Iterable[Path]) -> str:
    """SHA-256 of the contents of files, in the order of their names."""
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _absolute(plugin: str) -> str:
    return str(Path(plugin).resolve()) if plugin.endswith(".py") else plugin


def _files(plugin: str) -> List[Path]:
    """The source files of a plug-in: the file, or all of the package that contains the module."""
    if plugin.endswith(".py"):
        if not Path(plugin).is_file():
            raise ConfigError(f"plug-in {plugin} does not exist: give FILE.py or package.module")
        return [Path(plugin)]
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        top = importlib.util.find_spec(plugin.partition(".")[0])
    except (ImportError, ValueError):
        top = None
    if top is None:
        raise ConfigError(f"plug-in {plugin} cannot be found: give FILE.py or package.module")
    folders = top.submodule_search_locations or ()
    found = [path for folder in folders for path in Path(folder).rglob("*.py")]
    return found or [Path(top.origin)] if top.origin not in (None, "built-in", "frozen") else found


def _execute(plugin: str) -> None:
    if not plugin.endswith(".py"):
        importlib.import_module(plugin)
        return
    place = hashlib.sha256(plugin.encode()).hexdigest()[:8]  # files in two folders may be namesakes
    name = f"slsgd_mx_plugin_{Path(plugin).stem}_{place}"
    spec = importlib.util.spec_from_file_location(name, plugin)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
