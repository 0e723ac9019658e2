"""A C library that is turned off, missing, broken or old is named; the rest works without it."""

import hashlib
import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from slsgd_mx.data import numbers
from slsgd_mx.errors import ConfigError
from slsgd_mx.rules import compiled
from slsgd_mx.system.libraries import VARIABLE, find_library, load_library

RULES = Path(compiled.__file__).parent


def test_the_variable_decides(monkeypatch):
    monkeypatch.setenv(VARIABLE, "numpy")
    assert find_library(RULES, "ranks", 1) == (None, f"not used, because {VARIABLE}=numpy")
    monkeypatch.setenv(VARIABLE, "fortran")
    with pytest.raises(ConfigError, match="='fortran' is not legal: it is 'compiled' or 'numpy'"):
        find_library(RULES, "ranks", 1)
    monkeypatch.setenv(VARIABLE, "compiled")
    assert find_library(RULES, "ranks", compiled.VERSION) is load_library(
        RULES, "ranks", compiled.VERSION
    )


def test_a_missing_broken_or_old_library_is_named(tmp_path):
    assert load_library(tmp_path, "ranks", 1).missing.startswith("not built: it needs a C compiler")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / f"_ranks{EXTENSION_SUFFIXES[0]}").write_text("not a library")
    assert load_library(broken, "ranks", 1).missing.startswith("cannot be loaded (")
    if load_library(RULES, "ranks", compiled.VERSION).functions is None:
        pytest.skip("there is no C compiler")
    old = load_library(RULES, "ranks", -1)
    assert old.functions is None and "another version" in old.missing
    (broken / f"_words{EXTENSION_SUFFIXES[0]}").write_bytes(
        next(RULES.glob("_ranks*")).read_bytes()
    )
    assert "words_version" in load_library(broken, "words", 1).missing


@pytest.mark.parametrize(
    "module, name, version, digest",
    [(compiled, "ranks", 1, "16048bf9cb25"), (numbers, "numbers", 2, "a9702a5788dd")],
)
def test_a_changed_interface_has_a_new_version(module, name, version, digest):
    """If this fails, raise VERSION in both files: a library of before would crash."""
    text = (Path(module.__file__).parent / f"{name}.c").read_text()
    functions = re.findall(rf"^\w+ {name}_\w+\([^)]*\)", text, re.MULTILINE)
    assert len(functions) >= 3
    shown = hashlib.sha256(" ".join(" ".join(functions).split()).encode()).hexdigest()[:12]
    assert (module.VERSION, shown) == (version, digest)
