"""Import MXNet in a third of the time: operator functions are generated when they are first called.

``import mxnet`` writes and compiles the Python source of 2,500 operator functions (``mx.nd``,
``mx.sym``, ``mx.np``, ...), of which a run calls a few dozen.  Within :func:`lazy_operators`, MXNet
registers stand-ins instead.  On its first call, a stand-in receives the code of the real function.
It stays the same object, so every name that refers to it has changed too.  Until that call, only
its docstring and its signature differ from the real function's.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager
from functools import partial, wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from types import FunctionType, ModuleType
from typing import Callable, Iterator

__all__ = ["lazy_operators"]

REGISTER = ("_init_op_module", "_init_np_op_module")  # functions of mxnet.base
MAKE = "make_op_func"  # their argument: a function that generates one operator


def _first_call(*args, _generate=None, **kwargs):
    """The code of every stand-in: replace this code with the operator's, then run that."""
    return _generate()(*args, **kwargs)


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


def make_lazy(base: ModuleType) -> None:
    """Make ``mxnet.base`` register stand-ins; leave functions that are not as expected alone."""
    for name in REGISTER:
        register = getattr(base, name, None)
        if isinstance(register, FunctionType) and MAKE in inspect.signature(register).parameters:
            setattr(base, name, _register_lazily(register))


def _register_lazily(register: FunctionType) -> FunctionType:
    signature = inspect.signature(register)

    @wraps(register)
    def register_stand_ins(*args, **kwargs):
        call = signature.bind(*args, **kwargs)
        if isinstance(call.arguments[MAKE], FunctionType):
            call.arguments[MAKE] = partial(stand_in, call.arguments[MAKE])
        return register(*call.args, **call.kwargs)

    return register_stand_ins


class _BaseFinder(MetaPathFinder):
    """Finds ``mxnet.base`` as usual; its loader calls :func:`make_lazy` when it has run."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "mxnet.base":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None:
            run = spec.loader.exec_module

            def run_and_patch(module: ModuleType) -> None:
                run(module)
                make_lazy(module)

            spec.loader.exec_module = run_and_patch
        return spec


@contextmanager
def lazy_operators() -> Iterator[None]:
    """Import MXNet with stand-ins for its operators, if it is imported in this context."""
    finder = _BaseFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
