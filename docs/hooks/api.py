"""The public interface as one page, from signatures and docstrings."""

import dataclasses
import inspect
import re
from functools import cached_property
from importlib import import_module

from docstrings import to_markdown

import slsgd_mx

GROUPS = {
    "Train": ("train", "preset", "RunConfig", "Cifar", "Lstm", "Images", "ArraysTask"),
    "Read and draw runs": ("load_run", "load_runs", "plot_runs", "verify_run"),
    "Rules and attacks on arrays": ("trimmed_mean", "aggregate", "poison", "ModelServer"),
    "Add your own": (
        *("load_plugin", "register_attack", "register_rule", "register_partition"),
        *("register_network", "register_task", "Task", "Sizes"),
    ),
}
# What these functions return or are given; import them from the module that is named.
OBJECTS = (
    *("runs.trainer:RunResult", "runs.records:Run", "runs.verify:Check", "core.server:Update"),
    *("attacks.collusion:Collusion", "attacks.context:AttackContext", "rules.rule:RuleContext"),
    *("registry:number", "registry:whole", "registry:one_of", "errors:SlsgdError"),
    *("errors:ConfigError", "errors:RunError", "errors:DivergedError", "errors:FailedError"),
)
PLAIN = ("Cifar", "Lstm", "Images")  # their methods are those of Sizes

INTRODUCTION = """# Python interface

Generated from the docstrings; their examples run as tests. Everything up to the last section is
imported from `slsgd_mx`, on first use, so that importing the package costs nothing.
"""


def api_page():
    """The page, in Markdown."""
    parts = [INTRODUCTION]
    grouped = {name for names in GROUPS.values() for name in names}
    groups = {**GROUPS, "Other": tuple(n for n in slsgd_mx.__all__ if n not in grouped)}
    for title, names in groups.items():
        if names:
            parts.append(f"## {title}\n")
            parts += [document(name, getattr(slsgd_mx, name)) for name in names]
    parts.append("## What they return, and what plug-ins are given\n")
    for place in OBJECTS:
        module, name = place.split(":")
        parts.append(document(name, getattr(import_module(f"slsgd_mx.{module}"), name), True))
    return "\n".join(parts)


def document(name, thing, home=False):
    """One function or class: its heading, signature, docstring and, of a class, its methods."""
    place = f"From `{thing.__module__}`.\n\n" if home else ""
    call = f"```python\n{name}{signature(thing)}\n```\n\n"
    parts = [f"### {name}\n\n{place}{call}{to_markdown(own_doc(thing))}\n"]
    if dataclasses.is_dataclass(thing) and "Parameters\n" not in thing.__doc__:
        parts += [f"- `{field}`: {words}" for field, words in commented_fields(thing)] + [""]
    if inspect.isclass(thing) and name not in PLAIN:
        for member, function in public_methods(thing):
            parts.append(f"#### {name}.{member}\n\n{describe_member(thing, member, function)}\n")
    return "\n".join(parts)


def own_doc(thing):
    """The docstring, unless it is the signature that dataclass writes."""
    text = thing.__doc__ or ""
    return "" if text.startswith(f"{thing.__name__}(") else text


def commented_fields(cls):
    """The fields of a dataclass that have a comment on their line, and the comment."""
    source = inspect.getsource(cls)
    found = re.findall(r"^    (\w+): .+?  # (.+)$", source, re.M)
    names = {field.name for field in dataclasses.fields(cls)}
    return [(name, words) for name, words in found if name in names]


def public_methods(cls):
    """Documented methods and properties of a class of this package, inherited ones included."""
    kinds = (type(public_methods), classmethod, staticmethod, property, cached_property)
    for member in sorted(name for name in dir(cls) if not name.startswith("_")):
        home = next(each for each in cls.__mro__ if member in vars(each))
        function = vars(home)[member]
        ours = home.__module__.startswith("slsgd_mx") and isinstance(function, kinds)
        if ours and doc_of(cls, member):
            yield member, function


def doc_of(cls, member):
    """The docstring of a member, or of the one that it overrides."""
    found = (vars(each)[member] for each in cls.__mro__ if member in vars(each))
    texts = (getattr(each, "__func__", each).__doc__ for each in found)
    return next((text for text in texts if text), None)


def describe_member(cls, member, function):
    """The signature and docstring of a method, or the docstring of a property."""
    text = to_markdown(doc_of(cls, member))
    if isinstance(function, (property, cached_property)):
        return f"Property. {text}"
    call = inspect.unwrap(getattr(function, "__func__", function))
    return f"```python\n{member}{signature(call, method=True)}\n```\n\n{text}"


def signature(thing, method=False):
    """The signature in the form of a call; one parameter a line if it is long."""
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return "(message)"
    found = inspect.signature(thing)
    parameters = list(found.parameters.values())[1 if method else 0 :]
    words = [show(each) for each in parameters]
    kind = found.return_annotation
    end = "" if kind in (inspect.Signature.empty, None, "None") else f" -> {show_type(kind)}"
    text = f"({', '.join(words)}){end}"
    if len(text) <= 80:
        return text
    return "(\n" + "".join(f"    {word},\n" for word in words) + f"){end}"


def show(parameter):
    """A parameter with its type and default, as it is written in the source."""
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind, default = parameter.annotation, parameter.default
    words = stars + parameter.name
    words += "" if kind is parameter.empty else f": {show_type(kind)}"
    if default is parameter.empty:
        return words
    written = "..." if str(default).startswith("<") else repr(default)
    return words + (f"={written}" if kind is parameter.empty else f" = {written}")


def show_type(kind):
    """A type in words: annotations are texts in most modules of the package."""
    return kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
