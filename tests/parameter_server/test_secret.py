"""The secret of a run: what is refused, and that neither it nor parts of it are shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slsgd_mx.errors import ConfigError
from slsgd_mx.parameter_server.protocol import HEADER, MOST, Header, ProtocolError
from slsgd_mx.parameter_server.secret import SHORTEST, VARIABLE, Secret, new_secret

TEXT = "a secret of this test"
SECRET = Secret(TEXT)


@pytest.mark.parametrize("text", ["short", "x" * (SHORTEST - 1)])
def test_a_short_secret_is_refused_and_not_shown(text):
    with pytest.raises(ConfigError) as error:
        Secret.from_environment({VARIABLE: text})
    said = str(error.value)
    assert said.startswith(f"SLSGD_MX_SECRET has {len(text)} characters: needs at least 16")
    assert text not in said and error.value.exit_code == 2


@pytest.mark.parametrize("variables", [{}, {VARIABLE: ""}])
def test_a_missing_secret_is_refused(variables):
    with pytest.raises(ConfigError, match="SLSGD_MX_SECRET is not set: give all servers and work"):
        Secret.from_environment(variables)


def test_new_secrets_differ_and_are_long_enough():
    made = {new_secret() for _ in range(10)}
    assert len(made) == 10
    for text in made:
        assert Secret.from_environment({VARIABLE: text}).mix(1) != SECRET.mix(1)


def test_the_secret_is_in_no_message_and_no_representation():
    shown = [repr(SECRET), str(SECRET), SECRET.seal("{}"), str(SECRET.mix(5))]
    header = SECRET.header(1, Header(2, 3, 4))
    for piece in (TEXT, TEXT[:8], TEXT.encode().hex()):
        assert not any(piece in text for text in shown)
    assert TEXT.encode() not in header.astype("<u2").tobytes()


numbers = st.integers(0, MOST)


@given(numbers, numbers, st.integers(-1, MOST), numbers)
def test_headers_survive_float32_and_fit_only_their_push(key, epoch, slot, rank):
    header = Header(epoch, slot, rank)
    sent = SECRET.header(key, header)
    assert sent.shape == (HEADER,) and sent.dtype == np.float32
    assert SECRET.check(key, sent) == header
    others = [(key + 1, sent), (key, Secret(TEXT + ".").header(key, header))]
    for position in range(HEADER):
        changed = sent.copy()
        changed[position] = np.nextafter(changed[position], np.float32(np.inf))
        others.append((key, changed))
    for where, pushed in others:
        with pytest.raises(ProtocolError):
            SECRET.check(where, pushed)


@given(st.text(st.characters(max_codepoint=127)))
def test_commands_are_opened_only_if_nothing_was_changed(body):
    sealed = SECRET.seal(body)
    assert SECRET.open(sealed) == SECRET.open(sealed.encode()) == body.encode()
    damaged = [
        sealed[1:],
        sealed[:-1],
        sealed + " ",
        sealed.upper(),
        body,
        Secret(TEXT * 2).seal(body),
    ]
    for text in damaged:
        with pytest.raises(ProtocolError, match="does not come from a process that knows"):
            SECRET.open(text)
