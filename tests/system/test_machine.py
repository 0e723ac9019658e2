"""What the CPU is called by the instructions that oneDNN may use."""

import platform

import pytest

from slsgd_mx.system import machine

FULL = {"fpu", "avx", "avx2", "avx512f", "avx512bw", "avx512_bf16"}


@pytest.mark.parametrize(
    "flags, limit, found",
    [
        (FULL, None, "AVX-512"),
        (FULL, "ALL", "AVX-512"),
        (FULL, "avx512_core", "AVX-512"),
        (FULL, "AVX2", "AVX2"),
        (FULL, "AVX2_VNNI", "AVX2"),
        (FULL, "avx2", "AVX-512"),  # which oneDNN ignores
        (FULL, "AVX512_MIC", "AVX512_MIC"),
        (FULL, "SSE41", "SSE4.1"),
        ({"fpu", "avx", "avx2"}, None, "AVX2"),
        ({"fpu", "avx", "avx2"}, "AVX", "AVX"),
        ({"fpu", "avx", "avx2"}, "AVX512_CORE", "AVX2"),
        ({"asimd"}, None, "some-cpu"),
        (set(), None, "some-cpu"),
    ],
)
def test_instructions_are_those_of_the_cpu_up_to_the_limit(flags, limit, found, monkeypatch):
    monkeypatch.setattr(machine, "cpu_flags", lambda: flags)
    monkeypatch.setattr(platform, "machine", lambda: "some-cpu")
    monkeypatch.delenv("DNNL_MAX_CPU_ISA", raising=False)
    if limit is not None:
        monkeypatch.setenv("DNNL_MAX_CPU_ISA", limit)
    assert machine.instructions() == found
