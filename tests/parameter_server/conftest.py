"""Reference runs in one process, computed once for all tests of the parameter server; attempts."""

import pytest
from helpers.parameter_server import alive

from slsgd_mx.parameter_server import launcher
from slsgd_mx.runs.trainer import train


@pytest.fixture(scope="session")
def config(tiny):
    """Long enough to be killed, stopped or cut off on the way."""
    return tiny(epochs=12, eval_every=1, alpha=0.5, alpha_decay_epoch=2, q=1, b=1)


@pytest.fixture(scope="session")
def alone(config, tmp_path_factory):
    """The run of ``config`` in one process."""
    return train(config, tmp_path_factory.mktemp("alone") / "run")


@pytest.fixture
def attempts(monkeypatch):
    """The sets of processes that the launcher starts, one for each attempt."""
    started = []
    enter = launcher._Roles.__enter__

    def remember(self):
        started.append(self)
        return enter(self)

    monkeypatch.setattr(launcher._Roles, "__enter__", remember)
    yield started
    for roles in started:  # none of them is left, whatever happened
        assert not any(alive(child.process.pid) for child in roles.children.values())
