"""What README, docs/ and the other pages promise: links, paths, commands and options exist."""

import gzip
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from helpers.blocks import python_blocks

import slsgd_mx
from slsgd_mx.cli import main
from slsgd_mx.errors import SlsgdError
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.variants import Variant, runs_of
from slsgd_mx.sweeps.plan import make_plan

ROOT = Path(slsgd_mx.__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "figures" / "README.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))
WRONG_ON_PURPOSE = {  # a page shows what the command says
    "cifar --preset smoke --q 2 --plugin my_attack.py --attack backward:steps=4"
}
TOP = "slsgd_mx|tests|docs|examples|experiments|benchmarks|figures"


def find_missing(page):
    """Targets of relative links, and paths in code spans, that do not exist."""
    text = page.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    paths = re.findall(rf"`((?:{TOP})/[a-z0-9_./-]*)`", text)
    targets = [page.parent / link for link in links] + [ROOT / path for path in paths]
    return [str(target) for target in targets if not target.exists()]


def find_calls(text):
    """``slsgd-mx`` calls of a page, in code blocks and code spans, as lists of words."""
    text = re.sub(r"\\\n\s*", " ", text)
    quoted_or_plain = r"""(?:"[^"\n]*"|'[^'\n]*'|[^`#\n;|'")])*"""
    calls = re.findall(rf"slsgd-mx (?=[a-z])({quoted_or_plain})", "\n".join(code_of(text)))
    return [shlex.split(call) for call in calls]


def code_of(text):
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return blocks + re.findall(r"^    .+", text, re.M) + re.findall(r"`([^`\n]+)`", text)


def parse(words, group=main, parent=None):
    """Parse a call like the command line, values of options included; raises what that raises."""
    context = click.Context(group, parent=parent, **main.context_settings)
    command = group.get_command(context, words[0])
    if command is None:
        raise click.UsageError(f"{words[0]} is no command")
    if isinstance(command, click.Group) and len(words) > 1 and words[1][0].isalpha():
        return parse(words[1:], command, context)
    if not isinstance(command, click.Group):
        command.make_context(words[0], list(words[1:]), context)
    if "--" in words:
        parse(words[words.index("--") + 1 :])


def find_wrong(text):
    """The calls of a page that the command line refuses, with its words.

    A variable of the shell counts as 1, three dots stand for options, and capital letters for a
    name that the reader chooses.
    """
    wrong = []
    for call in find_calls(text):
        words = [re.sub(r"\$\{?\w+\}?", "1", word) for word in call if word != "..."]
        try:
            parse(words)
        except (click.ClickException, SlsgdError) as error:
            wrong.append((" ".join(words), str(error)))
        except click.exceptions.Exit:  # --help
            pass
    return wrong


def find_missing_targets(text):
    """Targets of make, extras of pip, scripts and modules in a page that do not exist."""
    code = "\n".join(code_of(text))
    makefile, setup = (ROOT / "Makefile").read_text(), (ROOT / "setup.py").read_text()
    known = set(re.findall(r"^([a-z]+):", makefile, re.M))
    missing = set(re.findall(r"^\s*make ([a-z]+)", code, re.M)) - known
    missing |= {x for x in re.findall(r"slsgd-mx\[(\w+)\]", code) if f'"{x}": ' not in setup}
    missing |= {x for x in re.findall(r"experiments/\w+\.sh", code) if not (ROOT / x).exists()}
    modules = re.findall(r"python -m ((?:slsgd_mx|benchmarks)[\w.]*)", code)
    return [*missing, *(name for name in modules if importlib.util.find_spec(name) is None)]


def headings(text):
    """The anchors of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def find_missing_anchors(page):
    """Links to a part of a page that has no such heading."""
    links = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    own = [
        (page.parent / name if name else page, part) for name, part in links if "://" not in name
    ]
    return [part for target, part in own if part not in headings(target.read_text("utf-8"))]


@pytest.fixture
def shown_files(tmp_path, monkeypatch, fresh_plugins):
    """Be in a folder that has the files which pages name but the reader writes."""
    for name in ("examples", "figures"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "my_attack.py").write_text(python_blocks("fifteen-minutes.md")[0])
    (workload,) = [text for text in python_blocks("extending.md") if "mean-of-points" in text]
    (tmp_path / "FILE.py").write_text(workload)
    (tmp_path / "my.npz").touch()
    for name in ("flips.tar.gz", "results.tar.gz"):  # archives without runs
        (tmp_path / name).write_bytes(gzip.compress(bytes(1024)))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_paths_commands_options_and_their_values_exist(page, shown_files):
    text = page.read_text(encoding="utf-8")
    assert find_missing(page) == find_missing_anchors(page) == find_missing_targets(text) == []
    assert [call for call, why in find_wrong(text) if call not in WRONG_ON_PURPOSE] == []


def test_the_readme_is_short_and_has_its_calls():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert all(line in text for line in ("make demo", "make test", "pip install"))
    assert len(find_calls(text)) >= 8


def test_the_first_page_links_to_every_other():
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages - set(re.findall(r"\]\(([\w-]+\.md)\)", text)) == set()


def test_the_checks_find_what_is_wrong(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("[a](https://x.org/y) [b](page.md#part) [c](gone.md) `slsgd_mx/gone/` `docs/`")
    assert find_missing(page) == [str(tmp_path / "gone.md"), str(ROOT / "slsgd_mx" / "gone")]
    text = "`slsgd-mx cifar --b 2`\n\n    slsgd-mx launch --workers 2 -- lstm --no-such 1  # x\n"
    assert find_calls(text) == [
        ["launch", "--workers", "2", "--", "lstm", "--no-such", "1"],
        ["cifar", "--b", "2"],
    ]
    assert [why for _, why in find_wrong(text)] == ["No such option '--no-such'."]
    calls = ["no-such --b", "data no-such", "cifar --b two", "launch -- lstm --attack no-such"]
    wrong = find_wrong("".join(f"`slsgd-mx {call}`\n" for call in calls))
    assert [call for call, _ in wrong] == calls
    assert find_wrong('`slsgd-mx runs --where "width<$X" ... | less`, `slsgd-mx cifar -h`') == []
    assert find_missing_targets("`make no`, `make test`, `slsgd-mx[tensorboard]`") == ["no"]
    assert find_missing_targets("`slsgd-mx[no]`, `python -m slsgd_mx.no`") == ["no", "slsgd_mx.no"]
    page.write_text("## The `one` part\n[a](#the-one-part) [b](page.md#gone)")
    assert find_missing_anchors(page) == ["gone"]


def test_the_page_of_costs_has_the_plan_of_the_laptop_preset(tmp_path):
    text = (ROOT / "docs" / "costs.md").read_text(encoding="utf-8")
    laptop = Variant("laptop", {})
    wanted = {name: runs_of(figure, laptop) for name, figure in FIGURES.items()}
    runs = {run for group in wanted.values() for run in group}
    assert f"plans {len(runs)} runs with {make_plan(wanted, tmp_path).epochs:,} epochs" in text
    for name in ("fig5", "fig6"):
        epochs = make_plan({name: wanted[name]}, tmp_path).epochs
        assert re.search(rf"^\| Figure {name[3:]}.* \| {epochs:,} \|", text, re.M)
    fewer = Variant("laptop", {}, repeats=1, at=(0.6, 1.0))
    wanted = {name: runs_of(figure, fewer) for name, figure in FIGURES.items()}
    assert f"now it plans {make_plan(wanted, tmp_path).epochs:,} " in text


@pytest.mark.parametrize("page", ["README.md", "docs/reference.md", "docs/runs.md"])
def test_python_examples_run(page, tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + re.sub(
        r"epochs=\d+", "epochs=1, eval_every=1", code
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"0\.\d+\n$", done.stdout)
