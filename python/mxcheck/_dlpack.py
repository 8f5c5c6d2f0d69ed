"""Tensors of any library that has __dlpack__: DLPack 1.x and the unversioned capsules before it, read with ctypes.

The capsule is not consumed: it lives as long as what is read from it, and its own destructor frees the tensor.
"""

import ctypes
from typing import Any, Optional, Sequence, Tuple

from ._errors import UsageError

_CPU, _CUDA_HOST = 1, 3  # kDLCPU, kDLCUDAHost: memory that the host reads


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32), ("dtype", _DataType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    """DLManagedTensor: the tensor comes first."""

    _fields_ = [("tensor", _Tensor)]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


# Formats by code and bits (dlpack.h 1.1); codes of integers have no format.
_FORMATS = {(2, 32): "float32", (2, 16): "float16", (4, 16): "bfloat16", (10, 8): "e4m3", (12, 8): "e5m2", (14, 8): "e8m0",
            (1, 8): "uint8", (0, 8): "int8", (1, 16): "uint16"}
_FLOAT4 = 17


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(ctypes.pythonapi, name)
    function.restype, function.argtypes = result, arguments
    return function


_name_of = _function("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
_pointer_of = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)


def _tensor_in(capsule: Any, what: str) -> _Tensor:
    name = _name_of(capsule)
    if name == b"dltensor":
        tensor: _Tensor = _Managed.from_address(_pointer_of(capsule, name)).tensor
        return tensor
    if name != b"dltensor_versioned":
        raise UsageError(f"{what}.__dlpack__() gave a capsule {name!r}: dltensor or dltensor_versioned is needed")
    managed = _Versioned.from_address(_pointer_of(capsule, name))
    if managed.major != 1:
        raise UsageError(f"{what} is DLPack {managed.major}.{managed.minor}: 1.x is read")
    tensor = managed.tensor
    return tensor


def _capsule_of(x: Any, what: str) -> Any:
    device = x.__dlpack_device__()[0] if hasattr(x, "__dlpack_device__") else _CPU
    if int(device) not in (_CPU, _CUDA_HOST):
        raise UsageError(f"{what} is on a device (DLPack type {int(device)}): the reference computes on the CPU; give a copy in host memory")
    try:
        try:
            return x.__dlpack__(max_version=(1, 1))
        except TypeError:  # from before versions
            return x.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise UsageError(f"{what} cannot be exported: {error}") from None


def read(x: Any, what: str) -> Tuple[Any, int, Tuple[int, ...], Optional[Sequence[int]], str]:
    """The capsule, to be kept; address, shape, strides in elements (None: no gaps) and the name of the type."""
    capsule = _capsule_of(x, what)
    tensor = _tensor_in(capsule, what)
    if tensor.device.type not in (_CPU, _CUDA_HOST):
        raise UsageError(f"{what} is on a device (DLPack type {tensor.device.type}): give a copy in host memory")
    dtype = tensor.dtype
    if dtype.code == _FLOAT4:
        raise UsageError(f"{what} is FP4, of which libraries pack two in a byte in different ways: give one code a byte, as mxcheck.Values "
                         "of e2m1")
    name = _FORMATS.get((dtype.code, dtype.bits)) if dtype.lanes == 1 else None
    if name is None:
        raise UsageError(f"{what} has elements of DLPack type {dtype.code}, {dtype.bits} bits, {dtype.lanes} lanes: FP32, BF16, FP16, E4M3FN, "
                         "E5M2, E8M0 and bytes are taken")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = [tensor.strides[i] for i in range(tensor.ndim)] if tensor.strides else None
    return capsule, (tensor.data or 0) + tensor.byte_offset, shape, strides, name
