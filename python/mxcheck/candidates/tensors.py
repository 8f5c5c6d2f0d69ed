"""The worker's tensors as a callable takes them: memory of the gate, wrapped and never copied.

A tensor is ten numbers: address, DLPack's type code, bits, dimensions, three extents, three strides in elements.
"""

import ctypes
import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, Sequence, Tuple

from .._errors import UsageError
from .resolve import interpreter

_INT, _UINT, _FLOAT, _BFLOAT = 0, 1, 2, 4
TYPE_NAMES = {(_FLOAT, 64): "fp64", (_FLOAT, 32): "fp32", (_BFLOAT, 16): "bf16", (_FLOAT, 16): "fp16", (_UINT, 8): "uint8", (_INT, 32): "int32", (_INT, 64): "int64"}
_WRITE = 0x200  # PyBUF_WRITE

_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_memory.restype = ctypes.py_object
_memory.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


@dataclass
class Raw:
    """A tensor of `tensors="bytes"`: data is a writable memoryview of its bytes, from the first element to the last."""

    data: Any
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]  # in elements
    dtype: str


def _extent(words: Sequence[int], at: int) -> Tuple[Tuple[int, ...], Tuple[int, ...], int]:
    """Shape, strides, and elements from the first to the last."""
    rank = words[at + 3]
    shape = tuple(words[at + 4 : at + 4 + rank])
    strides = tuple(words[at + 7 : at + 7 + rank])
    span = 1
    for extent, stride in zip(shape, strides):
        if extent == 0:
            return shape, strides, 0
        span += (extent - 1) * stride
    return shape, strides, span


def bytes_maker() -> Callable[[Sequence[int], int, int], Any]:
    def make(words: Sequence[int], at: int, number: int) -> Raw:
        shape, strides, span = _extent(words, at)
        size = span * words[at + 2] // 8
        data = _memory(words[at], size, _WRITE) if size else memoryview(bytearray())
        return Raw(data, shape, strides, TYPE_NAMES[words[at + 1], words[at + 2]])

    return make


def numpy_maker() -> Callable[[Sequence[int], int, int], Any]:
    try:
        import numpy
    except ImportError as error:
        raise UsageError(f'takes numpy arrays, and numpy cannot be imported: {error}; install it, or declare tensors="bytes"'
                         f"{interpreter(error)}") from None
    types: Dict[Tuple[int, int], Any] = {(_FLOAT, 64): numpy.dtype("float64"), (_FLOAT, 32): numpy.dtype("float32"),
                                         (_FLOAT, 16): numpy.dtype("float16"),
                                         (_UINT, 8): numpy.dtype("uint8"), (_INT, 32): numpy.dtype("int32"),
                                         (_INT, 64): numpy.dtype("int64")}
    try:
        import ml_dtypes

        types[_BFLOAT, 16] = numpy.dtype(ml_dtypes.bfloat16)
    except ImportError:
        types[_BFLOAT, 16] = numpy.dtype("uint16")  # their bits
    array = numpy.ndarray
    empty = numpy.empty

    def make(words: Sequence[int], at: int, number: int) -> Any:
        dtype = types[words[at + 1], words[at + 2]]
        width = dtype.itemsize
        if words[at + 3] == 2:
            rows, cols, stride, step = words[at + 4], words[at + 5], words[at + 7], words[at + 8]
            if rows == 0 or cols == 0:
                return empty((rows, cols), dtype)
            memory = _memory(words[at], ((rows - 1) * stride + (cols - 1) * step + 1) * width, _WRITE)
            return array((rows, cols), dtype, memory, 0, (stride * width, step * width))
        shape, strides, span = _extent(words, at)
        if span == 0:
            return empty(shape, dtype)
        return array(shape, dtype, _memory(words[at], span * width, _WRITE), 0, tuple(s * width for s in strides))

    return make


def torch_maker(library: Any) -> Callable[[Sequence[int], int, int], Any]:
    """library: libmxcheck_worker, which makes a DLManagedTensor of each tensor of the call in progress."""
    try:
        import torch  # noqa: F401
        from torch.utils.dlpack import from_dlpack
    except ImportError as error:
        raise UsageError(f"takes torch tensors, and torch cannot be imported: {error}{interpreter(error)}") from None
    managed = library.mxcheck_worker_tensor

    def make(words: Sequence[int], at: int, number: int) -> Any:
        return from_dlpack(_capsule(managed(number), b"dltensor", None))

    return make


def version_text() -> str:
    """Versions of what kernels in Python are made with, as far as they are loaded: the compiler is part of the kernel."""
    names = ("torch", "triton", "cutlass", "tilelang", "tvm_ffi", "numpy", "jax")
    parts = [f"{name} {getattr(sys.modules[name], '__version__', '?')}" for name in names if name in sys.modules]
    return ", ".join([*parts, "python " + sys.version.split()[0]])
