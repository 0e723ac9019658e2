"""A stranger who speaks ps-lite: messages to a node's port without MXNet, and who listens where.

ps-lite sends protocol buffers over ZeroMQ.  The functions here write as much of both as is needed
to push arrays and to send commands.
"""

import contextlib
import os
import socket
import struct
from pathlib import Path

import numpy as np

GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
TYPES = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int64": 6}  # MXNet's
STORAGES = {"default": 0, "row_sparse": 1, "compressed": 2}
SECONDS = 10


def listeners(pid):
    """The addresses and ports on which a process listens (TCP over IPv4), from /proc."""
    sockets = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    found = []
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
            address, port = (int(part, 16) for part in fields[1].split(":"))
            found.append((socket.inet_ntoa(struct.pack("=I", address)), port))
    return found


def command(body, head=0):
    """A command to a server; MXNet passes on those with head 0."""
    return [_meta(head, body, simple_app=True)]


def push(key, array, storage="default"):
    """A push of an array to a key of the only server."""
    requested, kind = STORAGES[storage], TYPES[array.dtype.name]
    both = requested + kind
    values = array.tobytes()
    keys, sizes = np.array([key], "<u8").tobytes(), np.array([len(values)], "<i4").tobytes()
    return [_meta(both * (both + 1) // 2 + kind, push=True), keys, values, sizes]


def send(port, *messages, sender):
    """Send messages, each a list of parts, to a node on this machine in the name of another."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as wire:
        wire.sendall(GREETING)
        _receive(wire, len(GREETING))
        name = b"ps%03d" % sender  # a leading zero: the node's own name is taken
        ready = b"\x05READY" + _property(b"Socket-Type", b"DEALER") + _property(b"Identity", name)
        wire.sendall(_frame(ready, command=True))
        _receive(wire, _receive(wire, 2)[1])
        for parts in messages:
            for number, part in enumerate(parts, start=1):
                wire.sendall(_frame(part, more=number < len(parts)))
        with contextlib.suppress(ConnectionError):  # it may abort
            wire.shutdown(socket.SHUT_WR)
            while wire.recv(1 << 12):  # until the node has read everything
                pass


def _meta(head, body="", push=False, simple_app=False):
    """The first part of a request to customer 0 of application 0, at time 0."""
    text = body.encode("latin-1") if isinstance(body, str) else body
    fields = [_number(1, head), b"\x12" + _varint(len(text)) + text, _number(4, 1)]
    fields += [_number(5, push), _number(6, simple_app), _number(7, 0), _number(8, 0)]
    if push:
        fields.append(b"\x4a\x03\x08\x00\x03")  # types of the parts: keys, values, sizes
    return b"".join([*fields, _number(10, 0)])


def _number(field, value):
    return _varint(field << 3) + _varint(int(value))


def _varint(value):
    parts = [value & 127]
    while value > 127:
        value >>= 7
        parts.append(value & 127)
    return bytes([*(part | 128 for part in parts[:-1]), parts[-1]])


def _frame(body, more=False, command=False):
    flags = (1 if more else 0) | (4 if command else 0)
    if len(body) > 255:
        return bytes([flags | 2]) + len(body).to_bytes(8, "big") + body
    return bytes([flags, len(body)]) + body


def _property(name, value):
    return bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value


def _receive(wire, size):
    data = b""
    while len(data) < size:
        piece = wire.recv(size - len(data))
        if not piece:
            raise ConnectionError("the node closed the connection")
        data += piece
    return data
