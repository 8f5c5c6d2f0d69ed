"""The part of torch that mxcheck asks for, where torch is not installed: tensors on the CPU without gaps, and the types of the tests.

    torch = fake_torch.real_or_fake()
    with fake_torch.in_place(torch): mxcheck.quantize(torch.frombuffer(...))
"""

import contextlib
import ctypes
import importlib
import sys
import types
from unittest import mock


class DType:
    def __init__(self, name, width, kind="B"):
        self.name, self.width, self.kind = name, width, kind

    def __repr__(self):
        return "torch." + self.name


DType.__module__ = "torch"  # by which a type is told from other values


class Tensor:
    """Bytes of a type and shape."""

    requires_grad, layout, device = False, "strided", types.SimpleNamespace(type="cpu")

    def __init__(self, data, dtype, shape):
        self.data, self.dtype, self.shape = data, dtype, tuple(shape)

    def data_ptr(self):
        return ctypes.addressof(ctypes.c_char.from_buffer(self.data)) if len(self.data) else 0

    def numel(self):
        return len(self.data) // self.dtype.width

    def element_size(self):
        return self.dtype.width

    def stride(self):
        steps = [1]
        for extent in reversed(self.shape[1:]):
            steps.insert(0, steps[0] * extent)
        return tuple(steps[: len(self.shape)])

    def view(self, dtype):
        if dtype.width != self.dtype.width:
            raise RuntimeError("another width")
        return Tensor(self.data, dtype, self.shape)

    def reshape(self, *shape):
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        return Tensor(self.data, self.dtype, shape if shape != (-1,) else (self.numel(),))

    def flatten(self):
        return self.reshape(-1)

    def tolist(self):
        if self.dtype.name.startswith("float4") or len(self.shape) != 1:
            raise RuntimeError("no values of it")
        return memoryview(self.data).cast("B").cast(self.dtype.kind).tolist()


def _module():
    torch = types.ModuleType("torch")
    torch.Tensor, torch.strided = Tensor, "strided"
    for name, width, kind in (("uint8", 1, "B"), ("float32", 4, "f"), ("bfloat16", 2, "H"), ("float16", 2, "H"), ("float8_e4m3fn", 1, "B"),
                              ("float8_e5m2", 1, "B"), ("float8_e8m0fnu", 1, "B"), ("float4_e2m1fn_x2", 1, "B")):
        setattr(torch, name, DType(name, width, kind))
    torch.frombuffer = lambda data, dtype: Tensor(data, dtype, (len(data) // dtype.width,))
    torch.empty = lambda count, dtype: Tensor(bytearray(), dtype, (count,))
    return torch


def real_or_fake():
    try:
        return importlib.import_module("torch")
    except ImportError:
        return _module()


@contextlib.contextmanager
def in_place(torch):
    """sys.modules has it meanwhile."""
    with mock.patch.dict(sys.modules, {"torch": torch}):
        yield torch
