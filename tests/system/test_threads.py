"""The number of threads: from the environment, and fixed once MXNet is imported."""

import os
import sys

import pytest

from slsgd_mx.errors import ConfigError
from slsgd_mx.system import threads
from slsgd_mx.system.threads import VARIABLE, available_cores, set_threads, thread_count


@pytest.mark.parametrize(
    "value, count", [("1", 1), ("3", 3), ("4,2", 4), ("", 7), ("0", 7), ("-2", 7), ("all", 7)]
)
def test_thread_count_is_that_of_the_environment_else_every_core(monkeypatch, value, count):
    monkeypatch.setattr(threads, "available_cores", lambda: 7)
    monkeypatch.setenv(VARIABLE, value)
    assert thread_count() == count


def test_available_cores_are_those_of_this_process(monkeypatch):
    monkeypatch.delenv(VARIABLE)
    assert thread_count() == available_cores() >= 1
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 5}, raising=False)
    assert available_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert available_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1


def test_before_the_import_of_mxnet_any_number_is_accepted(monkeypatch):
    monkeypatch.delitem(sys.modules, "mxnet", raising=False)
    monkeypatch.setenv(VARIABLE, "1")
    set_threads(5)
    assert os.environ[VARIABLE] == "5" and thread_count() == 5


def test_after_the_import_of_mxnet_the_number_is_fixed(monkeypatch):
    monkeypatch.setitem(sys.modules, "mxnet", sys.modules.get("mxnet", object()))
    monkeypatch.setenv(VARIABLE, "2")
    set_threads(2)
    with pytest.raises(ConfigError, match="threads=3 comes too late: .* imported with 2; set OMP"):
        set_threads(3)
    for count in (0, -1):
        with pytest.raises(ConfigError, match=f"threads={count} is out of range: needs threads >="):
            set_threads(count)
    assert os.environ[VARIABLE] == "2"
