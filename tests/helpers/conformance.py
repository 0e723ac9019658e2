"""docs/conformance.md: its text and its table of rules."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"
TEXT = PAGE.read_text(encoding="utf-8")


def read_rules():
    """``{rule: {column: cell}}`` of the first table that has a column "breaks at"."""
    lines = [line for line in TEXT.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    start = next(place for place, row in enumerate(cells) if "breaks at" in row)
    rows = {}
    for row in cells[start + 2 :]:
        if len(row) != len(cells[start]):
            break
        rows[row[0].strip("`")] = dict(zip(cells[start], row))
    return rows
