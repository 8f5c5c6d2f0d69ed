"""Tensors come back as the kind that came in: lists and mxcheck.Values, numpy, torch. Formats, types and blocks by the names that they have there."""

import unittest

import mxcheck

try:
    import numpy
except ImportError:
    numpy = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import torch
except ImportError:
    torch = None

X = [[float(i % 7) - 3 for i in range(64)] for _ in range(4)]
BITS = mxcheck.quantize(X)


class Lists(unittest.TestCase):
    def test_a_list_is_answered_with_values(self):
        self.assertEqual((BITS.codes.shape, BITS.codes.dtype, BITS.scales.shape), ((4, 64), "e4m3", (4, 2)))
        self.assertEqual(BITS.dequantize().tolist(), X)
        self.assertEqual(mxcheck.matmul([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.5]], "exact").tolist(), [[11.0, 18.0]])
        self.assertEqual(mxcheck.route([[0.0, 2.0, 1.0, 2.0]], 2).experts.tolist(), [[1, 3]])
        self.assertEqual(mxcheck.cast([1.0, -2.0], "bf16").tolist(), [1.0, -2.0])
        self.assertEqual(mxcheck.cast([1.0, 70000.0], "fp16", overflow="non_saturate").tolist(), [1.0, float("inf")])
        self.assertEqual(mxcheck.quantize([]).codes.tolist(), [])

    def test_values_have_numbers(self):
        self.assertEqual(mxcheck.Values(bytes([1, 0, 255, 255]), (2,), "int16").tolist(), [1, -1])
        self.assertEqual(mxcheck.Values(bytes(range(4)), (2, 2), "e8m0").tolist(), [[0, 1], [2, 3]])
        self.assertEqual(mxcheck.Values(b"", (0, 3), "fp32").tolist(), [])
        self.assertEqual(mxcheck.Values(b"", (2, 0), "fp32").tolist(), [[], []])


class Names(unittest.TestCase):
    def same(self, *arguments, **options):
        self.assertEqual(mxcheck.quantize(X, *arguments, **options).codes.tobytes(), BITS.codes.tobytes())

    def test_formats_and_blocks_by_other_names(self):
        for name in ("e4m3", "e4m3fn", "float8_e4m3fn"):
            self.same(name)
        for block in ((1, 32), [1, 32], "1x32"):
            self.same(block=block)
        self.assertEqual([mxcheck.formats(name).name for name in ("bfloat16", "half", "float32", "e8m0fnu", "e2m1fn", "float6_e3m2fn")],
                         ["bf16", "fp16", "fp32", "e8m0", "e2m1", "e3m2"])
        self.assertEqual(mxcheck.quantize(X, block=(32, 1)).block, "32x1")
        scales = mxcheck.scale_layout(BITS.scales, (4, 64), (1, 32), layout="compact", to="tcgen05")
        self.assertEqual(scales.tobytes(), mxcheck.quantize(X, layout="tcgen05").scales.tobytes())
        made = mxcheck.candidate("quantize", recipes="rceil", formats=["float8_e4m3fn"], blocks=(1, 32), types=["float32", "bfloat16"])(print)
        self.assertEqual((made.offers["format"], made.offers["block"], made.types), (("e4m3",), ("1x32",), ("fp32", "bf16")))

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_types_of_numpy(self):
        self.assertEqual(mxcheck.dequantize(BITS, numpy.float32).dtype, "fp32")
        self.assertEqual(mxcheck.matmul(X, X, "exact", numpy.dtype("float16")).dtype, "fp16")
        if ml_dtypes is not None:
            self.same(ml_dtypes.float8_e4m3fn)
            self.assertEqual(mxcheck.dequantize(BITS, numpy.dtype(ml_dtypes.bfloat16)).dtype, "bf16")

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_types_of_torch(self):
        self.same(torch.float8_e4m3fn)
        self.assertEqual(mxcheck.dequantize(BITS, torch.bfloat16).dtype, "bf16")
        self.assertEqual(mxcheck.formats(torch.half).name, "fp16")
        made = mxcheck.candidate("quantize", recipes="rceil", formats=torch.float8_e4m3fn, blocks="1x32", types=[torch.float32, torch.bfloat16])(print)
        self.assertEqual((made.offers["format"], made.types), (("e4m3",), ("fp32", "bf16")))


