"""The precision: where it is refused and in which words, one for a process, where it is named."""

import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from slsgd_mx.cli import main, running, sweeping
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.runs.trainer import RunResult, train
from slsgd_mx.sweeps.forecast import network
from slsgd_mx.system import mixed_precision, precision
from slsgd_mx.tasks.problems.sizes import Problem

REFUSED = (
    "precision='bfloat16' is not possible here: this CPU has no AVX512_BF16 or AMX; use "
    "--precision float32, or another machine"
)


@pytest.fixture
def cpu(monkeypatch):
    """``cpu(*flags)`` pretends that the CPU has these; what MXNet was changed to."""
    asked = []
    monkeypatch.setattr(mixed_precision, "start", lambda: asked.append("bfloat16"))
    monkeypatch.setattr(precision, "_used", [])

    def pretend(*flags):
        monkeypatch.setattr(precision, "cpu_flags", lambda: {"fpu", *flags})
        monkeypatch.setattr(precision, "instructions", lambda: "AVX-512")
        return asked

    return pretend


def test_bfloat16_is_refused_on_a_cpu_without_it(cpu):
    asked = cpu("avx2", "avx512f")
    with pytest.raises(ConfigError) as error:
        precision.use_precision("bfloat16")
    assert str(error.value) == REFUSED and error.value.exit_code == 2
    assert asked == []
    precision.use_precision("float32")  # which every CPU has


def test_bfloat16_is_refused_where_onednn_is_kept_from_it(cpu, monkeypatch):
    cpu("avx512_bf16")
    assert precision.obstacle("bfloat16") is None
    monkeypatch.setattr(precision, "instructions", lambda: "AVX2")
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", "AVX2")
    with pytest.raises(ConfigError, match="not possible here: DNNL_MAX_CPU_ISA=AVX2 excludes it"):
        precision.use_precision("bfloat16")


@pytest.mark.parametrize("flag", ["avx512_bf16", "amx_bf16"])
def test_a_process_has_one_precision_and_mxnet_is_changed_once(cpu, flag):
    asked = cpu(flag)
    precision.use_precision("bfloat16")
    precision.use_precision("bfloat16")
    assert asked == ["bfloat16"]
    message = "precision='float32' comes too late: this process computes in bfloat16"
    with pytest.raises(ConfigError, match=message):
        precision.use_precision("float32")


def test_bfloat16_that_somebody_else_has_started_is_refused(cpu, monkeypatch):
    asked = cpu("avx512_bf16")
    theirs = SimpleNamespace(_amp_initialized=True)
    monkeypatch.setitem(sys.modules, "mxnet.contrib.amp.amp", theirs)
    for name in ("float32", "bfloat16"):
        with pytest.raises(ConfigError, match="this process has called MXNet's amp.init"):
            precision.use_precision(name)
    assert asked == []
    theirs._amp_initialized = False
    precision.use_precision("float32")


def test_float32_leaves_mxnet_alone(cpu):
    asked = cpu("avx512_bf16")
    precision.use_precision("float32")
    with pytest.raises(ConfigError, match="this process computes in float32"):
        precision.use_precision("bfloat16")
    assert asked == []


def test_a_run_is_refused_before_its_data_are_read(cpu, tiny, tmp_path):
    cpu("avx2")
    config = tiny(precision="bfloat16", data="cifar10", train_images=50_000)
    with pytest.raises(ConfigError, match="this CPU has no AVX512_BF16 or AMX"):
        train(config, tmp_path / "run", tmp_path / "no data")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["cifar", "fig3 --runs runs --figures out --repeats 1"])
def test_users_are_told_once_where_it_is_slower(command, cpu, monkeypatch, tmp_path, capsys):
    cpu("avx512_bf16")
    monkeypatch.setattr(precision, "cpu_field", {"vendor_id": "GenuineIntel"}.get)
    monkeypatch.setattr(running, "run_one", lambda *_: RunResult(tmp_path, []))
    monkeypatch.setattr(sweeping, "compute", lambda *_: {})
    monkeypatch.chdir(tmp_path)
    for name, times in (("bfloat16", 1), ("float32", 0)):
        call = [*command.split(), "--preset", "smoke", "--precision", name]
        result = CliRunner().invoke(main, call)
        said = result.stderr + capsys.readouterr().err
        assert said.count("on Intel CPUs without AMX it is slower than float32") == times, said


def test_it_is_part_of_the_identity_but_float32_changes_nothing(tiny):
    plain, low = tiny(), tiny(precision="bfloat16")
    assert tiny(precision="float32").identity == plain.identity
    assert low.identity != plain.identity
    assert "bfloat16" in low.slug and "float32" not in plain.slug
    assert RunConfig.from_json(low.to_json()) == low
    assert network(low) != network(plain)  # a forecast measures both


def test_illegal_precisions():
    with pytest.raises(ConfigError, match="'float16' is unknown.* one of float32, bfloat16"):
        RunConfig(precision="float16")
    with pytest.raises(ConfigError, match="needs float32, because task problem has no network"):
        RunConfig(sizes=Problem(), precision="bfloat16")


def test_the_manifest_names_it(tiny, tmp_path):
    import json

    train(tiny(epochs=1), tmp_path / "run")
    (session,) = json.loads((tmp_path / "run" / "manifest.json").read_text())["sessions"]
    assert session["precision"] == "float32"
