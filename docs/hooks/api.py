"""The public interface as one page, from signatures and docstrings."""

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
    if inspect.isclass(thing):
        for member, function in public_methods(thing):
            parts.append(f"#### {name}.{member}\n\n{describe_member(member, function)}\n")
    return "\n".join(parts)


def own_doc(thing):
    """The docstring, unless it is the signature that dataclass writes."""
    text = thing.__doc__ or ""
    return "" if text.startswith(f"{thing.__name__}(") else text


def public_methods(cls):
    """Documented methods and properties of a class of this package, inherited ones included."""
    kinds = (type(public_methods), classmethod, staticmethod, property, cached_property)
    for member in sorted(name for name in dir(cls) if not name.startswith("_")):
        home = next(each for each in cls.__mro__ if member in vars(each))
        function = vars(home)[member]
        ours = home.__module__.startswith("slsgd_mx") and isinstance(function, kinds)
        if ours and getattr(function, "__func__", function).__doc__:
            yield member, function


def describe_member(member, function):
    """The signature and docstring of a method, or the docstring of a property."""
    text = to_markdown(getattr(function, "__func__", function).__doc__)
    if isinstance(function, (property, cached_property)):
        return f"Property. {text}"
    call = inspect.unwrap(getattr(function, "__func__", function))
    return f"```python\n{member}{signature(call, method=True)}\n```\n\n{text}"


def signature(thing, method=False):
    """The signature in the form of a call, without quotation marks around types."""
    try:
        found = inspect.signature(thing)
    except ValueError:  # a class without a constructor of its own
        return ""
    parameters = list(found.parameters.values())[1 if method else 0 :]
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return "(message)"
    words = [re.sub(r"'([^']*)'(?= =|$)", r"\1", str(each)) for each in parameters]
    words = [re.sub(r"(?<=: )'([^']*)'", r"\1", word) for word in words]
    end = ""
    if found.return_annotation not in (inspect.Signature.empty, None, "None"):
        kind = found.return_annotation
        end = f" -> {kind if isinstance(kind, str) else getattr(kind, '__name__', kind)}"
    text = f"({', '.join(words)}){end}"
    if len(text) <= 80:
        return text
    return "(\n" + "".join(f"    {word},\n" for word in words) + f"){end}"
