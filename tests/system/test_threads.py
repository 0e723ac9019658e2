"""How many threads: from the environment, fixed before MXNet is imported, never after."""

import os
import sys

import pytest

from slsgd_mx.errors import ConfigError
from slsgd_mx.system import threads
from slsgd_mx.system.threads import VARIABLE, available_cores, set_threads, thread_count


@pytest.mark.parametrize(
    "value, count", [("1", 1), ("3", 3), ("4,2", 4), ("", 7), ("0", 7), ("-2", 7), ("all", 7)]
)
def test_threads_are_those_of_the_environment_else_every_core(monkeypatch, value, count):
    monkeypatch.setattr(threads, "available_cores", lambda: 7)
    monkeypatch.setenv(VARIABLE, value)
    assert thread_count() == count


def test_without_the_variable_it_is_every_core(monkeypatch):
    monkeypatch.delenv(VARIABLE)
    assert thread_count() == available_cores() >= 1


def test_cores_are_those_this_process_may_run_on(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 5}, raising=False)
    assert available_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert available_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1


@pytest.mark.parametrize("count", [0, -1])
def test_no_threads_are_refused(monkeypatch, count):
    monkeypatch.setenv(VARIABLE, "1")
    with pytest.raises(ConfigError, match=f"threads={count} is out of range: needs threads >= 1"):
        set_threads(count)
    assert os.environ[VARIABLE] == "1"


def test_before_mxnet_any_number_goes(monkeypatch):
    monkeypatch.delitem(sys.modules, "mxnet", raising=False)
    monkeypatch.setenv(VARIABLE, "1")
    set_threads(5)
    assert os.environ[VARIABLE] == "5" and thread_count() == 5


def test_after_mxnet_only_the_number_there_is(monkeypatch):
    monkeypatch.setitem(sys.modules, "mxnet", sys.modules.get("mxnet", object()))
    monkeypatch.setenv(VARIABLE, "2")
    set_threads(2)
    with pytest.raises(ConfigError, match="threads=3 comes too late: .* imported with 2; set OMP"):
        set_threads(3)
    assert os.environ[VARIABLE] == "2"
