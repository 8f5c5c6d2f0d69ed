"""Tensors of other libraries by DLPack: capsules made here, and numpy's and torch's where they are installed."""

import array
import ctypes
import unittest

import mxcheck
from mxcheck import _dlpack

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Tensor:
    """A tensor of a library that has nothing but DLPack."""

    def __init__(self, data, shape, dtype=(2, 32, 1), strides=None, device=1, version=(1, 1), offset=0):
        self.data = bytearray(data)
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        tensor = _dlpack._Tensor((ctypes.c_char * len(self.data)).from_buffer(self.data) and ctypes.addressof(
            ctypes.c_char.from_buffer(self.data)), _dlpack._Device(device, 0), len(shape), _dlpack._DataType(*dtype), self.shape, self.strides, offset)
        if version is None:
            self.managed, self.name = _dlpack._Managed(tensor), b"dltensor"
        else:
            self.managed, self.name = _dlpack._Versioned(*version, None, None, 0, tensor), b"dltensor_versioned"
        self.device = device
        if version is None:
            self.__class__ = Legacy

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self, max_version=None):
        return _new_capsule(ctypes.addressof(self.managed), self.name, None)


class Legacy(Tensor):
    """From before versions: no max_version."""

    def __dlpack__(self):
        return _new_capsule(ctypes.addressof(self.managed), self.name, None)


VALUES = array.array("f", [i * 0.37 - 9 for i in range(96)])


class Read(unittest.TestCase):
    expected = mxcheck.quantize(mxcheck.Values(VALUES, (3, 32), "fp32"))

    def same(self, x):
        q = mxcheck.quantize(x)
        self.assertEqual((q.codes.tobytes(), q.scales.tobytes()), (self.expected.codes.tobytes(), self.expected.scales.tobytes()))
        self.assertIsInstance(q.codes, mxcheck.Values)

    def test_versioned_and_not(self):
        self.same(Tensor(VALUES.tobytes(), (3, 32)))
        self.same(Tensor(VALUES.tobytes(), (3, 32), version=None))
        self.same(Tensor(VALUES.tobytes(), (3, 32), strides=(32, 1), version=(1, 9)))
        self.same(Tensor(bytes(8) + VALUES.tobytes(), (3, 32), offset=8))

    def test_rows_that_lie_apart(self):
        wide = array.array("f")
        for row in range(3):
            wide.extend(VALUES[row * 32 : row * 32 + 32])
            wide.extend([7e7] * 5)
        self.same(Tensor(wide.tobytes(), (3, 32), strides=(37, 1)))

    def test_codes(self):
        codes = Tensor(bytes([0x38, 0x40, 0x7E, 0xB8]), (2, 2), (10, 8, 1))
        self.assertEqual(array.array("d", mxcheck.decode(codes, "e4m3").tobytes()).tolist(), [1, 2, 448, -1])
        self.assertEqual(array.array("f", mxcheck.matmul(codes, codes, "exact").tobytes()).tolist(), [5, 446, 446, 200705])

    def test_what_is_refused(self):
        for tensor, words in (
            (Tensor(bytes(64), (4, 4), device=2), ("device", "host")),
            (Tensor(bytes(64), (4, 4), version=(2, 0)), ("2.0", "1.x")),
            (Tensor(bytes(16), (4, 4), (17, 4, 2)), ("FP4", "one code a byte")),
            (Tensor(bytes(16), (4, 4), (17, 4, 1)), ("FP4",)),
            (Tensor(bytes(128), (4, 4), (2, 64, 1)), ("64 bits",)),
            (Tensor(bytes(64), (4, 4), (10, 8, 1)), ("e4m3", "float32")),
            (Tensor(bytes(64), (4, 4), strides=(1, 4)), ("gaps", "contiguous")),
        ):
            with self.assertRaises(mxcheck.UsageError) as raised:
                mxcheck.quantize(tensor)
            for word in words:
                self.assertIn(word, str(raised.exception))

    def test_an_export_that_fails(self):
        class Broken:
            def __dlpack__(self, **_):
                raise BufferError("read-only")

        with self.assertRaises(mxcheck.UsageError) as raised:
            mxcheck.quantize(Broken())
        self.assertIn("read-only", str(raised.exception))

    def test_numpy_and_torch_by_nothing_but_dlpack(self):
        class Only:
            def __init__(self, x):
                self.__dlpack__, self.__dlpack_device__ = x.__dlpack__, x.__dlpack_device__

        seen = 0
        try:
            import numpy

            self.same(Only(numpy.frombuffer(VALUES.tobytes(), dtype="float32").reshape(3, 32).copy()))
            seen += 1
        except ImportError:
            pass
        try:
            import torch

            self.same(Only(torch.tensor(VALUES.tolist()).reshape(3, 32)))
            seen += 1
        except ImportError:
            pass
        if seen == 0:
            self.skipTest("neither numpy nor torch is installed")


if __name__ == "__main__":
    unittest.main()
