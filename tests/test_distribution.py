"""The package as users get it: sdist and wheel, installed elsewhere, and run as another user."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import slsgd_mx

ROOT = Path(__file__).resolve().parent.parent
pytest.importorskip("setuptools", reason="building needs setuptools")
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
NO_NETWORK = ["--no-deps", "--no-index"]


def run(*words, cwd, **options):
    """Run a command that sees only what is installed for it; return its output."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV"}
    done = subprocess.run(
        list(map(str, words)),
        cwd=str(cwd),
        env={name: value for name, value in os.environ.items() if name not in hidden},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        **options,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, unpacked, and the wheel that ``pip install`` of the sdist would build."""
    home = tmp_path_factory.mktemp("built")
    run(sys.executable, "setup.py", "-q", "egg_info", "-e", home, "sdist", "-d", home, cwd=ROOT)
    (sdist,) = home.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(home / "unpacked")
    run(*PIP, "wheel", *NO_NETWORK, "--no-build-isolation", "-w", home, sdist, cwd=home)
    (source,), (wheel,) = (home / "unpacked").iterdir(), home.glob("*.whl")
    return source, wheel


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The commands of an environment that has the wheel and, beside it, only our libraries."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    (site,) = home.glob("lib/python*/site-packages")
    libraries = [path for path in sys.path if path.endswith("-packages")]
    (site / "libraries.pth").write_text("\n".join(libraries) + "\n")  # their .pth files are unread
    run(*PIP, "--python", home / "bin" / "python", "install", *NO_NETWORK, built[1], cwd=home)
    where = run(home / "bin" / "python", "-c", "import slsgd_mx as x; print(x.__file__)", cwd=home)
    assert Path(where.strip()).parent.parent == site
    return home / "bin"


def test_the_sdist_has_every_tracked_file_and_what_the_readme_shows(built):
    source, _ = built
    if (ROOT / ".git").exists():
        tracked = run("git", "ls-files", cwd=ROOT).split("\n")
        own = {".gitignore", ".ci/run"}  # of the repository, not of the package
        missing = [name for name in tracked if name and not (source / name).exists()]
        assert set(missing) <= own
    text = (source / "README.md").read_text(encoding="utf-8")
    shown = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    assert len(shown) > 5 and [name for name in shown if not (source / name).exists()] == []


def test_the_wheel_has_code_and_the_kernel_but_no_tests(built):
    names = zipfile.ZipFile(built[1]).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"slsgd_mx"}
    packages = {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("slsgd_mx/**/*.py")}
    assert packages <= {os.path.dirname(name) for name in names}
    assert not [name for name in names if name.endswith((".c", ".h"))]
    shown = {str(path.relative_to(ROOT)) for path in ROOT.glob("slsgd_mx/report/assets/*")}
    assert len(shown) > 5 and {*shown, "slsgd_mx/report/paper-vs-code.md"} <= set(names)


def test_the_demo_runs_where_only_the_wheel_is_installed(installed, tmp_path):
    said = run(installed / "slsgd-mx", "demo", "--epochs", "1", cwd=tmp_path)
    assert "picture: runs/demo/demo-synthetic.png" in said
    assert (tmp_path / "runs" / "demo" / "demo-synthetic.png").stat().st_size > 10_000


def test_the_installed_command_knows_its_version_and_its_libraries(installed, tmp_path):
    version = run(installed / "slsgd-mx", "--version", cwd=tmp_path)
    assert slsgd_mx.__version__ in version
    for module, name in (("rules.compiled", "kernel"), ("data.numbers", "numbers")):
        code = f"from slsgd_mx.{module} import describe_{name}; print(describe_{name}())"
        said = run(installed / "python", "-c", code, cwd=tmp_path)
        assert said.startswith("used" if shutil.which("cc") else "not built")


def drop_privileges():
    """Give up every capability for good: even root then needs a file's permission."""
    prctl, drop = ctypes.CDLL(None).prctl, 24
    for capability in range(64):
        prctl(drop, capability, 0, 0, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="the suite already runs as an ordinary user")
@pytest.mark.skipif(sys.platform != "linux", reason="capabilities exist on Linux")
def test_tests_of_files_pass_without_the_privileges_of_root(tmp_path):
    """Root may write everywhere, so tests of permissions say nothing as root."""
    files = ["tests/runs/test_disk.py", "tests/system/test_files.py"]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", *files]
    said = run(*words, "--basetemp", tmp_path / "tests", cwd=ROOT, preexec_fn=drop_privileges)
    assert " passed" in said and "this user may write everywhere" not in said
