"""The ledger of differences between paper and code, docs/paper-vs-code.md, as HTML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Optional

from slsgd_mx.system.files import read_text

NAME = "paper-vs-code.md"
ABSENT = (
    "The ledger of differences between the paper and its code is docs/paper-vs-code.md of the "
    "repository; this installation does not have it."
)


def ledger_html() -> Optional[str]:
    """The ledger; None if neither the package nor a checkout around it has it."""
    text = find_text()
    return None if text is None else to_html(text)


def find_text() -> Optional[str]:
    """The ledger in the checkout; in a wheel, the copy that setup.py puts next to this file."""
    here = Path(__file__).resolve()
    for path in (here.parents[2] / "docs" / NAME, here.parent / NAME):
        if path.is_file():
            return read_text(path)
    return None


def to_html(text: str) -> str:
    """Markdown as HTML: tags in the text stay text, and only links to the web remain links."""
    from markdown import Markdown

    reader = Markdown(extensions=["tables"])
    reader.preprocessors.deregister("html_block")
    reader.inlinePatterns.deregister("html")
    page = reader.convert(re.sub(r"\A# .*\n", "", text))
    page = re.sub(r'<img [^>]*alt="([^"]*)"[^>]*>', r"\1", page)
    page = re.sub(r'<a (?:[^>]*?)href="(?!https?://)[^"]*"[^>]*>(.*?)</a>', r"\1", page, flags=re.S)
    page = re.sub(r"<(/?)h(\d)", lambda m: f"<{m.group(1)}h{min(6, int(m.group(2)) + 1)}", page)
    return page.replace("<table>", '<div class="wide"><table>').replace(
        "</table>", "</table></div>"
    )
