"""What manifest.json says about a session."""

import errno
import json
import os
import platform
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import slsgd_mx
from slsgd_mx.errors import DiskError
from slsgd_mx.runs import manifest
from slsgd_mx.runs.manifest import cpu_name, describe, differences, git_revision
from slsgd_mx.system.mxnet import mx


def test_a_session_in_a_few_words(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    said = describe(17, "abc")
    assert json.loads(json.dumps(said)) == said
    assert (said["after_epoch"], said["data_sha256"], said["threads"]) == (17, "abc", 3)
    assert said["mxnet"] == mx.__version__ and said["numpy"] == np.__version__
    assert said["python"] == platform.python_version() and said["cores"] == os.cpu_count()
    assert said["slsgd_mx"] == slsgd_mx.__version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", said["started"])
    for name in ("cpu", "instructions", "revision"):
        assert isinstance(said[name], str) and said[name]


def test_the_cpu_is_the_first_that_is_named(monkeypatch):
    text = "processor : 0\nmodel name\t: Some CPU @ 2.00GHz: fast\nmodel name : Another\n"
    monkeypatch.setattr(Path, "exists", lambda self: True)
    monkeypatch.setattr(Path, "read_text", lambda self: text)
    assert cpu_name() == "Some CPU @ 2.00GHz: fast"
    monkeypatch.setattr(Path, "read_text", lambda self: "processor : 0\n")
    monkeypatch.setattr(platform, "processor", lambda: "")
    assert cpu_name() == "unknown"


def test_other_instructions_may_change_bytes_unless_they_were_not_recorded():
    cpu = {"threads": 1, "cpu": "AMD EPYC"}
    with_avx512 = {**cpu, "instructions": "AVX-512"}
    assert differences({**cpu, "instructions": "AVX2"}, with_avx512) == [
        "instructions AVX2 -> AVX-512"
    ]
    assert differences(cpu, with_avx512) == differences(with_avx512, with_avx512) == []


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git checkout with one commit, that appears to contain this module."""
    home = tmp_path / "project"
    (home / "package" / "runs").mkdir(parents=True)
    file = home / "package" / "runs" / "manifest.py"
    file.write_text("one")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for call in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(home), *call], check=True)
    monkeypatch.setattr(manifest, "__file__", str(file))
    return home


def test_the_revision_is_that_of_the_checkout_and_says_if_files_changed(checkout):
    clean = git_revision()
    assert re.fullmatch("[0-9a-f]{12,}", clean)
    (checkout / "package" / "runs" / "manifest.py").write_text("two")
    assert git_revision() == clean + "-dirty"


def test_no_revision_without_a_checkout_of_its_own(checkout, monkeypatch):
    """A package installed inside another project's checkout does not have that revision."""
    inner = checkout / "site" / "package" / "runs"
    inner.mkdir(parents=True)
    monkeypatch.setattr(manifest, "__file__", str(inner / "manifest.py"))
    assert git_revision() == "unknown"


@pytest.mark.parametrize("error", [FileNotFoundError("git"), subprocess.TimeoutExpired("git", 5)])
def test_no_revision_without_git(checkout, monkeypatch, error):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr(subprocess, "run", fail)
    assert git_revision() == "unknown"


def test_a_manifest_that_cannot_be_written_is_kept(tmp_path, monkeypatch):
    manifest.write_sessions(tmp_path, [{"after_epoch": 0}])
    before = (tmp_path / "manifest.json").read_bytes()

    def full(handle):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskError, match="free some space"):
        manifest.write_sessions(tmp_path, [{"after_epoch": 0}, {"after_epoch": 2}])
    assert (tmp_path / "manifest.json").read_bytes() == before
