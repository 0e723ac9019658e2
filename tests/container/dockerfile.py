"""Read a Dockerfile, as far as this project's one goes."""

import json
import re
import shlex
from dataclasses import dataclass, field
from typing import Dict, List, Tuple


@dataclass
class Stage:
    """One FROM and what follows it: steps to execute, and how the result is run."""

    base: str
    name: str
    steps: List[Tuple[str, str]] = field(default_factory=list)  # ("RUN" or "COPY" ..., its text)
    entry: List[str] = field(default_factory=list)
    command: List[str] = field(default_factory=list)


def read_lines(text):
    """Instructions as pairs of name and argument; comments dropped, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.M)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [tuple(line.strip().split(None, 1)) for line in lines if line.strip()]


def read_stages(text):
    """The stages of a Dockerfile, in order.

    >>> (one,) = read_stages('FROM debian AS a\\nRUN echo \\\\\\n  hello\\nCMD ["demo"]')
    >>> one.base, one.name, one.steps, one.command
    ('debian', 'a', [('RUN', 'echo    hello')], ['demo'])
    """
    stages = []
    for name, rest in read_lines(text):
        if name == "FROM":
            base, _, alias = rest.partition(" AS ")
            stages.append(Stage(base, alias or str(len(stages))))
        elif name == "ENTRYPOINT":
            stages[-1].entry = json.loads(rest)
        elif name == "CMD":
            stages[-1].command = json.loads(rest)
        elif name in ("RUN", "COPY", "ENV", "WORKDIR", "USER"):
            stages[-1].steps.append((name, rest))
        else:
            raise ValueError(f"{name} is not one of the instructions that this script knows")
    return stages


def read_variables(rest) -> Dict[str, str]:
    """The variables of an ENV instruction."""
    return dict(word.split("=", 1) for word in shlex.split(rest))


def read_copy(rest):
    """The stage that a COPY instruction reads ("": the build context), its sources and its target.

    >>> read_copy("--from=build /a /b"), read_copy("x y ./")
    (('build', ['/a'], '/b'), ('', ['x', 'y'], './'))
    """
    words = rest.split()
    stage = words.pop(0)[len("--from=") :] if words[0].startswith("--from=") else ""
    return stage, words[:-1], words[-1]
