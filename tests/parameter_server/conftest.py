"""Reference runs in one process, computed once for all tests of the parameter server."""

import pytest

from slsgd_mx.runs.trainer import train


@pytest.fixture(scope="session")
def config(tiny):
    """Long enough to be killed, stopped or cut off on the way."""
    return tiny(epochs=12, eval_every=1, alpha=0.5, alpha_decay_epoch=2, q=1, b=1)


@pytest.fixture(scope="session")
def alone(config, tmp_path_factory):
    """The run of ``config`` in one process."""
    return train(config, tmp_path_factory.mktemp("alone") / "run")
