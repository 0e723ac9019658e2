"""Read CIFAR-10's pickled batches without unpickling.

`pickle.load` calls any function that a file names.  This reader interprets the opcodes itself and
builds only dictionaries, lists, tuples, numbers, strings and uint8 arrays; it imports and calls
nothing that the file names.  It recognises the names that a NumPy array needs; every other name and
every other opcode is refused.
"""

from __future__ import annotations

import io
import pickletools
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np


class UnsafePickle(ValueError):
    """The file is malformed, or contains more than dictionaries, lists and uint8 arrays."""


@dataclass(frozen=True)
class _Name:
    """Placeholder for a global that the file names; it is never imported."""

    kind: str


class _DType:
    """Placeholder for ``numpy.dtype('u1')``, the only one allowed."""


class _Array:
    """Placeholder for an array until its state is read."""

    value = None


# NumPy 2 moved the module; the files are the same otherwise.
_NAMES = {
    "numpy.core.multiarray _reconstruct": _Name("reconstruct"),
    "numpy._core.multiarray _reconstruct": _Name("reconstruct"),
    "numpy ndarray": _Name("ndarray"),
    "numpy dtype": _Name("dtype"),
    "_codecs encode": _Name("encode"),
}

_MARK = object()

MOST_OPERATIONS = 400_000  # a batch of 10,000 images has about 100,000
MOST_WIDE = 255  # bytes of a string that is not latin-1, which takes up to four times the memory
_WIDE = re.compile(rb"[\xc4-\xff]")  # the first byte of any other character in UTF-8
_OTHERS = {
    "BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET", "PROTO", "FRAME", "STOP",
}  # fmt: skip


def read_pickle(raw: bytes) -> Any:
    """Return the value of a pickle (protocols 2 to 4) of dicts, lists, numbers, strings and arrays.

    Strings written by Python 2 become bytes, as with ``pickle.load(..., encoding="bytes")``.

    Anything else, and malformed or truncated data, raises an UnsafePickle.

    >>> import pickle
    >>> read_pickle(pickle.dumps({b"labels": [1, 2]}, protocol=2))
    {b'labels': [1, 2]}
    """
    machine = _Machine(len(raw))
    try:
        for name, arg in _operations(raw):
            if name == "STOP":
                return _finished(machine.stack.pop())
            machine.step(name, arg)
    except UnsafePickle:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, EOFError) as error:
        raise UnsafePickle(f"malformed or truncated: {error}") from error
    raise UnsafePickle(f"it has more than {MOST_OPERATIONS:,} operations")


def _operations(raw: bytes) -> Iterator[Tuple[str, Any]]:
    """Yield the name and the argument of each opcode; read no argument of one that is refused."""
    file = io.BytesIO(raw)
    for _ in range(MOST_OPERATIONS):
        position = file.tell()
        opcode = pickletools.code2op.get(file.read(1).decode("latin-1"))
        if opcode is None:
            raise ValueError(f"no opcode at byte {position}")
        if not any(opcode.name in known for known in (_LITERALS, _PUSH, _ACTIONS, _OTHERS)):
            raise UnsafePickle(f"opcode {opcode.name} at byte {position} is not allowed here")
        if opcode.name == "BINUNICODE":
            start = position + 5  # after the opcode and the length
            length = int.from_bytes(raw[position + 1 : start], "little")
            if length > MOST_WIDE and _WIDE.search(raw, start, start + length):
                raise UnsafePickle(f"the long string at byte {position} is not latin-1")
        yield opcode.name, opcode.arg.reader(file) if opcode.arg else None


class _Machine:
    """The pickle stack machine, restricted to data."""

    def __init__(self, size: int) -> None:
        self.left = size  # bytes that strings may still be encoded to: each is used once
        self.stack: List[Any] = []
        self.memo: Dict[int, Any] = {}

    def step(self, name: str, arg: Any) -> None:
        if name in _LITERALS:
            self.stack.append(arg)
        elif name in _PUSH:
            self.stack.append(_PUSH[name](arg))
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memo[len(self.memo) if name == "MEMOIZE" else arg] = self.stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[arg])
        elif name in _ACTIONS:
            _ACTIONS[name](self.stack)
            if name == "REDUCE" and isinstance(self.stack[-1], bytes):
                self.left -= len(self.stack[-1])
                if self.left < 0:
                    raise UnsafePickle("it encodes a string several times")


