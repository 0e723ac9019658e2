"""Interrupts that come while an object is being deleted."""

from __future__ import annotations

import os
import signal

import pytest

from slsgd_mx.system import signals


@pytest.fixture
def handlers():
    """Give the signals back to pytest afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signals.install()
    yield
    signals.install()  # forgets what was noted
    for number, handler in before.items():
        signal.signal(number, handler)


class InterruptedWhenDeleted:
    """Python prints and drops what a destructor raises."""

    def __init__(self, number):
        self.number = number

    def __del__(self):
        os.kill(os.getpid(), self.number)
        for _ in range(100):  # the handler runs between two bytecodes of this very function
            pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_swallowed_interrupt_is_raised_by_the_next_check(handlers, number):
    signals.check()  # nothing came: nothing is raised
    InterruptedWhenDeleted(number)
    with pytest.raises(KeyboardInterrupt) as caught:
        signals.check()
    assert caught.value.args == (number,)
