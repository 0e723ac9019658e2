"""Import MXNet in a third of the time, by doing later what most processes never need.

``import mxnet`` writes and compiles the Python source of 2,500 operator functions (``mx.nd``,
``mx.sym``, ``mx.np``, ...), of which a run calls a few dozen.  Here MXNet registers stand-ins.  On
its first call, a stand-in receives the code of the real function.  It stays the same object, so
every name that refers to it has changed too.  Until that call, only its docstring and its signature
differ from the real function's.
"""

from __future__ import annotations

import inspect
import sys
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import FunctionType, ModuleType
from typing import Callable

REGISTER = ("_init_op_module", "_init_np_op_module")  # functions of mxnet.base
MAKE = "make_op_func"  # their argument: a function that generates one operator


def import_lazily(name: str) -> ModuleType:
    """Import MXNet; ``requests``, with which it downloads, is imported by its first use."""
    spec = None if name in sys.modules else find_spec(name)
    if spec is None or spec.loader is None:
        return import_module(name)
    sys.modules[name] = package = module_from_spec(spec)
    later = sys.modules.setdefault("requests", _Later("requests"))
    try:
        if find_spec(f"{name}.base"):  # executed before the modules that generate operators
            make_lazy(import_module(f"{name}.base"))
        spec.loader.exec_module(package)
        restore_docstrings(name)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        if isinstance(later, _Later):
            del sys.modules["requests"]
    return package


def restore_docstrings(name: str) -> None:
    """Give classes an empty docstring if ``python -OO`` (``PYTHONOPTIMIZE=2``) removed theirs.

    MXNet joins the docstrings of these classes when it generates operators like ``elemwise_add``.
    """
    for module, base in (("ndarray_doc", "NDArrayDoc"), ("symbol_doc", "SymbolDoc")):
        loaded = sys.modules.get(f"{name}.{module}")
        for extra in getattr(loaded, base, type).__subclasses__() if loaded else ():
            extra.__doc__ = extra.__doc__ or ""


class _Later(ModuleType):
    """Stands for a module and imports it when an attribute is read."""

    def __getattr__(self, name: str):
        return getattr(import_module(self.__name__), name)


def make_lazy(base: ModuleType) -> None:
    """Make ``mxnet.base`` register stand-ins; leave functions that are not as expected alone."""
    for name in REGISTER:
        function = getattr(base, name, None)
        if callable(function) and MAKE in inspect.signature(function).parameters:
            setattr(base, name, partial(_register, function))


def _register(function: Callable, *args, **kwargs):
    call = inspect.signature(function).bind(*args, **kwargs)
    if isinstance(call.arguments[MAKE], FunctionType):
        call.arguments[MAKE] = partial(stand_in, call.arguments[MAKE])
    return function(*call.args, **call.kwargs)


def stand_in(make: Callable[..., FunctionType], handle, name: str, func_name: str) -> FunctionType:
    """Return a function that, when called, becomes ``make(handle, name, func_name)``."""
    function = FunctionType(_first_call.__code__, make.__globals__, func_name)
    function.__qualname__ = func_name
    function.__doc__ = doc = f"The first call of MXNet's operator {name} adds its documentation."

    def generate() -> FunctionType:
        real = make(handle, name, func_name)
        function.__defaults__ = real.__defaults__  # first, for calls from other threads
        function.__code__ = real.__code__
        if function.__doc__ == doc:  # MXNet overwrites some docstrings
            function.__doc__ = real.__doc__
        return function

    function.__kwdefaults__ = {"_generate": generate}
    return function


def _first_call(*args, _generate=None, **kwargs):
    """The code of every stand-in: replace this code with the operator's, then run that."""
    return _generate()(*args, **kwargs)
