"""docs/conformance.md: its examples run, and it names every rule, attack and existing tests."""

import doctest
import re
from pathlib import Path

import pytest
from helpers.conformance import PAGE, TEXT, read_rules

from slsgd_mx.attacks import ATTACKS
from slsgd_mx.rules import PRE_AGGREGATIONS, RULES
from slsgd_mx.rules.pipeline import find_rule

ROOT = Path(__file__).resolve().parent.parent


def test_the_examples_run():
    flags = doctest.NORMALIZE_WHITESPACE
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert found.failed == 0 and found.attempted == TEXT.count("\n>>> ") > 40


@pytest.mark.parametrize("name", [*RULES, *PRE_AGGREGATIONS, *ATTACKS])
def test_every_rule_and_attack_has_a_row(name):
    assert re.search(rf"^\| (`[a-z-]+`, )*`{name}`[ ,]", TEXT, re.M)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_[a-z_0-9]+)`", TEXT, re.I))))
def test_the_tests_it_names_exist(name):
    files = [*(ROOT / "tests" / "rules").glob("*.py"), *(ROOT / "tests" / "attacks").glob("*.py")]
    assert any(f"def {name}(" in path.read_text(encoding="utf-8") for path in files)


def test_the_stated_parameters_are_all_there_are_with_their_defaults():
    section = TEXT.split("## Parameters")[1].split("##")[0]
    stated, used = {}, {}
    for row in re.findall(r"^\| `.*", section, re.M):
        names, defaults, others = (re.findall("`(.+?)`", cell) for cell in row.split("|")[1:4])
        for name in names:
            stated[name] = sorted([*defaults, *others])
    for name, entry in {**RULES, **PRE_AGGREGATIONS, **ATTACKS}.items():
        for key, parameter in entry.parameters.items():
            default = parameter.default
            shown = key if default is None else f"{key}={default:{'' if key == 'of' else 'g'}}"
            used.setdefault(name, []).append(shown)
    assert stated == {name: sorted(keys) for name, keys in used.items()}


@pytest.mark.parametrize("name", ATTACKS)
def test_the_stated_starts_and_scales_are_the_defaults(name):
    row = re.search(rf"^\|[^|]*`{name}`.*", TEXT.split("## Parameters")[1].split("##")[0], re.M)
    start = re.search("`start` is (fresh|pulled)", row[0]) if row else None
    assert ATTACKS[name].start == (start[1] if start else "pulled")
    scale = re.search("`scale` is ([0-9]+)", row[0]) if row else None
    assert ATTACKS[name].scale == (float(scale[1]) if scale else 1)


def test_the_stated_ranges_are_the_legal_ones():
    rows = read_rules()
    assert list(rows) == sorted(RULES, key=list(rows).index)
    for name, row in rows.items():
        condition = {"any k": "True", "as mda": "2b < k"}.get(row["legal"], row["legal"])
        condition = re.sub(r"(\d)b", r"\1 * b", condition.split(",")[0])
        for k in range(1, 16):
            for b in range(k + 1):
                assert (find_rule(name).obstacle(k, b) is None) == eval(condition), (name, k, b)