@unittest.skipIf(numpy is None, "numpy is not installed")
class Numpy(unittest.TestCase):
    def test_numpy_comes_back(self):
        x = numpy.array(X, numpy.float32)
        q = mxcheck.quantize(x)
        tensors = [q.codes, q.scales, q.dequantize(), mxcheck.matmul(q, q, "exact"), mxcheck.mma(q.codes, q.codes, "sm90_fp8"),
                   mxcheck.cast(x, "e4m3"), mxcheck.decode(q.codes, "e4m3"), mxcheck.route(x, 2).experts, mxcheck.round_tokens(x, 2).offsets,
                   mxcheck.quantize(x, recipe="fp32").scales]
        self.assertEqual([type(one) for one in tensors], [numpy.ndarray] * len(tensors))
        self.assertEqual([one.dtype.name for one in tensors], ["uint8", "uint8", "float32", "float32", "float32", "uint8", "float64", "int32", "int64",
                                                               "float32"])
        self.assertEqual(repr(q), "Quantized(codes=numpy uint8 4 x 64 [252, 248, 240, ...], scales=numpy uint8 4 x 2 [120, 120, 120, ...], format='e4m3', "
                                  "recipe='rceil', block='1x32', layout='compact')")
        self.assertEqual(mxcheck.quantize(x, threads=numpy.int64(1)).codes.tobytes(), BITS.codes.tobytes())

    def test_float64_is_told_how_to_be_float32(self):
        with self.assertRaisesRegex(mxcheck.UsageError, r"x is of float64: .* x.astype\('float32'\)"):
            mxcheck.quantize(numpy.array(X))

    def test_identify_calls_with_numpy(self):
        seen = []

        def f(a, b):
            seen.append((type(a), str(a.dtype)))
            return mxcheck.matmul(a, b, "sm90_fp16" if a.dtype == "float16" else "sm90_bf16")

        self.assertTrue(mxcheck.identify(f, formats=("fp16", "fp16"), shape=(4, 4, 48), names=["sm90_fp16"]))
        self.assertEqual(set(seen), {(numpy.ndarray, "float16")})
        seen.clear()
        self.assertTrue(mxcheck.identify(f, shape=(4, 4, 48)))
        self.assertEqual(set(seen), {(numpy.ndarray, "bfloat16")} if ml_dtypes else {(mxcheck.Values, "bf16")})
        if ml_dtypes is None:
            with self.assertRaisesRegex(mxcheck.UsageError, "pip install ml_dtypes"):
                mxcheck.identify(f, arrays="numpy")
        self.assertTrue(mxcheck.identify(lambda a, b: a.astype(numpy.float32) @ b.astype(numpy.float32).T, formats=("fp32", "fp32"), shape=(2, 2, 1),
                                         tree=False))


@unittest.skipIf(torch is None, "torch is not installed")
class Torch(unittest.TestCase):
    def test_torch_comes_back(self):
        x = torch.tensor(X)
        q = mxcheck.quantize(x)
        e8m0 = getattr(torch, "float8_e8m0fnu", torch.uint8)
        tensors = [q.codes, q.scales, q.dequantize(), mxcheck.dequantize(q, torch.bfloat16), mxcheck.matmul(q, q, "exact"), mxcheck.cast(x, "e5m2"),
                   mxcheck.route(x, 2).experts]
        self.assertEqual([one.dtype for one in tensors], [torch.float8_e4m3fn, e8m0, torch.float32, torch.bfloat16, torch.float32, torch.float8_e5m2,
                                                          torch.int32])
        self.assertNotIn("\n", repr(q))
        mxcheck.testing.assert_quantized(x, q.codes, q.scales, torch.float8_e4m3fn, "rceil", (1, 32))
        mxcheck.testing.assert_quantized(x, q.codes.view(torch.uint8), q.scales.view(torch.uint8))

    def test_identify_calls_with_torch(self):
        found = mxcheck.identify(lambda a, b: mxcheck.matmul(a, b, "sm90_fp8"), formats=(torch.float8_e4m3fn, "e5m2"), shape=(4, 4, 64), arrays="torch")
        self.assertIn("sm90_fp8", found.names)


if __name__ == "__main__":
    unittest.main()
