"""The compiled kernel has the bits of the NumPy path, for every k, any values and any threads."""

import contextlib
import gc
import math
import os
import threading
import weakref
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slsgd_mx.rules import compiled
from slsgd_mx.rules.compiled import find_kernel, in_threads, mean_of_ranks, parts
from slsgd_mx.rules.medians import mean_nearest
from slsgd_mx.rules.trimmed_mean import trimmed_mean_rows
from slsgd_mx.system.libraries import VARIABLE

BUILT = find_kernel()
needs_kernel = pytest.mark.skipif(BUILT.run is None, reason=f"the kernel is {BUILT.missing}")
WILD = [0.0, -0.0, 1.0, -1.0, 3.4028235e38, -3.4028235e38, 1e-45, -1e-45, 1e-40, 1.17549435e-38]
WILD += [1e10, -1e10, math.nan, math.inf, -math.inf]
COUNTS = [*range(1, 20), 31, 32, 33, 64, 65, 100, 129, 257, 520]


@st.composite
def problems(draw):
    """(k, d) float32 values with ties, some of them wild, and a legal b."""
    k, d = draw(st.sampled_from(COUNTS)), draw(st.integers(0, 70))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    rows = rng.standard_normal((k, d)).astype(np.float32)
    if draw(st.booleans()):  # values that cancel: what is left depends on the order of the sum
        huge = rng.random((k // 2, d)) < 0.4
        rows *= 8
        rows[0 : k // 2][huge], rows[k // 2 : k // 2 * 2][huge] = 2.0**54, -(2.0**54)
    pool = np.array(draw(st.lists(st.sampled_from(WILD), min_size=1, max_size=5)), np.float32)
    chosen = rng.random((k, d)) < draw(st.sampled_from([0.0, 0.05, 0.5, 1.0]))
    rows[chosen] = rng.choice(pool, chosen.sum())
    rows.view(np.int32)[np.isnan(rows) & (rng.random((k, d)) < 0.5)] = -1  # NaN of either sign
    return rows, draw(st.integers(0, (k - 1) // 2))


def compute(rows, trimmed, m=0):
    """Trmean_trimmed, or the mean of the m values nearest to it."""
    out = np.full(rows[0].size, 7, np.float32)
    if m:
        mean_nearest(rows, trimmed, m, out)
    else:
        trimmed_mean_rows(rows, trimmed, out)
    return out


def with_numpy(*arguments):
    with mock.patch.dict(os.environ, {VARIABLE: "numpy"}):
        return compute(*arguments)


def with_kernel(rows, trimmed, m=0, variant=BUILT.variant):
    out = np.full(rows[0].size, 7, np.float32)
    chosen = BUILT._replace(variant=variant)
    with mock.patch.object(compiled, "find_kernel", lambda: chosen):
        assert mean_of_ranks(rows, trimmed, m, out)
    return out


@needs_kernel
@given(problems(), st.data())
def test_every_variant_has_the_bits_of_numpy(drawn, data):
    rows, b = list(drawn[0]), drawn[1]
    for m in (0, data.draw(st.integers(1, len(rows)))):
        expected = with_numpy(rows, b, m).tobytes()
        for variant in range(BUILT.variant + 1):
            assert with_kernel(rows, b, m, variant).tobytes() == expected


@needs_kernel
@pytest.mark.parametrize("k", [*range(1, 11), 13, 16])
def test_every_input_of_zeros_and_ones(k):
    """A network that sorts all of them sorts everything; values at distance 1e9 show the order."""
    ones = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    rows = list(np.ascontiguousarray(np.where(ones, 1.0, -1e-9).T, np.float32))
    for b in range((k + 1) // 2):
        kept = np.sort(np.array(rows, np.float64), axis=0)[b : k - b]
        mean = np.add.accumulate(kept)[-1] * (1.0 / len(kept))
        assert with_kernel(rows, b).tobytes() == mean.astype(np.float32).tobytes()
    m = max(1, k // 2)
    assert with_kernel(rows, 0, m).tobytes() == with_numpy(rows, 0, m).tobytes()


@needs_kernel
@pytest.mark.parametrize("k", [17, 32, 33, 64, 65, 128, 200, 257])
def test_every_legal_b(k):
    """The network omits steps that only trimmed ranks need."""
    rows = list(np.random.default_rng(k).integers(-9, 9, (k, 40)).astype(np.float32))
    rows[0][:] = -0.0
    ranked = np.sort(np.array(rows, np.float64), axis=0)
    for b in range((k + 1) // 2):
        mean = ranked[b : k - b].sum(axis=0) * (1.0 / (k - 2 * b)) + 0.0  # integers: exact sums
        assert with_kernel(rows, b).tobytes() == mean.astype(np.float32).tobytes()


@needs_kernel
@pytest.mark.parametrize("k", [1, 2, 16, 40])
def test_the_result_is_never_minus_zero(k):
    rows = list(np.full((k, 20), -0.0, np.float32))
    for m in (0, 1, k):
        assert with_kernel(rows, 0, m).tobytes() == bytes(80)


@needs_kernel
@pytest.mark.parametrize("size", [1, 63, 1000, 4097])
def test_the_number_of_threads_does_not_change_the_bits(size, monkeypatch):
    rows = list(np.random.default_rng(size).standard_normal((12, size)).astype(np.float32))
    monkeypatch.setattr(compiled, "LEAST", 1)
    results = set()
    for count in (1, 2, 3, 7):
        monkeypatch.setattr(compiled, "thread_count", lambda count=count: count)
        results.add(with_kernel(rows, 3).tobytes())
    assert results == {with_numpy(rows, 3).tobytes()}


@pytest.mark.parametrize("size", [0, 1, 64, 65, 1000, 4097])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_parts_cover_every_coordinate_once(size, count):
    found = parts(size, count)
    assert 1 <= len(found) <= max(1, count)
    assert [i for part in found for i in range(*part)] == list(range(size))


@needs_kernel
def test_parts_without_a_thread_are_computed_in_the_calling_thread(monkeypatch):
    rows = list(np.random.default_rng(4).standard_normal((12, 1000)).astype(np.float32))
    expected, started = with_numpy(rows, 3).tobytes(), []
    start = threading.Thread.start

    def start_one(thread):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(compiled, "LEAST", 1)
    monkeypatch.setattr(compiled, "thread_count", lambda: 4)
    monkeypatch.setattr(threading.Thread, "start", start_one)
    assert with_kernel(rows, 3).tobytes() == expected
    assert len(started) == 1


@pytest.mark.parametrize("failing", [0, 5, 10])
def test_an_exception_in_any_thread_reaches_the_caller_after_all_have_ended(failing):
    ended = []

    def compute(start, stop):
        if start == failing:
            raise MemoryError(f"{start} to {stop}")
        ended.append(start)

    with pytest.raises(MemoryError, match=f"{failing} to {failing + 5}"):
        in_threads(compute, [(0, 5), (5, 10), (10, 15)])
    assert {*ended} == {0, 5, 10} - {failing}


def test_a_thread_that_an_interrupt_leaves_behind_keeps_the_rows(monkeypatch):
    """The kernel reads them by their addresses."""
    begun, go_on, threads = threading.Event(), threading.Event(), []

    def run(variant, pointers, k, trimmed, nearest, start, stop, out):
        if start:
            threads.append(threading.current_thread())
            begun.set()
            go_on.wait(60)
        return 0 if begun.wait(60) else 1

    def interrupted(thread):
        raise KeyboardInterrupt

    def call():
        rows = [np.zeros(128, np.float32) for _ in range(3)]
        out = np.zeros(128, np.float32)
        kept.extend(map(weakref.ref, (*rows, out)))
        mean_of_ranks(rows, 1, 0, out)

    kept = []
    monkeypatch.setattr(compiled, "find_kernel", lambda: compiled.Kernel(run, 0, ""))
    monkeypatch.setattr(compiled, "LEAST", 1)
    monkeypatch.setattr(compiled, "thread_count", lambda: 2)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupted)
        with contextlib.suppress(KeyboardInterrupt):
            call()
    gc.collect()
    assert [array() is not None for array in kept] == [True] * 4
    go_on.set()
    threads[0].join()
    gc.collect()
    assert [array() for array in kept] == [None] * 4


@needs_kernel
def test_rows_that_it_cannot_read_are_left_to_numpy():
    values = np.random.default_rng(1).standard_normal((5, 40)).astype(np.float32)
    rows, out = list(values), np.empty(40, np.float32)
    expected = compute(rows, 1).tobytes()
    strided = np.repeat(values, 2, axis=1)[:, ::2]
    unaligned = np.frombuffer(b"." + values.tobytes(), np.float32, offset=1).reshape(5, 40)
    for others in (list(strided), list(unaligned), [*rows[:4], strided[4]]):
        assert not mean_of_ranks(others, 1, 0, out)
        assert compute(others, 1).tobytes() == expected
    wide = np.empty(80, np.float32)
    trimmed_mean_rows(rows, 1, wide[::2])
    assert wide[::2].tobytes() == expected
    assert not mean_of_ranks([*rows[:4], values[4].astype(">f4")], 1, 0, out)
    assert not mean_of_ranks(rows, 3, 0, out) and not mean_of_ranks(rows, 1, 6, out)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        trimmed_mean_rows(rows, 1, out)
    values.flags.writeable = False
    assert with_kernel(list(values), 1).tobytes() == expected


def test_the_variable_leaves_the_work_to_numpy(monkeypatch):
    monkeypatch.setenv(VARIABLE, "numpy")
    assert compiled.describe_kernel() == (
        f"not used, because {VARIABLE}=numpy; the NumPy path is used"
    )
    assert not mean_of_ranks([np.zeros(1, np.float32)], 0, 0, np.zeros(1, np.float32))
    assert compute([np.float32([-0.0, math.nan])], 0).tolist() == [0.0, math.inf]


def test_too_little_memory_is_an_error(monkeypatch):
    kernel = compiled.Kernel(lambda *arguments: 1, 0, "")
    monkeypatch.setattr(compiled, "find_kernel", lambda: kernel)
    with pytest.raises(MemoryError, match="k=3 values"):
        compute(list(np.zeros((3, 2), np.float32)), 1)
