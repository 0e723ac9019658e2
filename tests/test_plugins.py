"""Plug-ins: loaded once, named in identities, refused in one sentence; nothing half-registered."""

import functools
import hashlib
import json
import os
import sys
from dataclasses import replace

import numpy as np
import pytest

from slsgd_mx import Task, plugins
from slsgd_mx.attacks import ATTACKS, find_attack
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError, RunError
from slsgd_mx.plugins import load_inherited, load_plugin, source_of
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.index import RunIndex
from slsgd_mx.runs.stored_config import read_config
from slsgd_mx.tasks.build import build_task

ATTACK = """
from dataclasses import dataclass
from slsgd_mx import register_attack
from slsgd_mx.registry import number

@dataclass
class Note:
    text: str

@register_attack("{name}", parameters={{"size": number(1.0)}})
def attack(seen):
    "{summary}"
    return seen.previous + seen.parameters["size"]
"""

pytestmark = pytest.mark.usefixtures("fresh_plugins")


def write(path, name="mine", summary="Add a number."):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ATTACK.format(name=name, summary=summary))
    return path


def attacked(**changes):
    return RunConfig(**{"q": 1, "attack": "mine:size=2", **changes})


def forget():
    """Start again like a new process."""
    plugins._loaded.clear()
    ATTACKS.remove("mine")


def test_a_file_is_loaded_once_and_named_by_its_digest(tmp_path):
    path = write(tmp_path / "own.py")
    source = load_plugin(str(path))
    assert source == (path.name, plugins.digest_of([path])) == load_plugin(str(path))
    assert find_attack("mine").source == source
    assert os.environ[plugins.VARIABLE] == str(path)
    assert attacked().sources == (tuple(source),)
    assert attacked().attack == "mine:size=2" and "mine-size-2" in attacked().slug
    assert RunConfig(q=1).sources == () == RunConfig(attack="mine").sources  # q=0: not used


def test_an_edited_plugin_is_another_run(tmp_path):
    path = write(tmp_path / "own.py")
    load_plugin(str(path))
    before = attacked()
    stored = before.to_json()
    forget()
    load_plugin(str(write(path, summary="Edited.")))
    after = attacked()
    assert after != before and after.identity != before.identity
    assert replace(before, seed=0) == after  # made anew, with the plug-in as it is now
    old = RunConfig.from_json(stored)
    assert old == before
    with pytest.raises(ConfigError, match=r"made with own.py \(\w{12}\), and here it would run wi"):
        build_task(old)


def test_unchanged_plugins_give_equal_configurations(tmp_path):
    path = write(tmp_path / "own.py")
    load_plugin(str(path))
    before = attacked()
    forget()
    load_plugin(str(write(tmp_path / "elsewhere" / "own.py")))  # moved, not edited
    assert attacked() == before == RunConfig.from_json(before.to_json())


def test_namesakes_in_two_folders(tmp_path):
    first, second = write(tmp_path / "a" / "own.py"), write(tmp_path / "b" / "own.py", name="other")
    load_plugin(str(first))
    load_plugin(str(second))
    assert find_attack("mine").source != find_attack("other").source
    names = {find_attack(name).entry.collude.__module__ for name in ("mine", "other")}
    assert len(names) == 2
    ATTACKS.remove("mine")
    ATTACKS.remove("other")
    plugins._loaded.clear()
    load_inherited()  # as in a child process
    assert {"mine", "other"} <= set(ATTACKS)


def test_a_package_is_digested_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "own_package" / "deep" / "attacks.py")
    for folder in ("own_package", "own_package/deep"):
        (tmp_path / folder / "__init__.py").write_text("")
    source = load_plugin("own_package.deep.attacks")
    files = list((tmp_path / "own_package").rglob("*.py"))
    assert source == ("own_package.deep.attacks", plugins.digest_of(files)) and len(files) == 3
    assert find_attack("mine").source == source


@pytest.mark.parametrize(
    "text, said",
    [
        (None, "own.py does not exist: give FILE.py or package.module"),
        ("raise ValueError('no luck')", "own.py cannot be loaded: ValueError: no luck (line "),
        ("import sys; sys.exit()", "own.py cannot be loaded: SystemExit"),
        ("def broken(", "own.py cannot be loaded: SyntaxError: "),
        ("import no_such_module", "own.py cannot be loaded: ModuleNotFoundError: No module named"),
        (ATTACK.format(name="nan", summary=""), "own.py: attack 'nan' exists already: choose anot"),
        (ATTACK.format(name="a:b", summary=""), "own.py: attack 'a:b' is not a name: use letters"),
    ],
)
def test_a_broken_plugin_is_refused_and_leaves_nothing(tmp_path, text, said):
    path = tmp_path / "own.py"
    before = dict(ATTACKS)
    if text is not None:
        path.write_text(ATTACK.format(name="mine", summary="") + text)
    for _ in range(2):  # the second attempt says the same
        with pytest.raises(ConfigError) as error:
            load_plugin(str(path))
        assert said in str(error.value) and len(str(error.value).splitlines()) == 1
    assert before == ATTACKS and plugins.VARIABLE not in os.environ
    load_plugin(str(write(path)))  # repaired
    assert "mine" in ATTACKS


