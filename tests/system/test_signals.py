"""Interrupts that arrive while an object is being deleted."""

import os
import signal
import sys

import pytest

from slsgd_mx.system import signals

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def handlers():
    """Install the handlers; restore those of pytest afterwards."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    hook, hooks = sys.unraisablehook, signals._hooks[:]
    signals.install()
    yield
    signals.install()  # discards the recorded signals
    sys.unraisablehook, signals._hooks[:] = hook, hooks
    for number, handler in before.items():
        signal.signal(number, handler)


class InterruptedWhenDeleted:
    """Python prints and discards an exception raised by a destructor."""

    def __init__(self, number):
        self.number = number

    def __del__(self):
        os.kill(os.getpid(), self.number)
        for _ in range(100):  # the handler runs between two bytecodes of this very function
            pass


class FailsWhenDeleted:
    def __del__(self):
        raise ValueError


@pytest.mark.parametrize("number", NUMBERS)
def test_a_swallowed_interrupt_is_raised_by_the_next_check(handlers, monkeypatch, number):
    """And Python does not say that it was swallowed."""
    said = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: said.append(found.exc_type))
    signals.install()
    signals.check()  # no signal yet
    InterruptedWhenDeleted(number)
    with pytest.raises(KeyboardInterrupt) as caught:
        signals.check()
    assert caught.value.args == (number,) and said == []
    FailsWhenDeleted()
    assert said == [ValueError]


def test_under_nohup_a_closed_session_does_not_interrupt(handlers):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signals.install()
    os.kill(os.getpid(), signal.SIGHUP)
    signals.check()


@pytest.mark.parametrize("nohup", [False, True])
def test_signals_end_a_process_that_mxnet_blocks(handlers, nohup):
    if nohup:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signals.end_at_once()
    found = [signal.getsignal(number) for number in NUMBERS]
    assert found == [signal.SIG_DFL, signal.SIG_DFL, signal.SIG_IGN if nohup else signal.SIG_DFL]


def test_a_held_interrupt_is_raised_by_the_next_check(handlers):
    with signals.held():
        os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        signals.check()
