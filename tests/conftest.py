"""Shared by all tests: one thread, reproducible examples, tiny configurations, slow tests."""

import dataclasses
import inspect
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # MXNet reads it once, when it is imported
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # the tests were started with nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
if sys.version_info < (3, 12):
    os.environ["SETUPTOOLS_USE_DISTUTILS"] = "stdlib"  # quicker imports in child processes

import pytest
from hypothesis import settings

from slsgd_mx.config import RunConfig
from slsgd_mx.rules import RULES, Rule
from slsgd_mx.tasks.sizes import SIZES

settings.register_profile(
    "repeatable", deadline=None, derandomize=True, max_examples=100, database=None
)
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=20)
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


@pytest.fixture
def fresh_plugins(monkeypatch):
    """Forget afterwards what plug-ins registered during a test."""
    from slsgd_mx import plugins
    from slsgd_mx.attacks import ATTACKS
    from slsgd_mx.partitions import PARTITIONS
    from slsgd_mx.workloads import NETWORKS, WORKLOADS

    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.delenv(plugins.VARIABLE, raising=False)
    registries = (ATTACKS, RULES, PARTITIONS, NETWORKS, WORKLOADS)
    before = [set(registry) for registry in registries]
    yield
    os.environ.pop(plugins.VARIABLE, None)
    for registry, names in zip(registries, before):
        for name in set(registry) - names:
            registry.remove(name)


@pytest.fixture
def least_norm(monkeypatch):
    """A rule that chooses the model of least norm; a list of the row sizes it was given."""
    sizes = []

    def choose(rows, context, out):
        sizes.append([row.size for row in rows])
        out[:] = min(rows, key=lambda row: float((row.astype("f8") ** 2).sum()))

    rule = Rule("the model of least norm", choose, whole=True)
    monkeypatch.setitem(RULES, "least-norm", rule)
    return sizes


def pytest_configure(config):
    # MXNet's own use of SciPy, once for every array made
    config.addinivalue_line("filterwarnings", "ignore:Please import `csr_matrix`")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Run commands in an empty folder without any data; restore the handlers of signals."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLSGD_MX_DATA", str(tmp_path / "no-data"))
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    hook = sys.unraisablehook
    yield
    sys.unraisablehook = hook
    for number, handler in before.items():
        signal.signal(number, handler)


# Files whose tests start processes, compute sweeps or draw pictures; `make check` leaves them out.
SLOW = (
    "test_kill.py",
    "test_distribution.py",
    "test_packaging.py",
    "test_notebook.py",
    "test_site.py",
    "test_tutorial.py",
    "arena/*.py",
    "cli/*.py",
    "chaos/*.py",
    "claims/test_rules.py",
    "data/test_archives.py",
    "examples/*.py",
    "figures/*.py",
    "parameter_server/test_docs.py",
    "parameter_server/test_hostile.py",
    "parameter_server/test_hosts.py",
    "parameter_server/test_runs.py",
    "report/*.py",
    "runs/test_bfloat16.py",
    "runs/test_prefix.py",
    "runs/test_trainer.py",
    "runs/test_upgrades.py",
    "sweeps/*.py",
    "system/test_child.py",
    "system/test_mxnet.py",
    "tasks/test_backdoor.py",
    "theory/test_command.py",
    "theory/test_compute.py",
    "theory/test_pictures.py",
    "theory/test_runs.py",
)
HARMLESS = {"git", "uname"}  # what a run's manifest asks


def is_slow(item):
    """Whether a test is in a slow file, trains the LSTM, or starts a process in its own code."""
    if "lstm" in getattr(getattr(item, "callspec", None), "id", ""):
        return True
    if any(Path(item.path).match(name) for name in SLOW):
        return True
    function = getattr(item, "function", None)
    return function is not None and "subprocess." in inspect.getsource(function)


def pytest_collection_modifyitems(config, items):
    for item in filter(is_slow, items):
        item.add_marker(pytest.mark.slow)
        if config.pluginmanager.hasplugin("timeout"):
            item.add_marker(pytest.mark.timeout(1800))  # seconds, for a busy machine


@pytest.fixture(autouse=True)
def no_child_processes(request, monkeypatch):
    """Fail a test that starts a process without being marked as slow."""
    if request.node.get_closest_marker("slow"):
        return
    start = subprocess.Popen.__init__

    def start_harmless(self, args, *more, **options):
        if args[0] not in HARMLESS:
            pytest.fail(f"this test starts {args[0]}: list its file in SLOW of conftest.py")
        start(self, args, *more, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", start_harmless)
