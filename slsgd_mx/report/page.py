"""The page: data, style, program and plotting library in one file."""

from __future__ import annotations

import html
import json
from pathlib import Path
from string import Template
from typing import Any, Dict

from slsgd_mx.errors import ConfigError, RunError
from slsgd_mx.report.ledger import ABSENT, ledger_html
from slsgd_mx.report.sources import Request, gather
from slsgd_mx.system.files import disk_errors, read_text, write_atomically

ASSETS = Path(__file__).resolve().parent / "assets"
INSTALL = 'the report needs Plotly and Markdown: pip install "slsgd-mx[report]"'
TITLE = "SLSGD: report"


def require_extra() -> None:
    """Raise a ConfigError if the libraries of the extra are not installed."""
    try:
        import markdown  # noqa: F401
        import plotly.offline  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"{INSTALL} ({error})") from error


def write_report(path: Path, request: Request) -> Dict[str, Any]:
    """Gather what the request names and write the page; return its data."""
    data = gather(request)
    if request.archive is not None:
        copy, archive = (json.dumps(str(name))[1:-1] for name in (request.runs, request.archive))
        data = json.loads(json.dumps(data).replace(copy, archive))
    if path.is_dir():
        raise RunError(f"{path} is a folder, and a file is needed: name another with --html")
    with disk_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, to_html(data).encode("utf-8", "replace"))
    return data


def to_html(data: Dict[str, Any]) -> str:
    """The whole page."""
    from plotly.offline import get_plotlyjs

    ledger = ledger_html()
    programs = [read_text(path) for path in sorted(ASSETS.glob("*.js"))]
    return Template(read_text(ASSETS / "page.html")).substitute(
        title=html.escape(TITLE),
        version=html.escape(data["version"]),
        written=html.escape(data["written"]),
        style=read_text(ASSETS / "report.css"),
        ledger=ledger if ledger is not None else f"<p>{html.escape(ABSENT)}</p>",
        data=to_script(data),
        program='(() => {\n"use strict";\n' + "\n".join(programs) + "\n})();",
        plotly=get_plotlyjs().replace("</script", "<\\/script"),
    )


def to_script(data: Any) -> str:
    """JSON that no text can end: the signs that mean something in HTML are escaped.

    >>> to_script({"folder": "</script><b>&"})
    '{"folder":"\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e\\\\u0026"}'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
