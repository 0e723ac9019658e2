"""Imports follow the table in CONTRIBUTING.md, whose order leaves no cycles between packages."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = {"__init__", "__main__", "_moved"}  # of slsgd_mx itself: they may import everything


def read_table(text):
    """``{package: packages it may import}``, from the table under "Who may import whom"."""
    section = text.split("## Who may import whom\n", 1)[1].split("\n## ", 1)[0]
    allowed = {}
    for packages, imports in re.findall(r"^\| (`.+?) \| (.+?) \|$", section, re.M):
        named = set(re.findall(r"`(\w+)`", imports))
        if imports.startswith("all above"):
            named = set(allowed) - named
        assert named <= set(allowed), f"{packages} may import only packages above it"
        allowed.update(dict.fromkeys(re.findall(r"`(\w+)`", packages), named))
    return allowed


def package_of(module):
    """The row of the table that a dotted name inside slsgd_mx belongs to."""
    first, *rest = module.split(".")[1:] or [""]
    return "sizes" if first == "tasks" and "sizes" in rest[:2] else first


def imported_names(tree):
    """Dotted names a module imports: at the top, inside functions and for type checkers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            where = "." * node.level + (node.module or "")
            yield from (f"{where}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and "import_module" in vars(node.func).values():
            yield str(getattr(node.args[0], "value", ""))


def find_imports(root):
    """``{(package, imported package): a module that does so}`` of a tree of slsgd_mx."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        module = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        package = package_of(module)
        if package in PUBLIC:
            continue
        for name in imported_names(ast.parse(path.read_text(encoding="utf-8"))):
            if name.startswith("."):
                found[package, "a relative name"] = module
            elif name.split(".")[0] == "slsgd_mx" and name != "slsgd_mx.__version__":
                found[package, package_of(name) or "the public interface"] = module
    return {pair: module for pair, module in found.items() if pair[0] != pair[1]}


def find_violations(imports, allowed):
    """A sentence for each import that the table does not allow."""
    return [
        f"{package} must not import {imported} ({module})"
        for (package, imported), module in sorted(imports.items())
        if imported not in allowed.get(package, ())
    ]


def test_every_package_has_a_row_and_imports_follow_the_table():
    allowed = read_table((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    packages = {
        package_of(f"slsgd_mx.{path.stem}")
        for path in (ROOT / "slsgd_mx").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert packages - PUBLIC <= set(allowed)
    assert find_violations(find_imports(ROOT / "slsgd_mx"), allowed) == []


def test_the_public_interface_does_not_import_mxnet():
    """A plug-in may import any of its names before the command sets the number of threads."""
    code = "import sys; from slsgd_mx import *; assert 'mxnet' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


# ---------------------------------------------------------------------------- the checker itself

TABLE = """
## Who may import whom

| package | may import |
| --- | --- |
| `errors`, `data` | nothing |
| `sizes` | `errors` |
| `core` | all above except `data` |
| `tasks` | all above |

## Next
| `ignored` | nothing |
"""


def plant(folder, **sources):
    """A small tree of modules, ``tasks__sizes="..."`` for tasks/sizes.py, and its imports."""
    for name, source in sources.items():
        path = folder / "slsgd_mx" / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return find_imports(folder / "slsgd_mx")


def test_the_table_is_read():
    assert read_table(TABLE) == {
        "errors": set(),
        "data": set(),
        "sizes": {"errors"},
        "core": {"errors", "sizes"},
        "tasks": {"errors", "data", "sizes", "core"},
    }
    with pytest.raises(AssertionError, match="only packages above it"):
        read_table(TABLE.replace("| `errors` |", "| `tasks` |"))


@pytest.mark.parametrize(
    "source, what",
    [
        ("from slsgd_mx.tasks.cifar import Network", "tasks"),
        ("from slsgd_mx import tasks", "tasks"),
        ("import slsgd_mx.tasks.cifar.network", "tasks"),
        ("def later():\n    from slsgd_mx.tasks import build", "tasks"),
        ("if TYPE_CHECKING:\n    from slsgd_mx.tasks.cifar import Network", "tasks"),
        ("importlib.import_module('slsgd_mx.tasks.cifar')", "tasks"),
        ("from . import server", "a relative name"),
        ("from slsgd_mx import train", "train"),
        ("import slsgd_mx", "the public interface"),
        ("from slsgd_mx.data import load", "data"),
    ],
)
def test_a_forbidden_import_is_found(tmp_path, source, what):
    imports = plant(tmp_path, core__server=f"import numpy\n{source}\n", errors="")
    violations = find_violations(imports, read_table(TABLE))
    assert violations == [f"core must not import {what} (slsgd_mx.core.server)"]


def test_legal_imports_pass(tmp_path):
    imports = plant(
        tmp_path,
        __init__="from slsgd_mx.tasks import build",
        errors="import numpy",
        tasks__sizes="from slsgd_mx.tasks.cifar.sizes import Cifar",
        tasks__cifar__sizes="from slsgd_mx.errors import ConfigError",
        tasks__build="from slsgd_mx.tasks.sizes import SIZES\nfrom slsgd_mx.core import server",
        core__server="from slsgd_mx import __version__\nfrom slsgd_mx.tasks.sizes import SIZES",
    )
    assert find_violations(imports, read_table(TABLE)) == []
