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


def test_the_stated_ranges_are_the_legal_ones():
    rows = read_rules()
    assert list(rows) == sorted(RULES, key=list(rows).index)
    for name, row in rows.items():
        condition = {"any k": "True", "as mda": "2b < k"}.get(row["legal"], row["legal"])
        condition = re.sub(r"(\d)b", r"\1 * b", condition.split(",")[0])
        for k in range(1, 16):
            for b in range(k + 1):
                assert (find_rule(name).obstacle(k, b) is None) == eval(condition), (name, k, b)
