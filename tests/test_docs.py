"""What README, docs/ and the other pages promise: links, paths, commands and options exist."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

import slsgd_mx
from slsgd_mx.cli import main

ROOT = Path(slsgd_mx.__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "figures" / "README.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))
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
    calls = re.findall(r"slsgd-mx (?=[a-z])([^`#\n;'\")]*)", "\n".join(code_of(text)))
    return [shlex.split(call) for call in calls]


def code_of(text):
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return blocks + re.findall(r"^    .+", text, re.M) + re.findall(r"`([^`\n]+)`", text)


def find_unknown(words, group=main):
    """The first word of a call that is no command, subcommand or option; None if all are known."""
    command = group.get_command(click.Context(group), words[0])
    if command is None:
        return words[0]
    if isinstance(command, click.Group) and len(words) > 1 and words[1][0].isalpha():
        return find_unknown(words[1:], command)
    known = {option for parameter in command.params for option in parameter.opts}
    known |= {option for parameter in command.params for option in parameter.secondary_opts}
    for number, word in enumerate(words):
        if word == "--":
            return find_unknown(words[number + 1 :])
        if word.startswith("-") and word.split("=")[0] not in known | {"--help", "-h"}:
            return word
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_paths_commands_and_options_exist(page):
    assert find_missing(page) == []
    calls = find_calls(page.read_text(encoding="utf-8"))
    wrong = [(find_unknown(call), call) for call in calls]
    assert [pair for pair in wrong if pair[0]] == []


def test_the_readme_is_short_and_has_its_calls():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert all(line in text for line in ("make demo", "make test", "pip install"))
    assert len(find_calls(text)) >= 8


def test_the_checks_find_what_is_wrong(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("[a](https://x.org/y) [b](page.md#part) [c](gone.md) `slsgd_mx/gone/` `docs/`")
    assert find_missing(page) == [str(tmp_path / "gone.md"), str(ROOT / "slsgd_mx" / "gone")]
    text = "`slsgd-mx cifar --b 2`\n\n    slsgd-mx launch --workers 2 -- lstm --no-such 1  # x\n"
    assert find_calls(text) == [
        ["launch", "--workers", "2", "--", "lstm", "--no-such", "1"],
        ["cifar", "--b", "2"],
    ]
    assert [find_unknown(call) for call in find_calls(text)] == ["--no-such", None]
    assert find_unknown(["no-such", "--b"]) == "no-such"
    assert find_unknown(["data", "no-such"]) == "no-such"


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
