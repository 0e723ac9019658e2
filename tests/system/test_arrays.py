"""Views of one memory as NumPy array and as NDArray."""

import gc
import time
import weakref

import numpy as np
import pytest

from slsgd_mx.system.arrays import as_ndarray, as_numpy
from slsgd_mx.system.mxnet import mx


def table():
    return mx.nd.arange(12).reshape((4, 3))


def test_as_ndarray_shares_memory_both_ways():
    array = np.zeros((2, 3), np.float32)
    view = as_ndarray(array)
    assert view.shape == (2, 3) and view.dtype == np.float32
    assert as_numpy(view).ctypes.data == array.ctypes.data
    array[0, 1] = 5
    assert view.asnumpy().tolist() == [[0, 5, 0], [0, 0, 0]]
    view[1] = 7
    view.wait_to_read()
    assert array.tolist() == [[0, 5, 0], [7, 7, 7]]
    assert array.flags.writeable


def test_as_ndarray_of_a_row_writes_only_to_that_row():
    array = np.zeros((3, 4), np.float32)
    mx.nd.ones((2, 2)).copyto(as_ndarray(array[1].reshape(2, 2)))
    mx.nd.waitall()
    assert array.tolist() == [[0] * 4, [1] * 4, [0] * 4]


def test_as_ndarray_keeps_the_array_alive_and_no_longer_than_needed():
    array = np.arange(1000, dtype=np.float32)
    alive = weakref.ref(array)
    view = as_ndarray(array)
    del array
    gc.collect()
    others = [np.full(1000, -1, np.float32) for _ in range(50)]  # would reuse freed memory
    assert alive() is not None and len(others) == 50
    assert view.asnumpy().tolist() == list(range(1000))
    del view
    give_up = time.monotonic() + 10  # a thread of MXNet releases it
    while alive() is not None and time.monotonic() < give_up:
        mx.nd.waitall()
        gc.collect()
    assert alive() is None


def test_as_ndarray_refuses_arrays_that_are_not_contiguous():
    with pytest.raises(ValueError, match="contiguous"):
        as_ndarray(np.zeros((3, 4), np.float32).T)


VIEWS = {
    "whole": lambda x: x,
    "rows": lambda x: x[1:3],
    "last row": lambda x: x[3],
    "columns": lambda x: x[:, 1:],
    "rows of rows": lambda x: x[1:4][1:2],
    "transposed": lambda x: x.T,
    "rows, transposed": lambda x: x[2:].T,
    "rows, reshaped": lambda x: x[1:3].reshape((3, 2)),
    "computed": lambda x: x * 2 + 1,
    "one value": lambda x: x[2:3, 1:2],
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
@pytest.mark.parametrize("view", VIEWS)
def test_as_numpy_equals_asnumpy(view, dtype):
    array = VIEWS[view](table().astype(dtype))
    values = as_numpy(array)
    assert values.shape == array.shape and values.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(values, array.asnumpy())
    with pytest.raises(ValueError, match="read-only"):
        values[...] = 0


@pytest.mark.parametrize("array", [mx.nd.array(np.zeros((0, 3))), table().tostype("csr")])
def test_as_numpy_copies_arrays_without_plain_memory(array):
    values, expected = as_numpy(array), array.asnumpy()
    assert values.shape == expected.shape and values.tolist() == expected.tolist()


def test_as_numpy_does_not_copy_and_waits_for_pending_operations():
    array = mx.nd.zeros((300, 300))
    values = as_numpy(array)
    address = values.__array_interface__["data"][0]
    ones = mx.nd.ones((300, 300))
    for _ in range(20):
        array += mx.nd.dot(ones, ones)
    again = as_numpy(array)
    assert again.min() == again.max() == 20 * 300
    assert again.__array_interface__["data"][0] == address and values[0, 0] == 20 * 300


def test_as_numpy_of_a_blocked_layout():
    """oneDNN stores the output of a convolution in blocks of channels."""
    rng = np.random.default_rng(0)
    images = mx.nd.array(rng.random((2, 16, 8, 8)))
    weight = mx.nd.array(rng.random((16, 16, 3, 3)))
    options = dict(num_filter=16, kernel=(3, 3), no_bias=True)
    out, copy = (mx.nd.Convolution(images, weight, **options) for _ in range(2))
    assert as_numpy(out).tolist() == copy.asnumpy().tolist()
