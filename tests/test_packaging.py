"""The packaging files agree on the versions; setup.py refuses other Pythons, builds the C code."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import slsgd_mx
from slsgd_mx.data import numbers
from slsgd_mx.rules import compiled
from slsgd_mx.system.libraries import load_library

ROOT = Path(__file__).resolve().parent.parent


def run_setup_as(version):
    """Run setup.py in a process that pretends to be another version of Python."""
    code = f"import runpy, sys; sys.version_info = {version}; runpy.run_path('setup.py')"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=str(ROOT),
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 7, 16), (3, 13, 0), (4, 0, 0)])
def test_setup_refuses_a_wrong_python_in_one_sentence(version):
    done = run_setup_as(version)
    found = ".".join(map(str, version))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "slsgd-mx needs Python 3.8 to 3.12 (MXNet 1.9.1 runs on no other), "
        f"and this is Python {found}.\n"
    )


@pytest.mark.parametrize("compiler", [True, False])
def test_setup_builds_the_libraries_if_there_is_a_compiler(compiler, tmp_path):
    if compiler and not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    folders = ["--build-lib", str(tmp_path / "lib"), "--build-temp", str(tmp_path / "temp")]
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", *folders],
        cwd=str(ROOT),
        env={**os.environ, "CC": "cc" if compiler else str(tmp_path / "no-such-compiler")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    package = tmp_path / "lib" / "slsgd_mx"
    ranks = load_library(package / "rules", "ranks", compiled.VERSION)
    words = load_library(package / "data", "numbers", numbers.VERSION)
    for library in (ranks, words):
        assert (library.functions is not None) == compiler
        assert compiler or library.missing.startswith("not built")


def test_every_file_names_the_same_versions_of_python():
    minors = ["3.8", "3.9", "3.10", "3.11", "3.12"]
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"Python :: (3\.\d+)", setup) == minors
    assert re.findall(r'"(3\.\d+)"', workflow) == minors
    assert re.findall(r"python(3\.\d+)", makefile.split("for name in ")[1].split(";")[0]) == [
        *reversed(minors)
    ]


def test_the_citation_and_the_changelog_name_the_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.M).group(1) == slsgd_mx.__version__
    assert re.search(r"^## \[(.+?)\]", changelog, re.M).group(1) == slsgd_mx.__version__