@pytest.mark.parametrize("name", ["no_such_package", "no_such.module", "", "."])
def test_a_module_that_does_not_exist(name):
    with pytest.raises(ConfigError, match="cannot be found: give FILE.py or package.module"):
        load_plugin(name)


def test_what_a_script_registers_is_named_by_its_file():
    assert source_of(test_what_a_script_registers_is_named_by_its_file).name == "test_plugins.py"
    assert source_of(load_plugin) is None  # of the package itself
    there = {}
    exec("def typed(): return 1\ndef other(): return 2", there)
    assert source_of(there["typed"]).name == "interactive"
    assert source_of(there["typed"]) != source_of(there["other"])


def typed(text):
    """The source of ``it``, as if the text were typed into a notebook."""
    there = {"__name__": "__main__", "Task": Task, "np": np}
    there.update(cache=functools.lru_cache(maxsize=None), cached_property=functools.cached_property)
    exec(text, there)
    return source_of(there["it"])


@pytest.mark.parametrize(
    "text, edited",
    [
        ("def it(x): return sorted(x, key=lambda y: -y)", ("-y", "+y")),
        ("def it(x):\n def inner(y): return [z + 1 for z in y]\n return inner(x)", ("+ 1", "+ 2")),
        ("def it(x): return x in {'a', 'b', 'c', None}", ("'c'", "'d'")),
        ("class it(Task):\n def train(self): return 1", ("return 1", "return 2")),
        ("class it(Task):\n rate = 1\n def train(self): return self.rate", ("= 1", "= 2")),
        ("class it(Task):\n @property\n def rate(self): return lambda: 1", (": 1", ": 2")),
        ("class it(Task):\n @staticmethod\n def rate(): return 1", ("return 1", "return 2")),
        ("def it(x, y=2): return x + y", ("=2", "=3")),
        ("def it(x, *, y=2): return x + y", ("=2", "=3")),
        ("class it(Task):\n @cache\n def rate(): return 1", ("return 1", "return 2")),
        ("class it(Task):\n @cached_property\n def rate(self): return 1", ("urn 1", "urn 2")),
        ("class it(Task):\n rates = np.array([1, 2])", ("1, 2", "1, 3")),
        ("class Base(Task):\n def train(self): return 1\nclass it(Base): pass", ("1", "2")),
    ],
)
def test_what_a_notebook_defines_is_named_by_its_code(monkeypatch, text, edited):
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)  # as in a notebook
    kept = [typed(text) for _ in range(9)]  # code at nine addresses
    assert kept[0].name == "interactive" and set(kept) == {kept[0]}
    assert typed(text.replace(*edited)) != kept[0]


def test_the_order_of_a_set_of_words_is_not_part_of_a_digest():
    """It is another one in every process."""
    words = [f"word {number}" for number in range(99)]
    shown = plugins._show(frozenset(words))
    assert shown.count("word") == 99 and shown == f"frozenset({{{repr(sorted(words))[1:-1]}}})"


def test_the_digest_of_a_plain_function_is_that_of_earlier_versions():
    there = {}
    exec("def plain(x, y):\n 'Doc.'\n return x[..., 0] * (1, -2.5, b'c') in {3, 1, 10}", there)
    code = there["plain"].__code__
    text = repr((code.co_code, code.co_consts, code.co_names))
    assert source_of(there["plain"]).sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_a_stored_run_whose_plugin_is_missing(tmp_path):
    load_plugin(str(write(tmp_path / "own.py")))
    config = attacked()
    folder = tmp_path / "runs" / config.slug
    with RunFolder(folder, config):
        pass
    ATTACKS.remove("mine")
    said = "it needs --plugin with the path of own.py: attack='mine' is unknown"
    with pytest.raises(RunError, match=said):
        read_config(folder)
    plain = RunConfig()
    assert RunIndex(tmp_path / "runs").folder(plain) == tmp_path / "runs" / plain.slug  # skips it
    task = json.dumps({**json.loads(config.to_json()), "task": "theirs"})
    with pytest.raises(ConfigError, match="the path of own.py: task='theirs' is unknown"):
        RunConfig.from_json(task)
