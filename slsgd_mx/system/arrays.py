"""Views of NumPy arrays as NDArrays and of NDArrays as NumPy arrays, without copying."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Union

import numpy as np

from slsgd_mx.errors import ConfigError

if TYPE_CHECKING:  # importing the public interface must not import MXNet: its threads are set later
    from slsgd_mx.system.mxnet import mx

Array = Union["mx.nd.NDArray", np.ndarray]


def as_ndarray(array: np.ndarray) -> mx.nd.NDArray:
    """Return an NDArray that shares the memory of `array`, which stays writeable.

    >>> a = np.zeros(2, np.float32)
    >>> view = as_ndarray(a)
    >>> a[0] = 3
    >>> view.asnumpy()
    array([3., 0.], dtype=float32)
    """
    from slsgd_mx.system.mxnet import mx

    return mx.nd.from_numpy(array.view(), zero_copy=True)  # MXNet marks its argument read-only


def as_numpy(array: Array) -> np.ndarray:
    """Return a read-only view of an NDArray, or a copy if it has no plain memory of its own.

    A NumPy array is returned as it is; anything else is a ConfigError.

    >>> from slsgd_mx.system.mxnet import mx
    >>> as_numpy(mx.nd.array([[1, 2]]))
    array([[1., 2.]], dtype=float32)
    """
    if isinstance(array, (np.ndarray, np.generic)):
        return np.asarray(array)
    from slsgd_mx.system.mxnet import mx

    if not isinstance(array, mx.nd.NDArray):
        kind = type(array).__name__
        raise ConfigError(f"a model must be an NDArray or a NumPy array, not of type {kind}")
    if array.stype != "default" or array.context.device_type != "cpu" or array.size == 0:
        return array.asnumpy()
    array.wait_to_read()
    pointer = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.MXNDArrayGetData(array.handle, ctypes.byref(pointer)))
    dtype = np.dtype(array.dtype)
    memory = (ctypes.c_char * (array.size * dtype.itemsize)).from_address(pointer.value)
    memory.owner = array  # keeps the array alive as long as the view
    view = np.frombuffer(memory, dtype).reshape(array.shape)
    view.flags.writeable = False
    return view
