"""Read CIFAR-10's pickled batches without unpickling.

`pickle.load` runs whatever a file names. This reader walks the opcodes instead and builds
dictionaries, lists, tuples, numbers, strings and uint8 arrays itself: it imports nothing and calls
nothing that a file asks for. Names in the file are compared with the few that a NumPy array needs;
any other name, and any other opcode, is refused.
"""

from __future__ import annotations

import pickletools
from typing import Any, Callable, Dict, List

import numpy as np


class UnsafePickle(ValueError):
    """The file is no plain pickle of dictionaries, lists and uint8 arrays."""


class _Name:
    """Stands for a global that the file names; it is never looked up."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


class _DType:
    """Stands for ``numpy.dtype('u1')``, the only one allowed."""


class _Array:
    """Stands for an array until its state arrives."""

    value = None


# NumPy 2 moved the module; files written by either are alike otherwise
_NAMES = {
    "numpy.core.multiarray _reconstruct": _Name("reconstruct"),
    "numpy._core.multiarray _reconstruct": _Name("reconstruct"),
    "numpy ndarray": _Name("ndarray"),
    "numpy dtype": _Name("dtype"),
    "_codecs encode": _Name("encode"),
}

_MARK = object()


def read_pickle(raw: bytes) -> Any:
    """Value of a pickle (protocols 2 to 4) of dicts, lists, numbers, strings and uint8 arrays.

    Strings written by Python 2 come back as bytes, as ``encoding="bytes"`` would have them.

    Raises
    ------
    UnsafePickle
        If the data is truncated, malformed, or needs anything else.

    Examples
    --------
    >>> import pickle
    >>> read_pickle(pickle.dumps({b"labels": [1, 2]}, protocol=2))
    {b'labels': [1, 2]}
    """
    machine = _Machine()
    try:
        for opcode, arg, position in pickletools.genops(raw):
            if opcode.name == "STOP":
                return _finished(machine.stack.pop())
            machine.step(opcode.name, arg, position)
    except UnsafePickle:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, EOFError) as error:
        raise UnsafePickle(f"malformed or truncated: {error}") from error
    raise UnsafePickle("malformed or truncated: it has no end")


class _Machine:
    """The pickle stack machine, cut down to data."""

    def __init__(self) -> None:
        self.stack: List[Any] = []
        self.memo: Dict[int, Any] = {}

    def step(self, name: str, arg: Any, position: int) -> None:
        if name in _PUSH:
            self.stack.append(_PUSH[name](arg))
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[arg] = self.stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[arg])
        elif name in _ACTIONS:
            _ACTIONS[name](self.stack)
        elif name not in ("PROTO", "FRAME"):
            raise UnsafePickle(f"opcode {name} at byte {position} is not allowed here")


def _name(path: str) -> _Name:
    if path not in _NAMES:
        raise UnsafePickle(f"it names {path.replace(' ', '.')!r}, which is not allowed here")
    return _NAMES[path]


def _pop_to_mark(stack: List[Any]) -> List[Any]:
    items: List[Any] = []
    while True:
        item = stack.pop()
        if item is _MARK:
            return items[::-1]
        items.append(item)


def _pop_tuple(size: int) -> Callable[[List[Any]], None]:
    def action(stack: List[Any]) -> None:
        items = [stack.pop() for _ in range(size)]
        stack.append(tuple(items[::-1]))

    return action


def _stack_global(stack: List[Any]) -> None:
    attribute, module = _expect(stack.pop(), str), _expect(stack.pop(), str)
    stack.append(_name(f"{module} {attribute}"))


def _set_items(stack: List[Any]) -> None:
    items = _pop_to_mark(stack)
    for key, value in zip(items[::2], items[1::2]):
        _store(stack[-1], key, value)


def _set_item(stack: List[Any]) -> None:
    value, key = stack.pop(), stack.pop()
    _store(stack[-1], key, value)


def _store(target: Any, key: Any, value: Any) -> None:
    # text keys only: hashing a tuple of tuples of shared tuples takes exponential time
    _expect(target, dict)[_expect(key, (str, bytes))] = _finished(value)


def _appends(stack: List[Any]) -> None:
    items = _pop_to_mark(stack)
    _expect(stack[-1], list).extend(items)


def _append(stack: List[Any]) -> None:
    item = stack.pop()
    _expect(stack[-1], list).append(item)


def _reduce(stack: List[Any]) -> None:
    """Replace (name, arguments) by the stand-in or the bytes they describe: nothing is called."""
    arguments, name = stack.pop(), _expect(stack.pop(), _Name)
    if name.kind == "encode" and arguments[1] in ("latin1", "latin-1"):
        # how Python 3 writes bytes in protocol 2
        stack.append(_expect(arguments[0], str).encode("latin-1"))
    elif name.kind == "dtype" and arguments[0] in ("u1", b"u1"):
        stack.append(_DType())
    elif name.kind == "reconstruct":
        stack.append(_Array())
    else:
        raise UnsafePickle(f"these arguments of {name.kind} are not allowed here")


def _build(stack: List[Any]) -> None:
    state = stack.pop()
    target = stack[-1]
    if isinstance(target, _DType):
        return  # byte order and flags: one byte has none that matter
    _, shape, dtype, fortran, raw = state
    _expect(dtype, _DType)
    if fortran or not all(type(size) is int for size in _expect(shape, tuple)):
        raise UnsafePickle("its array is not in C order or has no plain shape")
    _expect(target, _Array).value = np.frombuffer(_expect(raw, bytes), np.uint8).reshape(shape)


def _expect(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise UnsafePickle(f"malformed: a {type(value).__name__} is out of place")
    return value


def _finished(value: Any) -> Any:
    return value.value if isinstance(value, _Array) else value


def _same(arg: Any) -> Any:
    return arg


_PUSH: Dict[str, Callable[[Any], Any]] = {
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_DICT": lambda _: {},
    "EMPTY_LIST": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    "MARK": lambda _: _MARK,
    "GLOBAL": _name,
    # Python 2's strings; pickletools hands them over as latin-1 text
    "BINSTRING": lambda arg: arg.encode("latin-1"),
    "SHORT_BINSTRING": lambda arg: arg.encode("latin-1"),
    "BINUNICODE": _same,
    "SHORT_BINUNICODE": _same,
    "BINBYTES": _same,
    "SHORT_BINBYTES": _same,
    "BININT": _same,
    "BININT1": _same,
    "BININT2": _same,
    "LONG1": _same,
}

_ACTIONS: Dict[str, Callable[[List[Any]], None]] = {
    "TUPLE": lambda stack: stack.append(tuple(_pop_to_mark(stack))),
    "TUPLE1": _pop_tuple(1),
    "TUPLE2": _pop_tuple(2),
    "TUPLE3": _pop_tuple(3),
    "STACK_GLOBAL": _stack_global,
    "SETITEMS": _set_items,
    "SETITEM": _set_item,
    "APPENDS": _appends,
    "APPEND": _append,
    "REDUCE": _reduce,
    "BUILD": _build,
}
