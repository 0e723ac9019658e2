"""The secret that all roles of a run share: every command and every push proves that it is known.

``launch`` makes one; for ``dist`` it is in the environment of servers and workers.  It is never
sent.  A command carries a digest of its whole text.  A push carries a digest of its key, epoch,
slot and rank, in 16-bit pieces that float32 represents exactly.  docs/threat-model.md says what
this protects against, and what it does not.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Mapping, Union

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.parameter_server.protocol import HEADER, Header, ProtocolError, read_header

VARIABLE = "SLSGD_MX_SECRET"
SHORTEST = 16  # characters
DIGITS = 64  # of the digest ahead of a command


class Secret:
    """Signs and checks commands and pushes; its text is never shown."""

    def __init__(self, text: str) -> None:
        if len(text) < SHORTEST:
            raise ConfigError(
                f"{VARIABLE} has {len(text)} characters: needs at least {SHORTEST}, for example "
                "from openssl rand -hex 32"
            )
        self._key = text.encode(errors="surrogateescape")

    @classmethod
    def from_environment(cls, variables: Mapping[str, str]) -> Secret:
        """
        >>> Secret.from_environment({})
        Traceback (most recent call last):
            ...
        slsgd_mx.errors.ConfigError: SLSGD_MX_SECRET is not set: give all servers and workers the \
same one, for example from openssl rand -hex 32
        """
        if not variables.get(VARIABLE):
            raise ConfigError(
                f"{VARIABLE} is not set: give all servers and workers the same one, for example "
                "from openssl rand -hex 32"
            )
        return cls(variables[VARIABLE])

    def seal(self, body: str) -> str:
        """A command with the digest that proves where it comes from."""
        return self._digest("command", body.encode()).hex() + body

    def open(self, sealed: Union[str, bytes]) -> bytes:
        """
        >>> Secret("of sixteen letters").open(Secret("of sixteen letters").seal("{}"))
        b'{}'
        """
        if isinstance(sealed, str):
            sealed = sealed.encode(errors="replace")
        digest, body = sealed[:DIGITS], sealed[DIGITS:]
        if not hmac.compare_digest(digest, self._digest("command", body).hex().encode()):
            raise ProtocolError(f"it does not come from a process that knows {VARIABLE}")
        return body

    def header(self, key: int, header: Header) -> np.ndarray:
        """The values ahead of all others in a push, (HEADER,)."""
        return np.concatenate([np.array(header, np.float32), self._token(key, header)])

    def check(self, key: int, pushed: np.ndarray) -> Header:
        """The header of a push; a ProtocolError if its sender does not know the secret."""
        if pushed.ndim != 1 or pushed.size < HEADER or pushed.dtype != np.float32:
            raise ProtocolError(f"{pushed.dtype} {pushed.shape} has no header")
        header = read_header(pushed)
        expected = self._token(key, header)
        if not hmac.compare_digest(pushed[len(header) : HEADER].tobytes(), expected.tobytes()):
            raise ProtocolError(f"it does not come from a process that knows {VARIABLE}")
        return header

    def mix(self, number: int) -> int:
        """48 bits that are equal where number and secret are, and reveal neither."""
        return int.from_bytes(self._digest("number", str(number).encode())[:6], "big")

    def _token(self, key: int, header: Header) -> np.ndarray:
        digest = self._digest("push", " ".join(map(str, (key, *header))).encode())
        return np.frombuffer(digest, "<u2")[: HEADER - len(header)].astype(np.float32)

    def _digest(self, purpose: str, text: bytes) -> bytes:
        return hmac.new(self._key, purpose.encode() + b"\0" + text, hashlib.sha256).digest()


def new_secret() -> str:
    """256 random bits in hexadecimal."""
    return secrets.token_hex(32)
