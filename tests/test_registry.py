"""Choices NAME:key=value, their canonical text, and plug-ins that add to the registries."""

import subprocess
import sys
import textwrap
from dataclasses import dataclass, field

import pytest

from slsgd_mx import plugins
from slsgd_mx.attacks import ATTACKS
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.registry import Registry, number, one_of, whole


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
        ("plain:tau=1", "'plain' has no parameter 'tau=1': its parameters are none"),
        ("clip:tau", "has no parameter 'tau': its parameters are tau=10, steps=3, of=first, z=1.5"),
        ("clip:tau=1,tau=2", "'clip' has two values of 'tau'"),
        ("clip:tau=0", "clip:tau=0 is out of range: needs a number > 0"),
        ("clip:tau=nan", "clip:tau=nan is out of range: needs a number > 0"),
        ("clip:tau=x", "clip:tau=x is out of range: needs a number > 0"),
        ("clip:steps=2.5", "clip:steps=2.5 is out of range: needs a whole number from 1 to 9"),
        ("clip:of=middle", "clip:of=middle is out of range: needs first or last"),
        ("clip:z=some", "clip:z=some is out of range: needs a number or auto"),
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


ATTACK = """
from slsgd_mx import register_attack
@register_attack("{name}")
def attack(seen):
    "{about}"
    return {pushed}
"""


def write(path, name="mine", pushed="seen.previous", about="Push x_{t-1}."):
    path.parent.mkdir(exist_ok=True)
    path.write_text(ATTACK.format(name=name, pushed=pushed, about=about))
    return path


@pytest.fixture
def clean(monkeypatch):
    """Forget after the test what a plug-in registered."""
    monkeypatch.delenv(plugins.VARIABLE, raising=False)
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setattr(ATTACKS, "sources", {})
    before = dict(ATTACKS)
    yield
    ATTACKS.clear()
    ATTACKS.update(before)


def test_the_digest_of_a_plug_in_is_part_of_the_identity(clean, tmp_path):
    source = plugins.load_plugin(str(write(tmp_path / "one.py")))
    assert source.name == "one.py" and ATTACKS["mine"].summary == "Push x_{t-1}."
    config = RunConfig(q=2, attack="mine")
    assert config.sources == (tuple(source),)
    assert RunConfig(q=2).sources == ()  # only runs that use it
    assert RunConfig.from_json(config.to_json()) == config
    del ATTACKS["mine"]
    plugins._loaded.clear()
    plugins.load_plugin(str(write(tmp_path / "one.py", pushed="2 * seen.previous")))
    edited = RunConfig(q=2, attack="mine")
    assert edited.identity != config.identity
    assert RunConfig.from_json(config.to_json()).identity == config.identity


def test_a_plug_in_is_executed_once(clean, tmp_path):
    path = write(tmp_path / "one.py")
    assert plugins.load_plugin(str(path)) == plugins.load_plugin(str(path))


@pytest.mark.parametrize(
    "text, said",
    [
        (None, "does not exist: give FILE.py or package.module"),
        ("1 / 0", "cannot be loaded: ZeroDivisionError: division by zero"),
        ("def broken(:", "cannot be loaded: SyntaxError"),
        (ATTACK.format(name="nan", pushed="0", about=""), "attack 'nan' exists already"),
        ("import nowhere_to_be_found", "cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_plug_ins_that_are_refused(clean, tmp_path, text, said):
    path = tmp_path / "bad.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError) as error:
        plugins.load_plugin(str(path))
    assert said in str(error.value) and str(path) in str(error.value)


def test_a_package_is_identified_by_all_of_its_files(clean, tmp_path, monkeypatch):
    package = tmp_path / "my_package_of_attacks"
    write(package / "attacks.py")
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    first = plugins.load_plugin("my_package_of_attacks.attacks")
    assert first.name == "my_package_of_attacks.attacks"
    (package / "helper.py").write_text("factor = 2")
    files = plugins._files("my_package_of_attacks.attacks")
    assert plugins.digest_of(files) != first.sha256


def test_an_unknown_module_is_refused(clean):
    with pytest.raises(ConfigError, match=r"plug-in no\.such cannot be found"):
        plugins.load_plugin("no.such")


def test_child_processes_load_the_same_plug_ins(clean, tmp_path):
    plugins.load_plugin(str(write(tmp_path / "one.py")))
    code = """
    from slsgd_mx import plugins
    plugins.load_inherited()
    from slsgd_mx.attacks import ATTACKS
    print(sorted(ATTACKS.sources))
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True, check=True
    )
    assert found.stdout == "['mine']\n"


def test_a_function_outside_a_plug_in_is_identified_by_its_file(clean):
    source = plugins.source_of(write)
    assert source == ("test_registry.py", plugins.digest_of([plugins.Path(__file__)]))
    assert plugins.source_of(RunConfig) is None
    typed = {}
    exec("def f(x): return x + 1\ndef g(x): return x + 2", typed)
    assert plugins.source_of(typed["f"]) != plugins.source_of(typed["g"])
