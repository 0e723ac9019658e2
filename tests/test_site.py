"""The documentation: its generated pages are complete, and the site is built without warnings."""

import doctest
import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import slsgd_mx
from slsgd_mx.cli import COMMANDS
from slsgd_mx.core.algorithm import run_epoch

ROOT = Path(slsgd_mx.__file__).resolve().parent.parent
HOOKS = ROOT / "docs" / "hooks"
sys.path.insert(0, str(HOOKS))

from api import api_page  # noqa: E402
from commands import command_page, escape, walk  # noqa: E402
from configuration import configuration_page  # noqa: E402
from docstrings import split_entries, split_sections  # noqa: E402
from repository import Repository  # noqa: E402

PUBLIC = slsgd_mx.__all__


# ---- what is generated -----------------------------------------------------------------------


def test_the_page_of_commands_names_every_command_and_subcommand():
    page = command_page()
    headings = re.findall(r"^##+ slsgd-mx (.+)$", page, re.M)
    assert [name for name in headings if " " not in name] == list(COMMANDS)
    assert {"runs compare", "data fetch", "dist worker"} <= set(headings)


def test_every_option_of_every_command_is_on_the_page():
    from slsgd_mx.cli import main

    sections = {
        text.split("\n")[0]: text for text in re.split(r"^##+ ", command_page(), flags=re.M)
    }
    for path, command, _ in walk(main, "slsgd-mx", None):
        same = re.search(r"^Its options are those of \[(.+?)\]", sections[path], re.M)
        section = sections[same.group(1) if same else path]
        for option in command.params:
            if option.param_type_name == "option" and not option.hidden:
                assert f"<code>{escape(option.opts[0])}" in section, path


def test_the_python_page_names_every_public_name():
    headings = re.findall(r"^### (\w+)$", api_page(), re.M)
    assert set(PUBLIC) <= set(headings)
    assert "## Other" not in api_page()  # every public name belongs to a section


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_docstring_has_every_parameter_and_an_example(name):
    thing = getattr(slsgd_mx, name)
    sections = split_sections(thing.__doc__)
    assert sections[""] and ">>> " in sections["Examples"]
    known = {
        word.strip().lstrip("*")
        for section in ("Parameters", "Attributes")
        for names, _, _ in split_entries(sections.get(section, ""))
        for word in names.split(",")
    }
    parameters = inspect.signature(thing).parameters
    own = {"values", "fields"} if name == "RunConfig" else set()  # it accepts 0.1.0's names as well
    assert set(parameters) - own <= known


def test_the_configuration_has_every_field_and_the_papers_symbols():
    page = configuration_page()
    for symbol, field, option in (
        ("n", "n", "-n"),
        ("T", "epochs", "--epochs"),
        ("γ", "gamma", ""),
    ):
        assert f"| {symbol} | <code>{field}</code> | <code>{option or '--gamma'}</code> |" in page
    assert "<code>trimmed-mean</code>" in page and "<code>label-flip</code>" in page


@pytest.mark.parametrize("module", ["cells", "commands", "docstrings", "repository"])
def test_examples_of_the_hooks(module):
    result = doctest.testmod(import_module(module))
    assert result.attempted > 0 and result.failed == 0


def test_links_lead_to_the_places_of_files_in_the_site(tmp_path):
    for name in ("docs/a.md", "figures/README.md", "figures/x.png", "code.py", "examples/one.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    here = Repository(tmp_path)
    text = (
        "[r](../figures/README.md#top) [c](../code.py) [e](../examples) [b](b.md) [w](https://x.y)"
    )
    assert here.targets(text, "a.md") == ["figures/README.md", "code.py", "examples"]
    assert here.rewrite(text, "a.md") == (
        "[r](repository/figures/README.md#top) [c](repository/code.py.md) "
        "[e](repository/examples.md) [b](b.md) [w](https://x.y)"
    )
    back = "[d](../docs/a.md) ![x](x.png) [c](../code.py)"
    place = "repository/figures/README.md"
    assert here.rewrite(back, place) == "[d](../../a.md) ![x](x.png) [c](../code.py.md)"
    assert here.rewrite(here.page("examples"), "repository/examples.md") == (
        "# examples/\n\n- [one.py](examples/one.py.md)\n"
    )


def test_the_page_of_algorithm_1_shows_the_code():
    text = (ROOT / "docs" / "algorithm.md").read_text(encoding="utf-8")
    assert f"```python\n{inspect.getsource(run_epoch)}```" in text


# ---- the site --------------------------------------------------------------------------------


class Links(HTMLParser):
    """What a page links to or loads, and its anchors."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag in ("script", "img", "iframe", "source") and values.get("src"):
            self.loaded.append(values["src"])
        elif tag == "link" and values.get("href"):
            self.loaded.append(values["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material", reason='the site needs pip install "slsgd-mx[docs]"')
    home = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(home)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # Material announces another generator
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return home


def test_every_link_of_the_site_leads_somewhere(site):
    pages = {
        path.resolve(): Links(path) for path in site.rglob("*.html") if path.name != "404.html"
    }
    assert len(pages) > 20
    broken = []
    for path, page in pages.items():
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            there = target.is_file() and (not anchor or anchor in pages[target].anchors)
            broken += [] if there else [f"{path.name}: {link}"]
    assert broken == []


def test_the_site_loads_nothing_from_the_network(site):
    for path in site.rglob("*.html"):
        outside = [link for link in Links(path).loaded if urlsplit(link).netloc]
        assert outside == [], path.name
    for path in site.rglob("*.css"):
        assert not re.findall(r"url\([\"']?(?:https?:)?//", path.read_text(encoding="utf-8")), path


def test_the_site_has_the_generated_pages_and_the_notebook(site):
    text = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert all(f'id="{name.lower()}"' in text for name in PUBLIC)
    text = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert all(f'id="slsgd-mx-{name}"' in text for name in COMMANDS)
    assert "notebook-1.png" in (site / "notebook.html").read_text(encoding="utf-8")
    assert (site / "repository" / "figures" / "index.html").exists()