def _name(path: str) -> _Name:
    if path not in _NAMES:
        raise UnsafePickle(f"it names {path.replace(' ', '.')!r}, which is not allowed here")
    return _NAMES[path]


def _expect(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise UnsafePickle(f"malformed: a {type(value).__name__} is out of place")
    return value


def _finished(value: Any) -> Any:
    return value.value if isinstance(value, _Array) else value


def _pop(stack: List[Any], count: int) -> List[Any]:
    return [stack.pop() for _ in range(count)][::-1]


def _pop_to_mark(stack: List[Any]) -> List[Any]:
    items: List[Any] = []
    while True:
        item = stack.pop()
        if item is _MARK:
            return items[::-1]
        items.append(item)


def _store(stack: List[Any], items: List[Any]) -> None:
    """Store keys and values, alternating in `items`, in the dictionary on top of the stack."""
    for key, value in zip(items[::2], items[1::2]):
        # Only text keys: hashing nested tuples that share their elements takes exponential time.
        _expect(stack[-1], dict)[_expect(key, (str, bytes))] = _finished(value)


def _extend(stack: List[Any], items: List[Any]) -> None:
    _expect(stack[-1], list).extend(items)


def _stack_global(stack: List[Any]) -> None:
    module, attribute = (_expect(part, str) for part in _pop(stack, 2))
    stack.append(_name(f"{module} {attribute}"))


def _reduce(stack: List[Any]) -> None:
    """Replace (name, arguments) by a placeholder or bytes; nothing is called."""
    arguments, name = stack.pop(), _expect(stack.pop(), _Name)
    if name.kind == "encode" and arguments[1] in ("latin1", "latin-1"):
        # Python 3 writes bytes this way in protocol 2.
        stack.append(_expect(arguments[0], str).encode("latin-1"))
    elif name.kind == "dtype" and arguments[0] in ("u1", b"u1"):
        stack.append(_DType())
    elif name.kind == "reconstruct":
        stack.append(_Array())
    else:
        raise UnsafePickle(f"these arguments of {name.kind} are not allowed here")


def _build(stack: List[Any]) -> None:
    """Give the array on top of the stack its state."""
    state = stack.pop()
    target = stack[-1]
    if isinstance(target, _DType):
        return  # byte order and flags do not matter for one byte
    _, shape, dtype, fortran, raw = state
    _expect(dtype, _DType)
    if fortran or not all(type(size) is int for size in _expect(shape, tuple)):
        raise UnsafePickle("its array is not in C order or has no plain shape")
    _expect(target, _Array).value = np.frombuffer(_expect(raw, bytes), np.uint8).reshape(shape)


_LITERALS = {
    "BINUNICODE", "SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES",
    "BININT", "BININT1", "BININT2", "LONG1",
}  # fmt: skip

_PUSH: Dict[str, Callable[[Any], Any]] = {
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_DICT": lambda _: {},
    "EMPTY_LIST": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    "MARK": lambda _: _MARK,
    "GLOBAL": _name,
    # Python 2's strings, which pickletools returns as latin-1 text
    "BINSTRING": lambda arg: arg.encode("latin-1"),
    "SHORT_BINSTRING": lambda arg: arg.encode("latin-1"),
}

_ACTIONS: Dict[str, Callable[[List[Any]], None]] = {
    "TUPLE": lambda stack: stack.append(tuple(_pop_to_mark(stack))),
    "TUPLE1": lambda stack: stack.append(tuple(_pop(stack, 1))),
    "TUPLE2": lambda stack: stack.append(tuple(_pop(stack, 2))),
    "TUPLE3": lambda stack: stack.append(tuple(_pop(stack, 3))),
    "STACK_GLOBAL": _stack_global,
    "SETITEMS": lambda stack: _store(stack, _pop_to_mark(stack)),
    "SETITEM": lambda stack: _store(stack, _pop(stack, 2)),
    "APPENDS": lambda stack: _extend(stack, _pop_to_mark(stack)),
    "APPEND": lambda stack: _extend(stack, _pop(stack, 1)),
    "REDUCE": _reduce,
    "BUILD": _build,
}
