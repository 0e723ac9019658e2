"""Shared by all tests: one thread, repeatable examples, configurations that take milliseconds."""

import dataclasses
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # MXNet reads it once, when it is imported

import pytest
from hypothesis import settings

from slsgd_mx.config import Cifar, RunConfig

settings.register_profile(
    "repeatable", deadline=None, derandomize=True, max_examples=100, database=None
)
settings.load_profile("repeatable")

SIZES = dict(data="synthetic", train_images=80, test_images=20, loss_images=80, width=2)
SYMBOLS = dict(n=8, k=4, batch_size=10, epochs=3, eval_every=1)


def tiny_config(**changes):
    """A RunConfig of 8 devices x 10 images, with changes by name of it or of its task."""
    names = {field.name for field in dataclasses.fields(Cifar)}
    sizes = {**SIZES, **{name: changes.pop(name) for name in names & set(changes)}}
    return RunConfig(task=Cifar(**sizes), **{**SYMBOLS, **changes})


@pytest.fixture(scope="session")
def tiny():
    """The function that makes tiny configurations."""
    return tiny_config


@pytest.fixture(scope="session")
def tiny_task():
    """``tiny_task(config)``: the task of a configuration; those of one partition share it."""
    from slsgd_mx.tasks import build_task

    built = {}

    def find(config):
        key = (config.task, config.n, config.seed, config.batch_size)
        if key not in built:
            built[key] = build_task(config)
        return built[key]

    yield find
    built.clear()  # before MXNet's engine is shut down


def pytest_configure(config):
    # MXNet's own use of SciPy, once for every array made
    config.addinivalue_line("filterwarnings", "ignore:Please import `csr_matrix`")
