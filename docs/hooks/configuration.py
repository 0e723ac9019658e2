"""The configuration of a run: its fields next to the paper's symbols, and the presets' values."""

import dataclasses

from commands import code, escape
from docstrings import inline, split_entries, split_sections

from slsgd_mx import Cifar, Images, Lstm, RunConfig
from slsgd_mx.attacks import ATTACKS
from slsgd_mx.cli.options import OPTIONS
from slsgd_mx.partitions import PARTITIONS
from slsgd_mx.presets import NAMES, PRESETS
from slsgd_mx.registry import show
from slsgd_mx.rules import PRE_AGGREGATIONS, RULES
from slsgd_mx.workloads import NETWORKS

# The paper's symbol of each field that has one.
SYMBOLS = {
    "n": "n", "k": "k", "b": "b", "q": "q", "gamma": "γ", "alpha": "α", "alpha_schedule": "α_t",
    "epochs": "T", "passes": "H_t^i", "local_steps": "H_t^i", "selection": "S_t", "warm_up": "x_0",
    "rule": "Option I, II",
}  # fmt: skip

INTRODUCTION = """# Configuration

A run is described by one frozen object, `slsgd_mx.RunConfig`, which is stored as `config.json` in
the run folder. Generated from its docstring, the options of the commands and the presets.
"""
SIZES = {
    "cifar": ("Sizes of the CNN's workload (`cifar`)", Cifar, "image"),
    "lstm": ("Sizes of the language model's workload (`lstm`)", Lstm, "text"),
    "images": ("Sizes of your own images (`train images`)", Images, "image"),
}


def configuration_page():
    """The page, in Markdown."""
    parts = [INTRODUCTION, "## Symbols\n", symbol_table()]
    for title, sizes, prefix in SIZES.values():
        parts += [f"\n## {title}\n", sizes_table(sizes, prefix)]
    parts += ["\n## Presets\n", preset_table()]
    parts += ["\n## Names\n", NAMES_TEXT]
    for title, registry in REGISTRIES.items():
        parts += [f"\n### {title}\n", registry_table(registry)]
    return "\n".join(parts)


def described(cls):
    """What a class's docstring says about each of its fields."""
    entries = split_entries(split_sections(cls.__doc__).get("Parameters", ""))
    return {
        name.strip(): " ".join(inline(words).split())
        for names, _, words in entries
        for name in names.split(",")
    }


def flag(field, prefix=""):
    """The option that sets a field, if there is one."""
    for name in (field, f"{prefix}_{field}"):
        if name in OPTIONS:
            return code(OPTIONS[name][0][0])
    return ""


def default_of(field):
    """A field's default as it is written in Python."""
    return "" if field.default is dataclasses.MISSING else code(repr(field.default))


def symbol_table():
    words = described(RunConfig)
    rows = ["| paper | field | option | default | meaning |", "| --- | --- | --- | --- | --- |"]
    for field in dataclasses.fields(RunConfig):
        cells = (SYMBOLS.get(field.name, ""), code(field.name), flag(field.name))
        rows.append(f"| {' | '.join([*cells, default_of(field), words[field.name]])} |")
    return "\n".join(rows)


def sizes_table(cls, prefix):
    words = described(cls)
    rows = ["| field | option | default | meaning |", "| --- | --- | --- | --- |"]
    for field in dataclasses.fields(cls):
        cells = (code(field.name), flag(field.name, prefix), default_of(field), words[field.name])
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def preset_table():
    """The values of the presets, as far as they differ from each other."""
    columns = [(task, name) for task in PRESETS for name in NAMES]
    values = {each: flatten(PRESETS[each[0]][each[1]]) for each in columns}
    names = list(dict.fromkeys(name for found in values.values() for name in found))
    rows = ["| field | " + " | ".join(f"{task} {name}" for task, name in columns) + " |"]
    rows.append("| --- " * (len(columns) + 1) + "|")
    for name in names:
        cells = [str(values[each].get(name, "")) for each in columns]
        if len(set(cells)) > 1:
            rows.append(f"| {code(name)} | {' | '.join(map(escape, cells))} |")
    return "\n".join(rows)


def flatten(config):
    """Every value of a configuration, those of its sizes included."""
    values = config.to_dict()
    return {**{k: v for k, v in values.items() if k not in ("sizes", "task")}, **values["sizes"]}


NAMES_TEXT = """`NAME:key=value,...` chooses one of these and its parameters. The definitions are in
[conformance.md](../conformance.md); plug-ins add their own ([extending.md](../extending.md))."""
REGISTRIES = {
    "Rules": RULES,
    "Pre-aggregations": PRE_AGGREGATIONS,
    "Attacks and faults": ATTACKS,
    "Partitions": PARTITIONS,
    "Networks": NETWORKS,
}


def registry_table(registry):
    rows = ["| name | parameters and defaults | what it does |", "| --- | --- | --- |"]
    for name, entry in registry.items():
        known = [f"{key}={default(each)}" for key, each in entry.parameters.items()]
        cells = (code(name), code(", ".join(known)) if known else "", escape(entry.summary))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def default(parameter):
    """A parameter's default; some follow from k, b and q."""
    return "auto" if parameter.default is None else show(parameter.default)
