"""Tensors that are none, at every function that takes tensors: refused by a UsageError that names the argument and what would be right."""

import tempfile
import unittest

import mxcheck
import mxcheck.testing

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

ONES = b"\x00\x00\x80\x3f"


def fp32(*shape):
    count = 1
    for extent in shape:
        count *= extent
    return mxcheck.Values(bytearray(ONES * count), shape, "fp32")


GOLDEN = "none.h5"  # no candidate gets as far as the golden
Q = mxcheck.quantize(fp32(4, 32))


def with_codes(x):
    return mxcheck.Quantized(x, Q.scales, "e4m3", "rceil", "1x32", "compact")


def with_scales(x):
    return mxcheck.Quantized(Q.codes, x, "e4m3", "rceil", "1x32", "compact")


def layer_of(x):
    return {"X": x, "W1": fp32(2, 32, 8), "W2": fp32(2, 4, 32), "logits": fp32(4, 2)}


# Every argument that is a tensor: its name in messages, the call, and whether it is one of values (else of codes, of any type).
TAKERS = [
    ("x", lambda x: mxcheck.quantize(x), True),
    ("out.codes", lambda x: mxcheck.quantize(fp32(4, 32), out=with_codes(x)), False),
    ("codes", lambda x: mxcheck.dequantize(with_codes(x)), False),
    ("scales", lambda x: mxcheck.dequantize(with_scales(x)), False),
    ("out", lambda x: mxcheck.dequantize(Q, out=x), False),
    ("x", lambda x: mxcheck.cast(x, "e4m3"), True),
    ("codes", lambda x: mxcheck.decode(x, "e4m3"), False),
    ("a", lambda x: mxcheck.matmul(x, fp32(4, 32), "exact"), False),
    ("b", lambda x: mxcheck.matmul(fp32(4, 32), x, "exact"), False),
    ("a.codes", lambda x: mxcheck.matmul(with_codes(x), Q, "exact"), False),
    ("b.scales", lambda x: mxcheck.matmul(Q, with_scales(x), "exact"), False),
    ("c", lambda x: mxcheck.matmul(fp32(4, 32), fp32(32, 32), "exact", c=x), False),
    ("a", lambda x: mxcheck.mma(x, Q.codes, "sm90_fp8"), False),
    ("scale_b", lambda x: mxcheck.mma(Q.codes, Q.codes, "sm90_fp8+promote32", scale_b=x), False),
    ("a", lambda x: mxcheck.explain(x, fp32(4, 32), (0, 0), "exact"), False),
    ("scales", lambda x: mxcheck.scale_layout(x, (4, 128), to="tcgen05", layout="compact"), False),
    ("logits", lambda x: mxcheck.route(x, 2), True),
    ("bias", lambda x: mxcheck.route(fp32(4, 32), 2, bias=x), True),
    ("logits", lambda x: mxcheck.round_tokens(x, 2), True),
    ("X", lambda x: mxcheck.layer(layer_of(x), "mxfp8", top_k=1), False),
    ("W1", lambda x: mxcheck.layer(dict(layer_of(fp32(4, 32)), W1=x), "mxfp8", top_k=1), False),
    ("logits", lambda x: mxcheck.layer(layer_of(fp32(4, 32)), "mxfp8", x, 1), False),
    ("bias", lambda x: mxcheck.layer(layer_of(fp32(4, 32)), "mxfp8", top_k=1, bias=x), False),
    ("A", lambda x: mxcheck.verify_layer(layer_of(fp32(4, 32)), {"A": x}, "mxfp8", top_k=1), False),
    ("codes", lambda x: mxcheck.golden.verify({"codes": x}, GOLDEN), False),
    ("actual", lambda x: mxcheck.testing.assert_bits_equal(x, fp32(4, 32)), False),
    ("x", lambda x: mxcheck.testing.assert_quantized(x, Q.codes, Q.scales), True),
]


