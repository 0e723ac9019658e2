"""Shared by all tests: one thread, repeatable examples, configurations that take milliseconds."""

import dataclasses
import os
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")  # MXNet reads it once, when it is imported

import pytest
from hypothesis import settings

from slsgd_mx.config import RunConfig
from slsgd_mx.tasks.sizes import SIZES

settings.register_profile(
    "repeatable", deadline=None, derandomize=True, max_examples=100, database=None
)
settings.load_profile("repeatable")

TINY_SIZES = {
    "cifar": dict(data="synthetic", train_images=80, test_images=20, loss_images=80, width=2),
    "lstm": dict(
        data="synthetic",
        vocab_size=24,
        bptt=4,
        device_batches=3,
        loss_batches=4,
        test_batches=3,
        width=8,
    ),
    "problem": dict(objective="logistic", dimension=3, samples=10, L=1.0),  # it has labels
}
SYMBOLS = {
    "cifar": dict(batch_size=10),
    "lstm": dict(batch_size=3, gamma=5),
    "problem": dict(batch_size=5, gamma=0.5),
}


def tiny_config(kind, **changes):
    """8 devices of 10 images, 36 tokens or 10 samples; changes by name of RunConfig or its task."""
    names = {field.name for field in dataclasses.fields(SIZES[kind])}
    sizes = {**TINY_SIZES[kind], **{name: changes.pop(name) for name in names & set(changes)}}
    symbols = dict(n=8, k=4, epochs=3, eval_every=1, **SYMBOLS[kind])
    return RunConfig(sizes=SIZES[kind](**sizes), **{**symbols, **changes})


@pytest.fixture(scope="session")
def tiny(request):
    """The function that makes tiny configurations, of the CNN unless a test asks for others.

    ``pytest.mark.parametrize("tiny", SIZES, indirect=True)`` runs a test on every task.
    """
    return partial(tiny_config, getattr(request, "param", "cifar"))


@pytest.fixture(scope="session")
def tiny_task():
    """``tiny_task(config)``: the task of a configuration; those of one partition share it."""
    from slsgd_mx.tasks.build import build_task

    built = {}

    def find(config):
        key = (config.sizes, config.n, config.seed, config.batch_size)
        if key not in built:
            built[key] = build_task(config)
        return built[key]

    yield find
    built.clear()  # before MXNet's engine is shut down


def pytest_configure(config):
    # MXNet's own use of SciPy, once for every array made
    config.addinivalue_line("filterwarnings", "ignore:Please import `csr_matrix`")
