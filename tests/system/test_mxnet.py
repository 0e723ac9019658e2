"""Importing MXNet: fresh interpreters, because an import happens once in each."""

import os
import subprocess
import sys
import textwrap

import pytest

from slsgd_mx.system import mxnet as _mxnet

DMLC = {
    "DMLC_PS_ROOT_URI": "127.0.0.1",
    "DMLC_PS_ROOT_PORT": "9",  # nobody listens: an import that joins in would hang here
    "DMLC_NUM_SERVER": "1",
    "DMLC_NUM_WORKER": "1",
}


def run_fresh(code, *flags, **environment):
    """Run code in a new interpreter and return what it did."""
    return subprocess.run(
        [sys.executable, *flags, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )


def without(module):
    """Return a line of code after which importing `module` fails as if it was not installed."""
    return textwrap.dedent(
        f"""
        import sys
        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name == {module!r}:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        sys.meta_path.insert(0, Absent())
        """
    )


@pytest.mark.parametrize("role", ["server", "scheduler"])
def test_import_never_becomes_a_parameter_server(role):
    done = run_fresh(
        """
        import os
        from slsgd_mx._mxnet import mx
        print(os.environ["DMLC_ROLE"], mx.nd.ones((2,)).sum().asscalar())
        """,
        DMLC_ROLE=role,
        **DMLC,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.split() == [role, "2.0"]


def test_imports_are_silent_and_leave_the_warning_filters_alone():
    done = run_fresh(
        """
        import warnings
        import numpy  # adds filters of its own
        before = list(warnings.filters)
        from slsgd_mx._mxnet import import_gluonnlp
        gluonnlp = import_gluonnlp()
        assert warnings.filters == before
        assert gluonnlp.__version__ == "0.10.0"
        """,
        "-W",
        "always",
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_import_keeps_subnormal_numbers():
    """Some libraries switch the processor to flush-to-zero when loaded; exact tests need it off."""
    done = run_fresh(
        """
        from slsgd_mx._mxnet import mx
        import numpy as np
        tiny = np.full(64, 1e-45, np.float32)
        assert (tiny * np.float32(1) > 0).all()
        assert ((mx.nd.array(tiny) * 1).asnumpy() > 0).all()
        """
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    "python, numpy, sentence",
    [
        ((3, 8, 0), "1.23.5", None),
        ((3, 12, 9), "1.26.4", None),
        (
            (3, 7, 16),
            "1.21.6",
            "MXNet 1.9.1 cannot run on Python 3.7.16: install Python 3.8 to 3.12.",
        ),
        (
            (3, 13, 0),
            "1.26.4",
            "MXNet 1.9.1 cannot run on Python 3.13.0: install Python 3.8 to 3.12.",
        ),
        (
            (3, 11, 7),
            "2.0.0rc1",
            'MXNet 1.9.1 cannot use NumPy 2.0.0rc1: install "numpy>=1.23,<1.24".',
        ),
        ((3, 12, 1), "2.3.1", 'MXNet 1.9.1 cannot use NumPy 2.3.1: install "numpy==1.26.*".'),
    ],
)
def test_versions_that_cannot_work_are_named_with_the_cure(python, numpy, sentence):
    assert _mxnet.obstacle(python, numpy) == sentence


def test_numpy_2_is_refused_before_mxnet_is_touched():
    done = run_fresh("import numpy; numpy.__version__ = '2.1.0'\nimport slsgd_mx._mxnet")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith(
        "ImportError: MXNet 1.9.1 cannot use NumPy 2.1.0: install"
    )


@pytest.mark.parametrize(
    "module, call, sentence",
    [
        ("mxnet", "", 'mxnet is not installed: pip install "mxnet==1.9.1".'),
        ("requests", "", 'requests is not installed: pip install "requests".'),
        ("distutils", "", 'distutils is not installed: pip install "setuptools".'),
        (
            "gluonnlp",
            ".import_gluonnlp()",
            'gluonnlp is not installed: pip install "gluonnlp==0.10.0".',
        ),
        ("numpy", "", 'numpy is not installed: pip install "numpy<2".'),
    ],
)
def test_a_missing_package_is_named_with_the_cure(module, call, sentence):
    code = f"import importlib\nimportlib.import_module('slsgd_mx._mxnet'){call}"
    done = run_fresh(without(module) + code)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == f"ImportError: {sentence}"
