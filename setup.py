"""Install slsgd-mx: ``pip install .``, or ``make demo``, which builds an environment itself."""

import os
import re
import sys

PYTHON_REQUIRES = ">=3.8,<3.13"

# This check must run on any Python, so the file uses no newer syntax before it. On a Python that is
# too new, pip itself refuses, with a message made from python_requires.
TOO_OLD = sys.version_info[:2] < (3, 8)
TOO_NEW = sys.version_info[:2] >= (3, 13)
if TOO_OLD or (TOO_NEW and "setuptools.build_meta" not in sys.modules):
    sys.exit(
        "slsgd-mx needs Python 3.8 to 3.12 (MXNet 1.9.1 runs on no other), and this is Python "
        + ".".join(map(str, sys.version_info[:3]))
        + "."
    )

from setuptools import Extension, find_packages, setup  # noqa: E402  (after the check on purpose)
from setuptools.command.build_py import build_py  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


def read(*parts):
    """Return the text of a file of this repository."""
    with open(os.path.join(HERE, *parts), encoding="utf-8") as file:
        return file.read()


def read_version():
    """Return ``__version__`` of the package without importing it."""
    return re.search(r'^__version__ = "([^"]+)"', read("slsgd_mx", "__init__.py"), re.M).group(1)


def read_requirements():
    """Return the lines of requirements.txt that are neither blank nor comments."""
    lines = (line.strip() for line in read("requirements.txt").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


REPORT = ["plotly>=5.15", "markdown>=3.4"]

# Plain shared libraries, found and called through ctypes. Where they cannot be compiled, NumPy and
# Python do their work. Contracted or reordered sums would change the bits of the ranks.
LIBRARIES = [
    Extension(
        "slsgd_mx.rules._ranks",
        sources=["slsgd_mx/rules/ranks.c"],
        depends=["slsgd_mx/rules/ranks.h"],
        extra_compile_args=["-O3", "-fno-fast-math", "-ffp-contract=off"],
        optional=True,
    ),
    Extension(
        "slsgd_mx.data._numbers",
        sources=["slsgd_mx/data/numbers.c"],
        extra_compile_args=["-O3"],
        optional=True,
    ),
]

# One major version of each, because another one may read mkdocs.yml differently.
DOCS = ["mkdocs>=1.6,<2", "mkdocs-material>=9.5.30,<10"]


class BuildWithLedger(build_py):
    """Copies docs/paper-vs-code.md, which ``slsgd-mx report`` shows, into the package."""

    def run(self):
        super().run()
        package = os.path.join(self.build_lib, "slsgd_mx", "report")
        if os.path.isdir(package):  # not for an editable installation
            self.copy_file(os.path.join(HERE, "docs", "paper-vs-code.md"), package)


setup(
    name="slsgd-mx",
    version=read_version(),
    description="SLSGD: secure and efficient distributed on-device machine learning, on MXNet",
    long_description=read("README.md") if os.path.exists(os.path.join(HERE, "README.md")) else "",
    long_description_content_type="text/markdown",
    author="The slsgd-mx developers",
    license="Apache-2.0",
    license_files=["LICENSE"],
    classifiers=[
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.8",
        "Programming Language :: Python :: 3.9",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    packages=find_packages(include=["slsgd_mx", "slsgd_mx.*"]),
    ext_modules=LIBRARIES,
    cmdclass={"build_py": BuildWithLedger},
    include_package_data=True,
    exclude_package_data={"": ["*.c", "*.h"]},
    zip_safe=False,
    python_requires=PYTHON_REQUIRES,
    install_requires=read_requirements(),
    extras_require={
        "dev": [
            *DOCS,
            "hypothesis>=6.100",
            *REPORT,
            "pytest>=8.0",
            "pytest-timeout>=2.3",
            "pytest-xdist>=3.5",
            # The browser test of the report; the browser itself is Debian's chromium.
            "selenium>=4.10",
            # One minor series, because a new one may format differently.
            "ruff==0.17.*",
            # To build sdist and wheel in the tests. setuptools before 70.1 builds no wheel itself,
            # nor does wheel since 0.46.
            "setuptools>=61",
            "wheel>=0.37,<0.46",
        ],
        "docs": DOCS,  # make docs
        # examples/first_attack.ipynb, and its test
        "notebook": ["ipykernel>=6.29", "nbclient>=0.10", "nbformat>=5.10"],
        "report": REPORT,  # slsgd-mx report
        "tensorboard": ["tensorboardX>=2.6"],  # slsgd-mx runs export --tensorboard
    },
    entry_points={"console_scripts": ["slsgd-mx = slsgd_mx.cli:main"]},
)
