"""NumPy-style docstrings as Markdown."""

import inspect
import re

SECTIONS = ("Parameters", "Attributes", "Returns", "Raises", "Examples", "Notes", "See Also")


def split_sections(text):
    """The sections of a docstring by name; what comes before the first one is under "".

    >>> split_sections("One.\\n\\nRaises\\n------\\nError\\n    Why.")
    {'': 'One.', 'Raises': 'Error\\n    Why.'}
    """
    heading = rf"^({'|'.join(SECTIONS)})\n-+$"
    parts = re.split(heading, inspect.cleandoc(text or ""), flags=re.M)
    return {"": parts[0].strip(), **{n: t.strip() for n, t in zip(parts[1::2], parts[2::2])}}


def split_entries(text):
    """The entries of a section as triples of name, type and description.

    >>> split_entries("k : int\\n    Slots.\\nError")
    [('k', 'int', 'Slots.'), ('Error', '', '')]
    """
    found = re.findall(r"^(\S.*)\n?((?:(?:[ \t].*)?(?:\n|\Z))*)", text, re.M)
    entries = []
    for head, body in found:
        name, _, kind = head.partition(" : ")
        entries.append((name.strip(), kind.strip(), inspect.cleandoc(body)))
    return entries


def inline(text):
    """Running text: double backticks become Markdown's single ones, line breaks are kept."""
    return re.sub(r"``(.+?)``", r"`\1`", text, flags=re.S)


def mark_examples(text):
    """Fence every run of lines that begins with a prompt, up to the next blank line.

    >>> mark_examples("See:\\n\\n>>> 1 + 1\\n2\\n\\nEnd.")
    'See:\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```\\n\\nEnd.'
    """
    blocks = re.split(r"\n\s*\n", text)
    made = [f"```pycon\n{b}\n```" if b.startswith(">>>") else inline(b) for b in blocks]
    return "\n\n".join(made)


def to_markdown(text):
    """A whole docstring; sections become small headings with lists."""
    sections = split_sections(text)
    parts = [mark_examples(sections.pop(""))]
    for name, body in sections.items():
        parts.append(f"**{name}**")
        if name in ("Examples", "Notes", "See Also"):
            parts.append(mark_examples(body))
            continue
        for head, kind, words in split_entries(body):
            shown = ", ".join(f"`{each}`" for each in head.split(", "))
            kind = f" ({inline(kind)})" if kind else ""
            words = " ".join(inline(words).split())
            parts.append(f"- {shown}{kind}{': ' + words if words else ''}")
    return join(parts)


def join(parts):
    """Paragraphs separated by blank lines, items of a list by none."""
    text = "\n\n".join(part for part in parts if part)
    return re.sub(r"^(- .*)\n\n(?=- )", r"\1\n", text, flags=re.M)
