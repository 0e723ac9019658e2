"""Importing MXNet, each time in a new interpreter."""

import os
import subprocess
import sys
import textwrap
from unittest.mock import Mock

import pytest

from slsgd_mx.system.mxnet import import_gluonnlp, obstacle

DMLC = {
    "DMLC_PS_ROOT_URI": "127.0.0.1",
    "DMLC_PS_ROOT_PORT": "9",  # no scheduler listens: an import that connects would hang
    "DMLC_NUM_SERVER": "1",
    "DMLC_NUM_WORKER": "1",
}


def run_fresh(code, *flags, **environment):
    """Run code in a new interpreter and return the finished process."""
    return subprocess.run(
        [sys.executable, *flags, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )


def without(module):
    """Return code after which importing `module` fails as if it were not installed."""
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
    """Nor does it remove a variable, which may crash a thread of MXNet that reads another."""
    done = run_fresh(
        """
        import os
        import numpy  # which removes variables of its own
        os.unsetenv = None
        from slsgd_mx.system.mxnet import import_gluonnlp, mx
        import_gluonnlp()
        print(os.environ["DMLC_ROLE"], mx.nd.ones((2,)).sum().asscalar())
        """,
        DMLC_ROLE=role,
        **DMLC,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.split() == [role, "2.0"]


def test_import_is_silent_and_keeps_warning_filters_and_subnormal_numbers():
    """Some libraries switch the processor to flush-to-zero, which would break exact results."""
    done = run_fresh(
        """
        import warnings
        import numpy as np  # adds filters of its own
        before = list(warnings.filters)
        from slsgd_mx.system.mxnet import import_gluonnlp, mx
        gluonnlp = import_gluonnlp()
        assert warnings.filters == before
        assert gluonnlp.__version__ == "0.10.0"
        tiny = np.full(64, 1e-45, np.float32)
        assert (tiny * np.float32(1) > 0).all()
        assert ((mx.nd.array(tiny) * 1).asnumpy() > 0).all()
        """,
        "-W",
        "always",
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_operators_work_without_docstrings():
    """PYTHONOPTIMIZE=2 removes docstrings that MXNet joins when it generates these operators."""
    done = run_fresh(
        """
        from slsgd_mx.system.mxnet import import_gluonnlp, mx
        import_gluonnlp()
        assert False, "removed by PYTHONOPTIMIZE"
        a = mx.nd.Reshape(mx.nd.ones((2, 3)), shape=(3, 2))
        layer = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=2)
        print(mx.nd.elemwise_add(a, a).sum().asscalar(), layer.name)
        """,
        PYTHONOPTIMIZE="2",
    )
    assert (done.returncode, done.stdout) == (0, "12.0 fullyconnected0\n"), done.stdout


@pytest.mark.parametrize(
    "python, numpy, sentence",
    [
        ((3, 8, 0), "1.23.5", None),
        ((3, 12, 9), "1.26.4", None),
        ((3, 7, 16), "1.21.6", "run on Python 3.7.16: install Python 3.8 to 3.12."),
        ((3, 13, 0), "1.26.4", "run on Python 3.13.0: install Python 3.8 to 3.12."),
        ((3, 11, 7), "2.0.0rc1", 'use NumPy 2.0.0rc1: install "numpy>=1.23,<1.24".'),
        ((3, 12, 1), "2.3.1", 'use NumPy 2.3.1: install "numpy==1.26.*".'),
    ],
)
def test_unsupported_versions_are_named_with_the_remedy(python, numpy, sentence):
    expected = None if sentence is None else f"MXNet 1.9.1 cannot {sentence}"
    assert obstacle(python, numpy) == expected


def test_numpy_2_is_refused_before_mxnet_is_imported():
    done = run_fresh("import numpy; numpy.__version__ = '2.1.0'\nimport slsgd_mx.system.mxnet")
    last = done.stdout.splitlines()[-1]
    assert last.startswith("ImportError: MXNet 1.9.1 cannot use NumPy 2.1.0: install")
    assert done.returncode == 1


@pytest.mark.parametrize(
    "module, sentence",
    [
        ("numpy", 'numpy is not installed: pip install "numpy<2".'),
        ("mxnet", 'mxnet is not installed: pip install "mxnet==1.9.1".'),
    ],
)
def test_a_missing_package_is_named_with_the_remedy(module, sentence):
    done = run_fresh(without(module) + "import slsgd_mx.system.mxnet")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == f"ImportError: {sentence}"


@pytest.mark.parametrize(
    "error, sentence",
    [
        (ModuleNotFoundError(name="gluonnlp"),
         'gluonnlp is not installed: pip install "gluonnlp==0.10.0".'),
        (ModuleNotFoundError(name="distutils"),
         'distutils is not installed: pip install "setuptools".'),
        (OSError("libgomp.so: no such file"),
         "gluonnlp is installed but its compiled library does not load: libgomp.so: no such file."),
    ],
)  # fmt: skip
def test_other_failures_are_named_with_the_remedy(monkeypatch, error, sentence):
    monkeypatch.setattr("importlib.import_module", Mock(side_effect=error))
    with pytest.raises(ImportError) as caught:
        import_gluonnlp()
    assert str(caught.value) == sentence