class Inputs(unittest.TestCase):
    def each(self, x, *words, skip=()):
        for name, call, values in TAKERS:
            if name in skip or (values and "values" in skip) or (not values and "codes" in skip):
                continue
            with self.subTest(name, x=type(x).__name__), self.assertRaises(mxcheck.UsageError) as raised:
                call(x)
            for word in (name, *words):
                self.assertIn(word, str(raised.exception))

    def test_what_is_no_tensor(self):
        for x in (["a"], 3, "x", object()):
            self.each(x, "numpy arrays, torch tensors on the CPU")
        self.each(None, "NoneType", skip=("out", "c", "bias", "scale_b", "logits"))  # which may be None

    def test_bytes_that_are_not_those_of_the_shape(self):
        for name, call, _ in TAKERS:
            wrong = AssertionError if name == "actual" else mxcheck.UsageError  # bytes are what an assertion is about
            with self.subTest(name), self.assertRaises(wrong):
                call(mxcheck.Values(bytearray(3), (4, 32), "fp32"))

    def test_types_that_are_none(self):
        for dtype in ("fp64", "int64", "e4m3"):
            self.each(mxcheck.Values(bytearray(8 * 128), (4, 32), dtype), "float32", skip=("codes",))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch(self):
        self.each(torch.ones(4, 32, requires_grad=True), "gradient", ".detach()")
        self.each(torch.empty(4, 32, device="meta"), "meta", "cpu()")
        self.each(torch.ones(4, 32).to_sparse(), "dense")
        self.each(torch.ones(4, 64)[:, ::2], "contiguous")
        self.each(torch.ones(32, 4).t(), "contiguous")
        self.each(torch.ones(4, 32, dtype=torch.float64), "float64", skip=("codes",))
        if hasattr(torch, "float4_e2m1fn_x2"):
            packed = torch.zeros(4, 32, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
            self.each(packed, "one code a byte")

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_numpy(self):
        self.each(numpy.ones((4, 32), ">f4"), "swapped", "newbyteorder")
        self.each(numpy.ones((4, 64), numpy.float32)[:, ::2], "contiguous")
        self.each(numpy.ones((4, 32), numpy.float32)[::-1], "backwards")
        self.each(numpy.ones((4, 32), numpy.float64), "float64", skip=("codes",))
        self.each(numpy.ones((4, 32), complex), "complex128", skip=("codes",))
        for kind in ("O", "S4", "U1", "M8[s]"):
            self.each(numpy.zeros((4, 32), kind), "a type of numbers is needed")

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_rows_apart_are_read_or_refused(self):
        """Values' rows may lie apart; codes' are refused, but in files."""
        wide = numpy.frombuffer(ONES * 256, numpy.float32).reshape(4, 64)[:, :32]
        self.assertEqual(mxcheck.quantize(wide).codes.tobytes(), Q.codes.tobytes())
        self.assertEqual(mxcheck.route(wide, 2).experts.tobytes(), mxcheck.route(fp32(4, 32), 2).experts.tobytes())
        for name, call, values in TAKERS:
            if not values and name not in ("X", "W1", "logits", "bias", "A") and "golden" not in call.__code__.co_names:
                with self.subTest(name), self.assertRaisesRegex(mxcheck.UsageError, "gaps|bytes|shape"):
                    call(wide)

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_inputs_are_never_changed(self):
        with tempfile.TemporaryDirectory() as folder:
            x = numpy.frombuffer(ONES * 128, numpy.float32).reshape(4, 32).copy()
            before = x.tobytes()
            q = mxcheck.quantize(x)
            codes, scales = q.codes.tobytes(), q.scales.tobytes()
            mxcheck.dequantize(q)
            mxcheck.matmul(q, q, "exact")
            mxcheck.mma(q.codes, q.codes, "sm90_fp8+promote32", scale_a=q.scales, scale_b=q.scales)
            mxcheck.cast(x, "e4m3")
            mxcheck.route(x, 2)
            mxcheck.golden.make({"suite": "s", "goldens": [{"name": "g", "kind": "quantize", "input": x, "format": "e4m3", "block": "1x32",
                                                            "recipe": "rceil"}]}, folder)
            self.assertTrue(mxcheck.golden.verify({"codes": q.codes, "scales": q.scales}, folder + "/g.h5"))
            self.assertEqual((x.tobytes(), q.codes.tobytes(), q.scales.tobytes()), (before, codes, scales))


if __name__ == "__main__":
    unittest.main()
