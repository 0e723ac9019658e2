"""``slsgd-mx doctor``: its findings and exit codes."""

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from slsgd_mx import doctor
from slsgd_mx.cli import main
from slsgd_mx.rules import compiled
from slsgd_mx.system import precision
from slsgd_mx.system.libraries import VARIABLE

NAMES = [
    *(
        "Python",
        "MXNet",
        "NumPy",
        "cores",
        "memory",
        "bfloat16",
        "compiled kernel",
        "text reader",
        "data",
    ),
    *("parameter server", "disk", "extras"),
]


@pytest.fixture
def answers(monkeypatch, tmp_path):
    """Answers of child processes, by the function they would call."""
    found = {"try_mxnet": {"status": "done", "version": "1.9.1"}}
    found["try_parameter_server"] = {"status": "done"}
    monkeypatch.setattr(doctor, "_try_in_child", lambda name, folder: found[name.split(":")[1]])
    monkeypatch.setenv("SLSGD_MX_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return found


def test_about_ten_lines_on_80_columns(answers):
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    starts = [line[5:].split("  ")[0] for line in lines if not line.startswith(" ")]
    assert [start.split(" works")[0] for start in starts] == NAMES
    assert len(lines) <= 16
    assert max(len(line) for line in lines if str(Path.cwd()) not in line) <= 80
    assert "slsgd-mx data fetch cifar10 wikitext2 downloads it" in " ".join(result.output.split())


def test_what_does_not_work_is_named_and_exits_with_1(answers):
    answers["try_parameter_server"] = {"status": "failed", "why": "no answer within 90 seconds"}
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert result.exit_code == 1 and "does not work here: parameter server" in result.stderr
    document = json.loads(result.stdout)
    assert document["ok"] is False and [check["name"] for check in document["checks"]] == NAMES
    assert {check["name"]: check["ok"] for check in document["checks"]}["MXNet"] is True


@pytest.mark.parametrize(
    ("vendor", "flags", "text"),
    [
        ("GenuineIntel", {"avx512_bf16", "amx_bf16"}, "yes (amx_bf16, avx512_bf16)"),
        ("AuthenticAMD", {"avx512_bf16"}, "yes (avx512_bf16)"),
        ("GenuineIntel", {"avx512_bf16"}, "yes (avx512_bf16); without AMX slower than float32"),
        ("GenuineIntel", {"avx2"}, "no: this CPU has no such instructions"),
    ],
)
def test_the_cpu_decides_on_bfloat16_and_on_its_gain(monkeypatch, vendor, flags, text):
    monkeypatch.setattr(doctor, "cpu_flags", lambda: flags)
    monkeypatch.setattr(precision, "cpu_flags", lambda: flags)
    monkeypatch.setattr(precision, "cpu_field", {"vendor_id": vendor}.get)
    assert doctor.check_bfloat16().text == text


def test_the_path_of_the_trimmed_mean_is_named(monkeypatch):
    monkeypatch.setattr(compiled, "find_kernel", lambda: compiled.Kernel(len, 1, ""))
    assert doctor.check_kernel().text == "used, with AVX2"
    monkeypatch.setattr(compiled, "find_kernel", lambda: compiled.Kernel(None, 0, "not built"))
    assert doctor.check_kernel().text == "not built; the NumPy path is used"


def test_a_library_that_is_turned_off_is_named(monkeypatch):
    monkeypatch.setenv(VARIABLE, "numpy")
    assert doctor.check_kernel().text.startswith("not used, because SLSGD_MX_KERNEL=numpy")
    assert doctor.check_words().text.startswith("not used, because SLSGD_MX_KERNEL=numpy")


def test_little_disk_is_a_failure(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert doctor.check_disk().ok
    monkeypatch.setattr(doctor, "LITTLE_DISK", 1e30)
    assert not doctor.check_disk().ok


def test_a_real_parameter_server_connects(tmp_path):
    assert subprocess.DEVNULL  # this test starts processes
    check = doctor.check_parameter_server(str(tmp_path))
    assert check.ok, check.text
    late = doctor._try_in_child("slsgd_mx.doctor:try_mxnet", str(tmp_path), patience=0.0)
    assert late == {"status": "failed", "why": "no answer within 0 seconds"}
    wrong = doctor._try_in_child("slsgd_mx.doctor:no_such", str(tmp_path))
    assert wrong["status"] == "failed" and "no_such" in wrong["why"]
