"""Every command of slsgd-mx as one page, from the help that click has."""

import html
import inspect
import re

import click

from slsgd_mx.cli import main

INTRODUCTION = """# Commands

Generated from the help of the commands: `slsgd-mx COMMAND --help` says the same. Where an option
is not given, the preset's value holds.
"""


def command_page():
    """The page, in Markdown."""
    parts, shown = [INTRODUCTION], {"": ""}  # table -> the command that has it
    for path, command, context in walk(main, "slsgd-mx", None):
        table = option_table(command, context)
        parts.append(describe(path, command, context))
        same = shown.setdefault(table, path)
        link = f"Its options are those of [{same}](#{same.replace(' ', '-')}).\n" if same else ""
        parts.append(table if same == path else link)
    return "\n".join(parts)


def walk(command, name, parent):
    """Each command below a group with its full name and context, groups before their members."""
    context = click.Context(command, info_name=name.split()[-1], parent=parent)
    if parent is not None:
        yield name, command, context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            yield from walk(command.get_command(context, each), f"{name} {each}", context)


def describe(path, command, context):
    """A heading, the usage and the help text of one command."""
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    level = "#" * min(path.count(" ") + 1, 3)
    help_text = as_markdown(inspect.cleandoc(command.help or command.short_help or ""))
    return f"{level} {path}\n\n```text\n{usage}\n```\n\n{help_text}\n"


def as_markdown(text):
    r"""Help text with click's marks, ``\b`` before a block that keeps its lines, as Markdown.

    >>> as_markdown("One.\n\n\b\nslsgd-mx a\nslsgd-mx b")
    'One.\n\n```text\nslsgd-mx a\nslsgd-mx b\n```'
    """
    blocks = []
    for block in re.split(r"\n\s*\n", text.split("\f")[0]):
        if block.startswith("\b"):
            block = f"```text\n{inspect.cleandoc(block[1:])}\n```"
        else:
            block = escape(block)
        blocks.append(block)
    return "\n\n".join(blocks)


def option_table(command, context):
    """The options of a command; empty if it has none but --help."""
    records = [option.get_help_record(context) for option in command.get_params(context)]
    records = [each for each in records if each and "--help" not in each[0]]
    if not records:
        return ""
    rows = [f"| {code(flags)} | {escape(' '.join(words.split()))} |" for flags, words in records]
    return "\n".join(["| option | meaning |", "| --- | --- |", *rows, ""])


def code(text):
    """A code span that may stand in a table."""
    return f"<code>{escape(text)}</code>"


def escape(text):
    """Text without marks of Markdown, HTML or tables."""
    text = html.escape(text, quote=False)
    return re.sub(r"[|*_`\[\]]", lambda mark: f"&#{ord(mark.group())};", text)
