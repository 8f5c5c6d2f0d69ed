"""numpy with ml_dtypes, and torch: the same bytes as mxcheck.Values, and answers of the caller's kind. Skipped where they are not
installed."""

import importlib
import unittest

import command_line
import mxcheck


def module(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


numpy, ml_dtypes, torch = module("numpy"), module("ml_dtypes"), module("torch")


@unittest.skipUnless(numpy, "no numpy")
class Numpy(unittest.TestCase):
    def test_gives_the_same_bytes_as_arrays(self):
        x = command_line.words(7, 70, "fp32")
        array = numpy.frombuffer(x.data, dtype="float32").reshape(7, 70)
        for layout in ("compact", "tcgen05"):
            q, expected = mxcheck.quantize(array, layout=layout), mxcheck.quantize(x, layout=layout)
            self.assertIsInstance(q.codes, numpy.ndarray)
            self.assertEqual((q.codes.dtype, q.codes.shape), (numpy.uint8, (7, 70)))
            self.assertEqual((q.codes.tobytes(), q.scales.tobytes()), (expected.codes.tobytes(), expected.scales.tobytes()))
            y = q.dequantize()
            self.assertEqual((y.dtype, y.tobytes()), (numpy.float32, expected.dequantize().tobytes()))

    def test_answers_of_every_width(self):
        self.assertEqual(mxcheck.decode(numpy.array([[0x38, 0x7E]], dtype="uint8"), "e4m3").tolist(), [[1.0, 448.0]])
        rows = mxcheck.round_tokens(numpy.arange(64, dtype="float32").reshape(8, 8) % 7, 2, tile=4)
        self.assertEqual((rows.offsets.dtype, rows.row_token.dtype), (numpy.int64, numpy.int32))

    def test_rows_may_lie_apart(self):
        whole = numpy.arange(7 * 100, dtype="float32").reshape(7, 100)
        part = whole[1:6:2, 3:67]
        self.assertEqual(mxcheck.quantize(part).codes.tobytes(), mxcheck.quantize(part.copy()).codes.tobytes())
        for bad in (whole[:, ::2], whole[::-1], whole.T):
            with self.assertRaisesRegex(mxcheck.UsageError, "contiguous|rows"):
                mxcheck.quantize(bad)
        with self.assertRaisesRegex(mxcheck.UsageError, "gaps between rows"):
            mxcheck.cast(part, "e4m3")
        with self.assertRaisesRegex(mxcheck.UsageError, "swapped"):
            mxcheck.quantize(whole.astype(">f4"))
        with self.assertRaisesRegex(mxcheck.UsageError, "float64"):
            mxcheck.quantize(whole.astype("float64"))

    @unittest.skipUnless(ml_dtypes, "no ml_dtypes")
    def test_takes_ml_dtypes(self):
        x = command_line.words(5, 64, "bf16")
        array = numpy.frombuffer(x.data, dtype=ml_dtypes.bfloat16).reshape(5, 64)
        q = mxcheck.quantize(array)
        self.assertEqual(q.codes.tobytes(), mxcheck.quantize(x).codes.tobytes())
        q.codes = q.codes.view(ml_dtypes.float8_e4m3fn)
        self.assertEqual(q.dequantize("bf16").dtype, ml_dtypes.bfloat16)


@unittest.skipUnless(torch, "no torch")
class Torch(unittest.TestCase):
    def test_gives_the_same_bytes_as_tensors(self):
        x = command_line.words(7, 96, "bf16")
        tensor = torch.frombuffer(x.data, dtype=torch.bfloat16).reshape(7, 96)
        for format, dtype in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2), ("e2m1", torch.uint8)):
            q, expected = mxcheck.quantize(tensor, format), mxcheck.quantize(x, format)
            self.assertEqual((q.codes.dtype, tuple(q.codes.shape)), (dtype, (7, 96)))
            self.assertEqual(bytes(q.codes.view(torch.uint8).flatten().tolist()), expected.codes.tobytes())
            self.assertEqual(bytes(q.scales.view(torch.uint8).flatten().tolist()), expected.scales.tobytes())
            y = q.dequantize("bf16")
            self.assertEqual(y.dtype, torch.bfloat16)
            self.assertEqual(bytes(y.view(torch.uint8).flatten().tolist()), expected.dequantize("bf16").tobytes())

    def test_refuses_in_words(self):
        x = torch.ones(4, 32, requires_grad=True)
        with self.assertRaisesRegex(mxcheck.UsageError, "detach"):
            mxcheck.quantize(x)
        with self.assertRaisesRegex(mxcheck.UsageError, "contiguous|rows"):
            mxcheck.quantize(torch.ones(32, 64).T)
        with self.assertRaisesRegex(mxcheck.UsageError, "float64"):
            mxcheck.quantize(torch.ones(4, 32, dtype=torch.float64))
        with self.assertRaisesRegex(mxcheck.UsageError, "cpu"):
            mxcheck.quantize(torch.ones(4, 32, device="meta"))


if __name__ == "__main__":
    unittest.main()
