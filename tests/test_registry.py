"""Choices NAME:key=value, their canonical text, and names that are refused."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from slsgd_mx import aggregate, register_rule
from slsgd_mx.errors import ConfigError
from slsgd_mx.registry import Registry, number, one_of, whole
from slsgd_mx.workloads import Sizes, register_task


@dataclass(frozen=True)
class Entry:
    parameters: dict = field(default_factory=dict)


KNOWN = Registry(
    "rule",
    {
        "plain": Entry(),
        "clip": Entry(
            {
                "tau": number(10.0, above=0),
                "steps": whole(3, least=1, most=9),
                "of": one_of("first", "last"),
                "z": number(1.5, words=("auto",)),
            }
        ),
    },
)


@pytest.mark.parametrize(
    "text, canonical",
    [
        ("plain", "plain"),
        ("clip", "clip"),
        ("clip:tau=10,steps=3,of=first,z=1.5", "clip"),
        ("clip:tau=2.50,steps=4", "clip:steps=4,tau=2.5"),
        ("clip:z=auto,of=last", "clip:of=last,z=auto"),
        ("clip:tau=1e+30", "clip:tau=1e30"),
        ("clip:tau=0.30000000000000004", "clip:tau=0.30000000000000004"),
    ],
)
def test_canonical_text(text, canonical):
    choice = KNOWN.choose(text)
    assert choice.text == canonical
    assert KNOWN.choose(choice.text).parameters == choice.parameters


@pytest.mark.parametrize(
    "text, said",
    [
        ("best", "rule='best' is unknown: choose one of plain, clip"),
        ("plain:tau=1", "'plain' has no parameter 'tau=1': it has no parameters"),
        ("clip:t=1", "has no parameter 't=1': its parameters are tau=10, steps=3, of=first, z=1.5"),
        ("clip:step=1", "has no parameter 'step=1', did you mean 'steps'? Its parameters are tau"),
        ("clip:tau", "clip:tau has no value: write clip:tau=VALUE"),
        (
            "clipp",
            "rule='clipp' is unknown, did you mean 'clip'? Choose one of plain, clip, or load",
        ),
        ("clip:tau=1,tau=2", "'clip' has two values of 'tau'"),
        ("clip:tau=0", "clip:tau=0 is out of range: needs a number > 0"),
        ("clip:tau=nan", "clip:tau=nan is out of range: needs a number > 0"),
        ("clip:tau=x", "clip:tau=x is not a number: needs a number > 0"),
        ("clip:steps=2.5", "clip:steps=2.5 is out of range: needs a whole number from 1 to 9"),
        ("clip:of=middle", "clip:of=middle is out of range: needs first or last"),
        ("clip:z=some", "clip:z=some is not a number: needs a number or auto"),
        (None, "rule=None is not a text"),
    ],
)
def test_choices_that_are_refused(text, said):
    with pytest.raises(ConfigError) as error:
        KNOWN.choose(text)
    assert said in str(error.value)


@pytest.mark.parametrize("name", ["", "a+b", "a:b", "a b", "a,b", "a/b", 3])
def test_names_that_are_refused(name):
    with pytest.raises(ConfigError, match="is not a name"):
        Registry("rule", {}).register(name, Entry(), len)


@pytest.mark.parametrize(
    "parameters, said",
    [
        ({"a": 3}, "rule 'mine', parameter 'a': 3 is not a declaration, use number(3), whole(3)"),
        ({"a": "x"}, "parameter 'a': 'x' is not a declaration, use number(...), whole(...)"),
        ({"a": number}, "is not a declaration"),
        ({"a": number(5, most=1)}, "parameter 'a': default=5 is out of range: needs a number <= 1"),
        ({"a=b": whole(1)}, "parameter 'a=b': not a name"),
        (["a"], "rule 'mine': parameters=['a'] must map names to declarations"),
    ],
)
def test_wrong_parameters_are_refused_when_an_entry_is_registered(parameters, said):
    rules = Registry("rule", {})
    with pytest.raises(ConfigError) as error:
        rules.register("mine", Entry(parameters), len)
    assert said in str(error.value) and "mine" not in rules


def test_sizes_of_a_task_are_plain_values():
    with pytest.raises(ConfigError, match="task 'mine', size 'width': .* is not a default"):
        register_task("mine", len, sizes={"width": whole(3)})


def test_sizes_of_a_task_have_defaults():
    @dataclass(frozen=True)
    class Mine(Sizes):
        width: int

    with pytest.raises(ConfigError, match="task 'mine', size 'width': it needs a default"):
        register_task("mine", len, sizes=Mine)


def test_a_rule_that_returns_a_wrong_shape_is_called_by_its_registered_name(fresh_plugins):
    @register_rule("too-short", uses_b=False)
    def shorten(pushes, context):
        return pushes[0][:1]

    with pytest.raises(ConfigError, match=r"rule too-short returned an array of shape \(1,\)"):
        aggregate(np.ones((3, 4)), rule="too-short")
