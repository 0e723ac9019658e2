"""Slow tests are marked in conftest.py; the others must not start processes."""

import sys
from subprocess import run

import pytest


def test_a_fast_test_must_not_start_a_process(request):
    assert not request.node.get_closest_marker("slow")
    with pytest.raises(pytest.fail.Exception, match="list its file in SLOW"):
        run([sys.executable, "-c", ""])


def test_a_test_that_names_subprocess_is_slow(request):
    assert request.node.get_closest_marker("slow"), "its code contains subprocess."
    assert run([sys.executable, "-c", ""]).returncode == 0


def test_every_test_has_a_timeout(request):
    """Two planted bugs once hung the suite."""
    assert request.config.pluginmanager.hasplugin("timeout")
    assert 0 < float(request.config.getini("timeout")) <= 300
